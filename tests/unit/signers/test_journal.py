"""The signer's journal: durable before it returns, one owner, and no damage that goes unnoticed."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import cbor2
import pytest
from structlog.testing import capture_logs

from gateway.core.chain import Signature
from gateway.core.errors import SignerUnavailable
from gateway.core.ids import AttemptId, WithdrawalId
from gateway.core.signing import JournalLine
from gateway.signers import journal as journals
from gateway.signers.journal import Entry, Journal, Made

FINGERPRINT = b"f" * 16


def entry(sequence: int) -> Entry:
    return Entry(
        JournalLine(
            sequence,
            WithdrawalId(UUID(int=sequence)),
            AttemptId(UUID(int=100 + sequence)),
            "chain",
            "address",
            (f"claim {sequence}", "shared"),
            b"record",
            hashlib.sha256(b"%d" % sequence).digest(),
        ),
        (Made("key", "ed25519", bytes(32), Signature(b"s" * 64)), Made("key", "x", bytes(32), Signature(b"t", 1))),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "journal"
    journals.create(made, FINGERPRINT)
    return made


def head(path: Path) -> Path:
    return path.with_name("journal.head")


def write(path: Path, *batches: int) -> list[int]:
    """Add batches of so many lines; return where the file ended before the first one and after each."""
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    ends = [path.stat().st_size]
    for size in batches:
        journal.append([entry(journal.sequence + n) for n in range(1, size + 1)])
        ends.append(path.stat().st_size)
    journal.close()
    return ends


def lines(path: Path) -> list[int]:
    """Open, and return the numbers of the lines that were there."""
    seen: list[Entry] = []
    journal = Journal.open(path, FINGERPRINT, seen.append)
    try:
        assert seen == [entry(n) for n in range(1, len(seen) + 1)]
        assert list(journal.entries()) == seen
        assert journal.sequence == len(seen)
        return [e.line.sequence for e in seen]
    finally:
        journal.close()


def copies(path: Path) -> Iterator[Path]:
    return path.parent.glob("journal.torn-*")


def test_what_is_written_is_read_back_in_order(path: Path) -> None:
    write(path, 1, 3, 2)
    assert lines(path) == [1, 2, 3, 4, 5, 6]
    write(path, 1)
    assert lines(path) == [1, 2, 3, 4, 5, 6, 7]


def test_lines_are_read_from_after_a_number_while_others_are_added(path: Path) -> None:
    write(path, 2, 3)
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    reading = journal.entries(after=3)
    assert next(reading).line.sequence == 4
    journal.append([entry(6)])
    assert [e.line.sequence for e in reading] == [5], "what was durable when the reading began"
    assert [e.line.sequence for e in journal.entries(5)] == [6]
    journal.close()


def test_a_line_must_follow_the_newest(path: Path) -> None:
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    for wrong in ([entry(2)], [entry(1), entry(3)], [entry(0)]):
        with pytest.raises(ValueError, match="does not follow"):
            journal.append(wrong)
    journal.append([entry(1)])
    journal.close()
    assert lines(path) == [1]


def test_a_new_journal_is_private_and_never_made_twice(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(SignerUnavailable, match="exists already"):
        journals.create(path, FINGERPRINT)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["journal"]


def test_a_lost_journal_is_not_begun_anew(path: Path) -> None:
    write(path, 1)
    path.unlink()
    with pytest.raises(SignerUnavailable, match="does not exist; without it a second payment"):
        lines(path)
    with pytest.raises(SignerUnavailable, match="there was a journal"):
        journals.create(path, FINGERPRINT)


def test_the_folder_is_made_durable_when_a_journal_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def note(handle: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr(os, "fsync", note)
    journals.create(tmp_path / "journal", FINGERPRINT)
    assert synced == [False, True]


def test_what_a_killed_process_left_is_made_durable_before_it_is_believed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, 1)
    steps: list[str] = []
    real = os.fsync

    def note(handle: int) -> None:
        real(handle)
        steps.append("durable")

    monkeypatch.setattr(os, "fsync", note)
    Journal.open(path, FINGERPRINT, lambda e: steps.append(f"line {e.line.sequence}")).close()
    assert steps == ["durable", "line 1"]


# power loss: an unfinished block at the end


def test_a_block_cut_anywhere_is_put_aside_and_the_lines_before_it_stay(path: Path) -> None:
    _, before, _ = write(path, 2, 1)
    whole = path.read_bytes()
    for end in range(before + 1, len(whole)):
        head(path).unlink(missing_ok=True)
        path.write_bytes(whole[:end])
        with capture_logs() as logs:
            assert lines(path) == [1, 2], f"cut at {end}"
        (copy,) = copies(path)
        assert copy.read_bytes() == whole[before:end]
        assert [(log["log_level"], log["at"], log["bytes"]) for log in logs] == [("warning", before, end - before)]
        assert path.read_bytes() == whole[:before]
        copy.unlink()


@pytest.mark.parametrize("zeros", [32, 33, 100, 1_000_000])
def test_space_that_was_given_but_never_written_is_unfinished(path: Path, zeros: int) -> None:
    _, before, end = write(path, 1, 1)
    whole = path.read_bytes()
    head(path).unlink()
    keep = max(before, end - zeros)
    path.write_bytes(whole[:keep] + bytes(end - keep if keep > before else zeros))
    assert lines(path) == [1]
    write(path, 1)
    assert lines(path) == [1, 2]


def test_after_a_cut_the_journal_goes_on(path: Path) -> None:
    _, before, end = write(path, 1, 1)
    head(path).unlink()
    os.truncate(path, end - 1)
    write(path, 2)
    assert lines(path) == [1, 2, 3]
    assert path.stat().st_size > before


def test_a_cut_of_lines_that_were_durable_is_damage(path: Path) -> None:
    _, before, end = write(path, 1, 1)
    whole = path.read_bytes()
    for short in (whole[:before], whole[: end - 1], whole[:before] + bytes(end - before)):
        path.write_bytes(short)
        with pytest.raises(SignerUnavailable, match="ends at line 1, but line 2 was written"):
            lines(path)
        assert path.read_bytes() == short, "the evidence stays"
    path.write_bytes(whole)
    assert lines(path) == [1, 2]


def test_an_older_head_is_no_reproach_and_an_unreadable_one_is_passed_over(path: Path) -> None:
    write(path, 1)
    old = head(path).read_bytes()
    write(path, 1)
    for content in (old, b"", b"{", bytes(512), b'{"sequence": "x"}'):
        head(path).write_bytes(content)
        assert lines(path) == [1, 2]


def test_a_head_of_another_journal_is_noticed(path: Path) -> None:
    write(path, 1)
    content = head(path).read_text()
    hash_ = content.split('"hash": "')[1][:64]
    head(path).write_text(content.replace(hash_, "0" * 64))
    with pytest.raises(SignerUnavailable, match="do not belong together"):
        lines(path)


# damage


def test_a_changed_byte_anywhere_is_damage_and_nothing_is_cut(path: Path) -> None:
    write(path, 2, 1, 1)
    whole = path.read_bytes()
    head(path).unlink()
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :]
        path.write_bytes(changed)
        with pytest.raises(SignerUnavailable, match=r"damaged|no beginning"):
            lines(path)
        assert path.read_bytes() == changed
        assert not list(copies(path))
        head(path).unlink(missing_ok=True)
    path.write_bytes(whole)
    assert lines(path) == [1, 2, 3, 4]


def test_a_length_that_reaches_past_the_end_is_damage_and_not_an_unfinished_block(path: Path) -> None:
    begin, *_ = write(path, 1, 1)
    whole = bytearray(path.read_bytes())
    head(path).unlink()
    whole[begin + 4 : begin + 8] = (2**31).to_bytes(4, "big")
    path.write_bytes(whole)
    with pytest.raises(SignerUnavailable, match=f"damaged in the block that begins at byte {begin}"):
        lines(path)


def test_lost_swapped_doubled_and_foreign_blocks_are_damage(path: Path, tmp_path: Path) -> None:
    a, b, c, d = write(path, 1, 1, 1)
    whole = path.read_bytes()
    start, one, two, three = whole[:a], whole[a:b], whole[b:c], whole[c:d]
    for blocks in (
        [start, two, three],
        [start, one, three],
        [start, two, one, three],
        [start, one, one, two, three],
        [one, two, three],
        [start, one, start, two, three],
        [start, bytes(len(one)), two, three],
    ):
        head(path).unlink(missing_ok=True)
        path.write_bytes(b"".join(blocks))
        with pytest.raises(SignerUnavailable, match="damaged"):
            lines(path)


def test_a_gap_in_the_numbers_is_damage_even_with_sound_hashes(path: Path) -> None:
    begin, _ = write(path, 1)
    whole = path.read_bytes()[:begin]
    first_hash = whole[-32:]
    block, _hash = journals._frame(first_hash, cbor2.dumps([journals._pack(entry(2))]))
    path.write_bytes(whole + block)
    head(path).unlink()
    with pytest.raises(SignerUnavailable, match="damaged"):
        lines(path)


@pytest.mark.parametrize("body", [b"\xff", cbor2.dumps(3), cbor2.dumps([[1, 2]]), cbor2.dumps([[1] * 9])])
def test_a_line_of_another_program_is_not_read(path: Path, body: bytes) -> None:
    whole = path.read_bytes()
    block, _hash = journals._frame(whole[-32:], body)
    path.write_bytes(whole + block)
    with pytest.raises(SignerUnavailable, match="cannot read"):
        lines(path)


@pytest.mark.parametrize(
    ("beginning", "text"),
    [
        ({"format": "other"}, "not a signer's journal"),
        ({"version": 2}, "has version 2"),
        ({"keys": b"g" * 16}, "another key file"),
    ],
)
def test_another_kind_of_journal_is_refused(tmp_path: Path, beginning: dict[str, object], text: str) -> None:
    path = tmp_path / "journal"
    body = {"format": journals.FORMAT, "version": journals.VERSION, "keys": FINGERPRINT, "id": b""}
    path.write_bytes(journals._frame(bytes(32), cbor2.dumps({**body, **beginning}))[0])
    with pytest.raises(SignerUnavailable, match=text):
        lines(path)


@pytest.mark.parametrize("content", [b"", b"\0", bytes(500), b"text that is no journal"])
def test_a_file_without_a_beginning_is_never_taken_for_an_empty_journal(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SignerUnavailable, match=r"is empty|no beginning|damaged"):
        lines(path)
    assert path.read_bytes() == content


# one owner


def test_a_second_opener_is_told_who_has_it(path: Path) -> None:
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    with pytest.raises(SignerUnavailable, match=f"in use by process {os.getpid()} on "):
        lines(path)
    journal.append([entry(1)])
    journal.close()
    journal.close()
    assert lines(path) == [1]
    with pytest.raises(SignerUnavailable, match="it is closed"):
        journal.append([entry(2)])


def test_a_refused_opener_leaves_the_lock_free(path: Path) -> None:
    with pytest.raises(SignerUnavailable, match="another key file"):
        Journal.open(path, b"g" * 16, lambda _: None)
    assert lines(path) == []


@pytest.mark.parametrize(
    ("meddle", "text"),
    [
        (lambda p: p.unlink(), "the file is gone"),
        (lambda p: (p.rename(f"{p}.old"), p.write_bytes(p.with_name("journal.old").read_bytes())), "took its place"),
        (lambda p: os.truncate(p, p.stat().st_size - 1), "somebody else wrote"),
        (lambda p: p.write_bytes(p.read_bytes() + b"x"), "somebody else wrote"),
    ],
)
def test_a_file_that_was_meddled_with_takes_no_more(path: Path, meddle: Callable[[Path], object], text: str) -> None:
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    journal.append([entry(1)])
    meddle(path)
    for _ in range(2):
        with pytest.raises(SignerUnavailable, match=text):
            journal.append([entry(2)])
    journal.close()


# a disk that fails


def test_a_full_disk_takes_nothing_and_can_be_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    journal.append([entry(1)])
    before = path.read_bytes()
    real = os.pwrite

    def half(handle: int, data: bytes, at: int) -> int:
        if at > len(before) + 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, bytes(data)[:10], at)

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", half)
        with pytest.raises(SignerUnavailable, match="cannot be written: No space left"):
            journal.append([entry(2)])
    assert path.read_bytes() == before
    journal.append([entry(2)])
    journal.close()
    assert lines(path) == [1, 2]


def test_after_a_failed_sync_nothing_is_written_until_it_is_opened_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    journal.append([entry(1)])
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", failing_sync)
        with pytest.raises(SignerUnavailable, match="the disk failed"):
            journal.append([entry(2)])
    with pytest.raises(SignerUnavailable, match="restart when it is sound"):
        journal.append([entry(2)])
    journal.close()
    assert lines(path) == [1]


def test_a_block_that_cannot_be_taken_back_stops_the_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", failing_write)
        broken.setattr(os, "ftruncate", failing_write)
        with pytest.raises(SignerUnavailable, match="cannot be written"):
            journal.append([entry(1)])
    with pytest.raises(SignerUnavailable, match="could not be taken back"):
        journal.append([entry(1)])
    journal.close()


def test_writes_that_the_system_cuts_short_are_finished(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(path, FINGERPRINT, lambda _: None)
    real = os.pwrite
    with monkeypatch.context() as slow:
        slow.setattr(os, "pwrite", lambda handle, data, at: real(handle, bytes(data)[:7], at))
        journal.append([entry(1)])
    journal.append([entry(2)])
    journal.close()
    head(path).unlink()
    assert lines(path) == [1, 2]


def failing_sync(handle: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def failing_write(*_: object) -> int:
    raise OSError(errno.EIO, "Input/output error")
