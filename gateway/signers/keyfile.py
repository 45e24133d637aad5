"""The encrypted key file: one random seed under a password, and every key derived from it by name."""

from __future__ import annotations

import json
import os
import secrets
import stat
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gateway.core.errors import ConfigError, SignerRefused, SignerUnavailable
from gateway.signers.algorithms import ED25519, SECP256K1_DIGEST, SECP256K1_ORDER

FORMAT: Final = "withdrawal-gateway-keys"
VERSION: Final = 1
STRONG: Final = 2**15
"""Scrypt's n for real keys: 32 MiB and about 0.1 s for every guess at the password."""
CHEAP: Final = 2**8
"""Scrypt's n for local networks, where the password protects nothing."""

_MOST_WORK: Final = 2**20
_BLOCK, _PARALLEL = 8, 1
_SEED_LENGTH: Final = 32
_LARGEST: Final = 64 * 1024
_DERIVATION: Final = b"withdrawal-gateway/key/v1"
_FINGERPRINT: Final = b"withdrawal-gateway/fingerprint/v1"


class Password:
    """A password that no text shows by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Password(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a password is not written down")

    def encode(self) -> bytes:
        """Return its bytes: the same for the same characters, however the keyboard composed them."""
        return unicodedata.normalize("NFC", self._text).encode()


class Keys:
    """An opened key file: derives the secret of every named key."""

    __slots__ = ("_seed", "fingerprint")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != _SEED_LENGTH:
            raise ValueError(f"a seed has {_SEED_LENGTH} bytes")
        self._seed = seed
        self.fingerprint = self._stretch(_FINGERPRINT, 16)
        """Names this seed without telling it."""

    def __repr__(self) -> str:
        return f"<keys {self.fingerprint.hex()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are not written down but in their key file")

    def derive(self, name: str, algorithm: str) -> bytes:
        """Return the 32 secret bytes of a named key: a secp256k1 scalar in range, or an Ed25519 seed.

        HKDF-SHA-256 (RFC 5869) over the seed. It must never change: addresses that hold money hang on it.
        """
        if not name:
            raise SignerRefused("a key needs a name")
        info = b"\0".join((_DERIVATION, algorithm.encode(), name.encode()))
        if algorithm == SECP256K1_DIGEST:
            # 128 bits more than the order has, so that the reduction favours no scalar (FIPS 186-5, A.2.1).
            wide = int.from_bytes(self._stretch(info, 48), "big")
            return (wide % (SECP256K1_ORDER - 1) + 1).to_bytes(32, "big")
        if algorithm == ED25519:
            return self._stretch(info, 32)
        raise SignerRefused(f"no key of algorithm {algorithm!r} can be derived")

    def _stretch(self, info: bytes, length: int) -> bytes:
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(self._seed)


def create(path: Path, password: Password, *, work: int = STRONG) -> Keys:
    """Make a key file with a new random seed. Never overwrites: SignerUnavailable when `path` exists."""
    if not password.encode():
        raise SignerUnavailable(f"key file {path}: an empty password protects nothing")
    seed, salt, nonce = secrets.token_bytes(_SEED_LENGTH), secrets.token_bytes(16), secrets.token_bytes(12)
    parameters = {
        "format": FORMAT,
        "version": VERSION,
        "kdf": {"name": "scrypt", "n": work, "r": _BLOCK, "p": _PARALLEL, "salt": salt.hex()},
        "cipher": {"name": "aes-256-gcm", "nonce": nonce.hex()},
    }
    sealed = AESGCM(_file_key(password, work, salt)).encrypt(nonce, seed, _canonical(parameters))
    text = json.dumps({**parameters, "sealed": sealed.hex()}, indent=2) + "\n"
    try:
        _write_new(path, text.encode())
    except FileExistsError:
        raise SignerUnavailable(f"key file {path} exists already; a key file is never overwritten") from None
    except OSError as error:
        raise SignerUnavailable(f"key file {path} cannot be written: {error.strerror}") from error
    return Keys(seed)


def open(path: Path, password: Password) -> Keys:
    """Open a key file. SignerUnavailable: it is missing, readable by others, not ours, or does not open."""
    content = _read_private(path, "key file")
    try:
        found = json.loads(content)
        if found["format"] != FORMAT:
            raise ValueError("another format")
        version = found["version"]
    except (ValueError, KeyError, TypeError):
        raise SignerUnavailable(f"{path} is not a key file, or it is damaged") from None
    if version != VERSION:
        raise SignerUnavailable(f"key file {path} has version {version!r}; this program reads version {VERSION}")
    try:
        kdf, cipher = found["kdf"], found["cipher"]
        sealed, salt, nonce = (bytes.fromhex(t) for t in (found["sealed"], kdf["salt"], cipher["nonce"]))
        work = kdf["n"]
        known = (kdf["name"], kdf["r"], kdf["p"], cipher["name"]) == (
            "scrypt",
            _BLOCK,
            _PARALLEL,
            "aes-256-gcm",
        )
        if not known or not isinstance(work, int) or not 2 <= work <= _MOST_WORK or work & (work - 1):
            raise ValueError("parameters that this program does not make")
        parameters = {name: value for name, value in found.items() if name != "sealed"}
        seed = AESGCM(_file_key(password, work, salt)).decrypt(nonce, sealed, _canonical(parameters))
        return Keys(seed)
    except InvalidTag:
        raise SignerUnavailable(
            f"key file {path} does not open: the password is wrong or the file is damaged"
            " (the two cannot be told apart)"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise SignerUnavailable(f"key file {path} is damaged") from None


def read_password(
    *, file: Path | None = None, variable: str | None = None, environ: Mapping[str, str] = os.environ
) -> Password:
    """Read the password from a file (its last line end is not part of it) or an environment variable.

    Raises ConfigError. There is no other way in: every user of the machine can read a command line.
    """
    if (file is None) == (variable is None):
        raise ConfigError(["the key file's password needs either a file or an environment variable"])
    if file is not None:
        try:
            content = _read_private(file, "password file")
            text = content.decode().removesuffix("\n").removesuffix("\r")
        except SignerUnavailable as error:
            raise ConfigError([str(error)]) from None
        except UnicodeDecodeError:
            raise ConfigError([f"password file {file} is not UTF-8 text"]) from None
        source = f"password file {file}"
    else:
        assert variable is not None
        text, source = environ.get(variable, ""), f"environment variable {variable}"
    if not text:
        raise ConfigError([f"{source} is empty or not set"])
    return Password(text)


def _file_key(password: Password, work: int, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=work, r=_BLOCK, p=_PARALLEL).derive(password.encode())


def _canonical(parameters: Mapping[str, Any]) -> bytes:
    """Everything that is not sealed is bound to what is, so that nobody can weaken a parameter."""
    return json.dumps(parameters, sort_keys=True, separators=(",", ":")).encode()


def _read_private(path: Path, what: str) -> bytes:
    """Read a small file that only its owner may read. SignerUnavailable otherwise."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode):
                raise SignerUnavailable(f"{what} {path} is not a file")
            if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise SignerUnavailable(
                    f"{what} {path} may be used by others than its owner"
                    f" (mode {stat.S_IMODE(facts.st_mode):04o}); run: chmod 600 {path}"
                )
            content = os.read(handle, _LARGEST + 1)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise SignerUnavailable(f"{what} {path} does not exist") from None
    except OSError as error:
        raise SignerUnavailable(f"{what} {path} cannot be read: {error.strerror}") from error
    if len(content) > _LARGEST:
        raise SignerUnavailable(f"{what} {path} is too large to be one")
    return content


def _write_new(path: Path, content: bytes) -> None:
    """Write a private file that is there whole or not at all. FileExistsError: something is there."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, never replaces what is there.
        os.link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
