"""The signer's own journal: an append-only file that says what was signed, kept apart from every database.

The file is a chain of blocks. One block is one batch: its lines become durable together, or none exists.

    block  = seal of the length (4 bytes) · length of the body (4) · body (CBOR) · hash (32)
    hash   = SHA-256(hash of the block before · body); the seal is the start of SHA-256(hash before · length)
    body 0 = {format, version, keys: fingerprint of the key file, id: random}
    body n = [line, …]
    line   = [sequence, withdrawal, attempt, chain, address, claims, record, digest, signatures]

A changed, lost or moved byte anywhere breaks the chain. Beside it lies `<name>.head`: the newest sequence and
hash, written after each batch without waiting, so that a loss of whole blocks at the end is noticed too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID

import cbor2
import structlog

from gateway.core.chain import Signature
from gateway.core.errors import SignerUnavailable
from gateway.core.ids import AttemptId, WithdrawalId
from gateway.core.signing import JournalLine
from gateway.signers.keyfile import sync_folder

FORMAT: Final = "withdrawal-gateway-journal"
VERSION: Final = 1

_LENGTH: Final = struct.Struct(">I")
_SEAL: Final = 4
_BEFORE: Final = _SEAL + _LENGTH.size
_HASH: Final = 32
_START: Final = bytes(_HASH)
_LARGEST: Final = 2**30
_HEAD_SIZE: Final = 512
_CHUNK: Final = 1 << 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Made:
    """A signature and what it was made for: (key, algorithm, SHA-256 of the bytes)."""

    key: str
    algorithm: str
    digest: bytes
    signature: Signature


@dataclass(frozen=True, slots=True)
class Entry:
    """One line with the signatures that were made for it."""

    line: JournalLine
    made: tuple[Made, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """A block as it stands in the file: where it ends, its hash and its body."""

    end: int
    hash: bytes
    body: bytes


class Journal:
    """An open journal: only this process has it. For one thread, but `entries` may run in another."""

    def __init__(self, path: Path, handle: int, head: int) -> None:
        """Not for callers: `open` makes it."""
        self._path = path
        self._handle = handle
        self._head = head
        self._broken = ""
        self._end = 0
        self._hash = _START
        self.sequence = 0
        """The number of the newest line."""

    @classmethod
    def open(cls, path: Path, fingerprint: bytes, visit: Callable[[Entry], None]) -> Journal:
        """Open a journal, check all of it, and hand every line to `visit`, oldest first.

        An unfinished block at the end (power loss while it was written: no signature of it was given out) is
        put aside in a file of its own and cut off. SignerUnavailable: the journal is missing, in use,
        damaged, shorter than it was, or was kept for another key file.
        """
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SignerUnavailable(
                f"journal {path} does not exist; without it a second payment could be signed: bring it back"
            ) from None
        except OSError as error:
            raise SignerUnavailable(f"journal {path} cannot be opened: {error.strerror}") from error
        head = -1
        try:
            _lock(handle, path)
            head = os.open(_head_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            journal = cls(path, handle, head)
            journal._load(fingerprint, visit)
            return journal
        except OSError as error:
            _close(handle, head)
            raise SignerUnavailable(f"journal {path} cannot be opened: {error.strerror}") from error
        except BaseException:
            _close(handle, head)
            raise

    def append(self, entries: Sequence[Entry]) -> None:
        """Write one batch and return when it is durable. SignerUnavailable: none of it counts.

        Each line's sequence must follow the newest one. A full disk can be tried again later; after any other
        doubt about the file the journal takes no more until it is opened again.
        """
        if self._broken:
            raise SignerUnavailable(f"journal {self._path}: {self._broken}")
        for number, entry in enumerate(entries, self.sequence + 1):
            if entry.line.sequence != number:
                raise ValueError(f"line {entry.line.sequence} does not follow line {number - 1}")
        body = cbor2.dumps([_pack(entry) for entry in entries])
        if len(body) > _LARGEST:
            raise SignerUnavailable(f"journal {self._path}: a batch of {len(body)} bytes is too large")
        block, hash_ = _frame(self._hash, body)
        self._check_file()
        try:
            _write_all(self._handle, block, self._end)
        except OSError as error:
            self._take_back()
            raise SignerUnavailable(f"journal {self._path} cannot be written: {error.strerror}") from error
        try:
            os.fdatasync(self._handle)
        except OSError as error:
            # What the disk holds now is not known, and asking it again would not tell.
            self._broken = f"the disk failed ({error.strerror}); restart when it is sound"
            self._take_back()
            raise SignerUnavailable(f"journal {self._path}: {self._broken}") from error
        self._hash = hash_
        self._end += len(block)
        self.sequence += len(entries)
        self._note_head()

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Read the lines that follow `after` and are durable now, one block in memory at a time.

        May run in another thread while lines are added.
        """
        end = self._end
        with self._path.open("rb") as file:
            previous = _START
            while file.tell() < end:
                block = _next_block(file, self._path, previous, end)
                if block is None:
                    raise SignerUnavailable(f"journal {self._path} became shorter while it was open")
                if previous != _START:
                    for entry in _unpack(block, self._path):
                        if entry.line.sequence > after:
                            yield entry
                previous = block.hash

    def close(self) -> None:
        """Let another process have it; may be called twice."""
        if self._handle >= 0:
            _close(self._handle, self._head)
        self._handle = self._head = -1
        self._broken = self._broken or "it is closed"

    def _load(self, fingerprint: bytes, visit: Callable[[Entry], None]) -> None:
        # What a killed process wrote and did not wait for is made durable before it is believed.
        os.fsync(self._handle)
        size = os.fstat(self._handle).st_size
        with os.fdopen(os.dup(self._handle), "rb") as file:
            file.seek(0)
            while file.tell() < size:
                start, first = file.tell(), self._end == 0
                block = _next_block(file, self._path, self._hash, size)
                if block is None:
                    if first:
                        raise SignerUnavailable(f"journal {self._path} has no beginning; bring it back from a copy")
                    self._check_head()
                    self._cut(file, start, size)
                    break
                if first:
                    _check_beginning(block.body, self._path, fingerprint)
                else:
                    for entry in _unpack(block, self._path):
                        if entry.line.sequence != self.sequence + 1:
                            raise _damaged(self._path, start)
                        self.sequence += 1
                        visit(entry)
                self._hash, self._end = block.hash, block.end
        if self._end == 0:
            raise SignerUnavailable(f"journal {self._path} is empty; bring it back from a copy")
        self._check_head()
        self._note_head()

    def _cut(self, file: BinaryIO, start: int, size: int) -> None:
        aside = self._path.with_name(f"{self._path.name}.torn-{start}-{secrets.token_hex(4)}")
        file.seek(start)
        with aside.open("xb") as copy:
            while chunk := file.read(_CHUNK):
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
        sync_folder(self._path.parent)
        os.ftruncate(self._handle, start)
        os.fsync(self._handle)
        _log.warning(
            "the journal ended in an unfinished block; it was cut off",
            journal=str(self._path),
            at=start,
            bytes=size - start,
            kept_in=str(aside),
        )

    def _check_head(self) -> None:
        noted = _read_head(self._head)
        if noted is not None and noted[0] > self.sequence:
            raise SignerUnavailable(
                f"journal {self._path} ends at line {self.sequence}, but line {noted[0]} was written:"
                " lines are missing at its end; bring the whole journal back"
            )
        if noted is not None and noted[0] == self.sequence and noted[1] != self._hash.hex():
            raise SignerUnavailable(
                f"journal {self._path} and {_head_path(self._path)} do not belong together; bring both back"
            )

    def _note_head(self) -> None:
        """Say how far the journal reaches and who has it; a hint that is not waited for and may be lost."""
        text = json.dumps(
            {
                "sequence": self.sequence,
                "hash": self._hash.hex(),
                "owner": f"process {os.getpid()} on {socket.gethostname()[:64]}",
            }
        )
        with suppress(OSError):
            os.pwrite(self._head, text.encode().ljust(_HEAD_SIZE), 0)

    def _check_file(self) -> None:
        """Raise SignerUnavailable unless the path still names the file that is open here, as it was left."""
        try:
            mine, named = os.fstat(self._handle), os.stat(self._path)
        except OSError as error:
            raise self._give_up(f"the file is gone ({error.strerror}); bring it back") from error
        if (mine.st_dev, mine.st_ino) != (named.st_dev, named.st_ino):
            raise self._give_up("another file took its place; bring it back")
        if mine.st_size != self._end:
            raise self._give_up("somebody else wrote to it; bring it back from a copy")

    def _take_back(self) -> None:
        """Remove a block that failed, so that it is not read later as one that counts."""
        try:
            os.ftruncate(self._handle, self._end)
            os.fsync(self._handle)
        except OSError as error:
            self._broken = f"a failed line could not be taken back ({error.strerror}); restart"

    def _give_up(self, why: str) -> SignerUnavailable:
        self._broken = why
        return SignerUnavailable(f"journal {self._path}: {why}")


def create(path: Path, fingerprint: bytes) -> None:
    """Begin a journal for a key file. SignerUnavailable: it exists already, or cannot be written."""
    body = cbor2.dumps({"format": FORMAT, "version": VERSION, "keys": fingerprint, "id": secrets.token_bytes(16)})
    block, _ = _frame(_START, body)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        if _head_path(path).exists():
            raise SignerUnavailable(f"{_head_path(path)} exists, so there was a journal {path}; bring it back")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write_all(handle, block, 0)
            os.fsync(handle)
            os.link(temporary, path)
        finally:
            os.close(handle)
            os.unlink(temporary)
        sync_folder(path.parent)
    except FileExistsError:
        raise SignerUnavailable(f"journal {path} exists already; a journal is never overwritten") from None
    except OSError as error:
        raise SignerUnavailable(f"journal {path} cannot be written: {error.strerror}") from error


def _frame(previous: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return a block's bytes and its hash."""
    length = _LENGTH.pack(len(body))
    hash_ = hashlib.sha256(previous + body).digest()
    return _seal(previous, length) + length + body + hash_, hash_


def _seal(previous: bytes, length: bytes) -> bytes:
    return hashlib.sha256(previous + length).digest()[:_SEAL]


def _next_block(file: BinaryIO, path: Path, previous: bytes, size: int) -> _Block | None:
    """Read the block at the file's position; None when it is the last one and was never finished.

    Unfinished: the file ends before the block does, or its end was never written (zeros).
    Anything else that does not fit the chain is damage, and is not guessed about.
    """
    start = file.tell()
    before = file.read(_BEFORE)
    if len(before) < _BEFORE:
        return None
    seal, length_bytes = before[:_SEAL], before[_SEAL:]
    if seal != _seal(previous, length_bytes):
        if _only_zeros(before, file):
            return None
        raise _damaged(path, start)
    (length,) = _LENGTH.unpack(length_bytes)
    end = start + _BEFORE + length + _HASH
    if end > size:
        return None
    body, hash_ = file.read(length), file.read(_HASH)
    if hashlib.sha256(previous + body).digest() != hash_:
        if end == size and hash_ == _START:
            return None
        raise _damaged(path, start)
    return _Block(end, hash_, body)


def _only_zeros(first: bytes, file: BinaryIO) -> bool:
    chunk = first
    while chunk:
        if any(chunk):
            return False
        chunk = file.read(_CHUNK)
    return True


def _pack(entry: Entry) -> list[Any]:
    line = entry.line
    return [
        line.sequence,
        line.withdrawal_id.bytes,
        line.attempt_id.bytes,
        line.chain,
        line.address,
        list(line.claims),
        line.record,
        line.digest,
        [[m.key, m.algorithm, m.digest, m.signature.data, m.signature.recovery] for m in entry.made],
    ]


def _unpack(block: _Block, path: Path) -> Iterator[Entry]:
    try:
        for sequence, withdrawal, attempt, chain, address, claims, record, digest, made in cbor2.loads(block.body):
            yield Entry(
                JournalLine(
                    sequence,
                    WithdrawalId(UUID(bytes=withdrawal)),
                    AttemptId(UUID(bytes=attempt)),
                    chain,
                    address,
                    tuple(claims),
                    record,
                    digest,
                ),
                tuple(
                    Made(key, algorithm, of, Signature(data, recovery)) for key, algorithm, of, data, recovery in made
                ),
            )
    except (cbor2.CBORDecodeError, ValueError, TypeError) as error:
        raise SignerUnavailable(f"journal {path} holds a line that this program cannot read") from error


def _check_beginning(body: bytes, path: Path, fingerprint: bytes) -> None:
    try:
        found = cbor2.loads(body)
        kind, version, keys = found["format"], found["version"], found["keys"]
    except (cbor2.CBORDecodeError, KeyError, TypeError):
        kind = version = keys = None
    if kind != FORMAT:
        raise SignerUnavailable(f"{path} is not a signer's journal")
    if version != VERSION:
        raise SignerUnavailable(f"journal {path} has version {version!r}; this program reads version {VERSION}")
    if keys != fingerprint:
        raise SignerUnavailable(f"journal {path} was kept for another key file")


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SignerUnavailable(f"journal {path} is in use by {_owner(path)}; two signers must not share one") from None


def _owner(path: Path) -> str:
    try:
        return str(json.loads(_head_path(path).read_text())["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _head_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.head")


def _read_head(handle: int) -> tuple[int, str] | None:
    try:
        found = json.loads(os.pread(handle, _HEAD_SIZE, 0))
        return int(found["sequence"]), str(found["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_all(handle: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written


def _close(*handles: int) -> None:
    for handle in handles:
        if handle >= 0:
            os.close(handle)


def _damaged(path: Path, start: int) -> SignerUnavailable:
    return SignerUnavailable(
        f"journal {path} is damaged in the block that begins at byte {start}; bring it back from a copy"
    )
