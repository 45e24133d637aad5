"""The local signer as the gateway sees it: journal first, one signature for one thing, one withdrawal for one claim."""

import asyncio
import contextlib
import hashlib
import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from coincurve import PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.core.chain import Signature, SigningRequest
from gateway.core.errors import SignerError, SignerRefused, SignerUnavailable
from gateway.core.signing import Signer, SigningOrder
from gateway.signers import keyfile, memory
from gateway.signers.algorithms import ED25519, SECP256K1_DIGEST
from gateway.signers.keyfile import CHEAP, Password
from gateway.signers.local import LocalSigner
from tests.unit.signers.conftest import PASSWORD, MakeOrder, Place

ROOT = Path(__file__).parents[3]
DIGEST = hashlib.sha256(b"a transaction").digest()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[SigningRequest]:
    """Every request for which a key really signed."""
    requests: list[SigningRequest] = []
    real = LocalSigner._make

    def note(self: LocalSigner, request: SigningRequest) -> Signature:
        requests.append(request)
        return real(self, request)

    monkeypatch.setattr(LocalSigner, "_make", note)
    return requests


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One item for every fsync of the journal."""
    done: list[int] = []
    real = os.fdatasync

    def note(handle: int) -> None:
        real(handle)
        done.append(handle)

    monkeypatch.setattr(os, "fdatasync", note)
    return done


async def in_one_batch(
    signer: LocalSigner, *calls: Coroutine[Any, Any, Sequence[tuple[Signature, ...]]]
) -> list[Sequence[tuple[Signature, ...]] | BaseException]:
    """Let all calls arrive while the signer is busy, so that it serves them together."""
    release = threading.Event()
    busy = asyncio.get_running_loop().run_in_executor(signer._thread, release.wait, 30)
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    assert len(signer._waiting) == len(tasks)
    release.set()
    await busy
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_it_is_a_signer(signer: LocalSigner) -> None:
    port: Signer = signer
    assert port is signer


async def test_signatures_are_of_the_public_key(signer: LocalSigner, order: MakeOrder) -> None:
    requests = (
        SigningRequest("vault/1", SECP256K1_DIGEST, DIGEST),
        SigningRequest("vault/2", ED25519, b"a whole message"),
    )
    ((first, second),) = await signer.sign([order(requests=requests)])
    assert first.recovery is not None
    found = PublicKey.from_signature_and_message(first.data + bytes([first.recovery]), DIGEST, hasher=None)
    assert found.format() == await signer.public_key("vault/1", SECP256K1_DIGEST)
    public = await signer.public_key("vault/2", ED25519)
    Ed25519PublicKey.from_public_bytes(public).verify(second.data, b"a whole message")


async def test_public_keys_are_compressed_lasting_and_one_for_each_name(place: Place, signer: LocalSigner) -> None:
    one = await signer.public_key("vault/1", SECP256K1_DIGEST)
    assert len(one) == 33
    assert one[0] in (2, 3)
    assert len(await signer.public_key("vault/1", ED25519)) == 32
    assert await signer.public_key("vault/2", SECP256K1_DIGEST) != one
    await signer.close()
    again = await place.open()
    assert await again.public_key("vault/1", SECP256K1_DIGEST) == one
    await again.close()


async def test_signatures_come_in_the_order_of_the_orders(signer: LocalSigner, order: MakeOrder) -> None:
    orders = [order(n) for n in range(1, 30)]
    together = await signer.sign(orders)
    singly = [(await signer.sign([one]))[0] for one in orders]
    assert list(together) == singly
    assert await signer.sign([]) == ()


async def test_the_journal_says_what_was_signed(signer: LocalSigner, order: MakeOrder) -> None:
    orders = [order(1, record=b"one"), order(2, record=b"two", claims=("a", "b"))]
    await signer.sign(orders)
    lines = await signer.journal()
    assert [line.sequence for line in lines] == [1, 2]
    for line, asked in zip(lines, orders, strict=True):
        assert (line.withdrawal_id, line.attempt_id) == (asked.withdrawal_id, asked.attempt_id)
        assert (line.chain, line.address, line.claims) == (asked.chain, asked.address, asked.claims)
        assert line.record == asked.record
        assert line.digest == hashlib.sha256(asked.requests[0].data).digest()
    assert [line.sequence for line in await signer.journal(after=1)] == [2]


async def test_a_hundred_orders_share_one_fsync(signer: LocalSigner, order: MakeOrder, syncs: list[int]) -> None:
    await signer.sign([order(n) for n in range(100)])
    assert len(syncs) == 1
    assert len(await signer.journal()) == 100


async def test_orders_that_arrive_together_share_fsyncs(
    signer: LocalSigner, order: MakeOrder, syncs: list[int]
) -> None:
    await in_one_batch(signer, *(signer.sign([order(n)]) for n in range(100)))
    assert len(await signer.journal()) == 100
    assert len(syncs) == 1


async def test_no_signature_returns_before_the_journal_is_durable_and_the_loop_is_free(
    signer: LocalSigner, order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, release = threading.Event(), threading.Event()

    def wait(handle: int) -> None:
        reached.set()
        assert release.wait(30)

    monkeypatch.setattr(os, "fdatasync", wait)
    asked = asyncio.create_task(signer.sign([order()]))
    deadline = time.monotonic() + 30
    while not reached.is_set():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0.001)
        assert not asked.done()
    release.set()
    assert len((await asked)[0][0].data) == 64


async def test_when_the_journal_cannot_be_written_no_signature_is_given_out(
    place: Place, signer: LocalSigner, order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fail)
        results = await in_one_batch(signer, *(signer.sign([order(n)]) for n in range(3)))
    assert all(isinstance(r, SignerUnavailable) for r in results)
    with pytest.raises(SignerUnavailable):
        await signer.sign([order(1)])
    await signer.close()
    again = await place.open()
    assert await again.journal() == []
    await again.sign([order(1)])
    await again.close()


# the same again


async def test_the_same_order_signs_once(
    signer: LocalSigner, order: MakeOrder, made: list[SigningRequest], syncs: list[int]
) -> None:
    first = await signer.sign([order()])
    for _ in range(3):
        assert await signer.sign([order()]) == first
    assert await signer.sign([order(), order()]) == (first[0], first[0])
    assert len(made) == 1
    assert len(syncs) == 1
    assert len(await signer.journal()) == 1


async def test_the_same_order_asked_at_once_by_many_signs_once(
    signer: LocalSigner, order: MakeOrder, made: list[SigningRequest]
) -> None:
    results = await in_one_batch(signer, *(signer.sign([order()]) for _ in range(20)))
    assert isinstance(results[0], tuple)
    assert all(r == results[0] for r in results)
    assert len(made) == 1
    assert len(await signer.journal()) == 1


async def test_after_a_restart_the_stored_signature_is_returned(
    place: Place, signer: LocalSigner, order: MakeOrder, made: list[SigningRequest]
) -> None:
    first = await signer.sign([order(1), order(2)])
    await signer.close()
    made.clear()
    again = await place.open()
    assert await again.sign([order(1), order(2)]) == first
    assert made == []
    assert len(await again.journal()) == 2
    await again.close()


async def test_a_signature_too_old_to_be_remembered_is_made_again_and_is_the_same(
    place: Place, signer: LocalSigner, order: MakeOrder, made: list[SigningRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await signer.sign([order(1), order(2), order(3)])
    await signer.close()
    made.clear()
    monkeypatch.setattr(memory, "REMEMBERED", 2)
    again = await place.open()
    assert await again.sign([order(1), order(2), order(3)]) == first
    assert [r.data for r in made] == [order(1).requests[0].data]
    lines = await again.journal()
    assert [line.attempt_id for line in lines] == [order(n).attempt_id for n in (1, 2, 3, 1)]
    await again.close()


async def test_another_attempt_of_the_same_bytes_is_a_line_but_not_a_second_signature(
    signer: LocalSigner, order: MakeOrder, made: list[SigningRequest]
) -> None:
    request = (SigningRequest("vault/1", SECP256K1_DIGEST, DIGEST),)
    first = await signer.sign([order(1, requests=request)])
    second = await signer.sign([order(2, withdrawal=1, claims=("0xabc:1",), requests=request)])
    assert first == second
    assert len(made) == 1
    assert len(await signer.journal()) == 2


async def test_what_differs_is_signed_apart(signer: LocalSigner, order: MakeOrder) -> None:
    requests = (
        SigningRequest("vault/1", SECP256K1_DIGEST, DIGEST),
        SigningRequest("vault/2", SECP256K1_DIGEST, DIGEST),
        SigningRequest("vault/1", ED25519, DIGEST),
        SigningRequest("vault/1", SECP256K1_DIGEST, bytes(32)),
    )
    ((*signatures,),) = await signer.sign([order(requests=requests)])
    assert len(set(signatures)) == 4


# the second lock


async def test_a_claim_signed_for_another_withdrawal_is_refused(
    place: Place, signer: LocalSigner, order: MakeOrder, made: list[SigningRequest]
) -> None:
    await signer.sign([order(1, claims=("nonce 7", "other"))])
    made.clear()
    thief = order(2, claims=("fresh", "nonce 7"))
    with pytest.raises(SignerRefused, match=f"{thief.withdrawal_id}: nonce 7 on evm-local was signed"):
        await signer.sign([thief])
    await signer.close()
    again = await place.open()
    with pytest.raises(SignerRefused):
        await again.sign([thief])
    assert made == []
    assert len(await again.journal()) == 1
    await again.sign([order(3, claims=("fresh",))])
    await again.close()


async def test_a_claim_is_refused_however_long_ago_it_was_signed(
    place: Place, signer: LocalSigner, order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await signer.sign([order(n) for n in range(10)])
    await signer.close()
    monkeypatch.setattr(memory, "REMEMBERED", 2)
    again = await place.open()
    with pytest.raises(SignerRefused):
        await again.sign([order(99, claims=order(0).claims)])
    await again.close()


async def test_the_same_withdrawal_may_sign_its_claim_again(signer: LocalSigner, order: MakeOrder) -> None:
    await signer.sign([order(1, claims=("nonce 7",))])
    await signer.sign([order(2, withdrawal=1, claims=("nonce 7", "nonce 8"))])
    with pytest.raises(SignerRefused):
        await signer.sign([order(3, claims=("nonce 8",))])
    assert len(await signer.journal()) == 2


async def test_the_same_claim_on_another_chain_is_another_claim(signer: LocalSigner, order: MakeOrder) -> None:
    await signer.sign([order(1, claims=("nonce 7",), chain="one")])
    await signer.sign([order(2, claims=("nonce 7",), chain="two")])
    with pytest.raises(SignerRefused):
        await signer.sign([order(3, claims=("nonce 7",), chain="two")])


async def test_two_withdrawals_in_one_call_cannot_share_a_claim_and_neither_is_signed(
    signer: LocalSigner, order: MakeOrder
) -> None:
    with pytest.raises(SignerRefused):
        await signer.sign([order(1, claims=("nonce 7",)), order(2, claims=("nonce 7",))])
    assert await signer.journal() == []
    await signer.sign([order(2, claims=("nonce 7",))])


async def test_of_two_that_race_for_a_claim_one_is_signed_and_others_are_not_held_up(
    signer: LocalSigner, order: MakeOrder
) -> None:
    calls = [signer.sign([order(n, claims=("nonce 7",))]) for n in (1, 2, 3)] + [signer.sign([order(9)])]
    results = await in_one_batch(signer, *calls)
    assert [isinstance(r, SignerRefused) for r in results] == [False, True, True, False]
    assert {line.claims for line in await signer.journal()} == {("nonce 7",), order(9).claims}


async def test_a_refused_call_leaves_no_claim_behind(signer: LocalSigner, order: MakeOrder) -> None:
    bad = order(2, requests=(SigningRequest("vault/1", SECP256K1_DIGEST, b"short"),))
    with pytest.raises(SignerRefused, match="exactly 32 bytes"):
        await signer.sign([order(1, claims=("nonce 7",)), bad])
    assert await signer.journal() == []
    await signer.sign([order(3, claims=("nonce 7",))])


# what cannot be signed


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (SigningRequest("k", SECP256K1_DIGEST, bytes(31)), "exactly 32 bytes"),
        (SigningRequest("k", SECP256K1_DIGEST, bytes(33)), "exactly 32 bytes"),
        (SigningRequest("k", "rsa", bytes(32)), "'rsa'"),
        (SigningRequest("", ED25519, b"m"), "name"),
    ],
)
async def test_what_cannot_be_signed_is_refused_and_not_journaled(
    signer: LocalSigner, order: MakeOrder, request_: SigningRequest, text: str
) -> None:
    with pytest.raises(SignerRefused, match=text):
        await signer.sign([order(requests=(request_,))])
    assert await signer.journal() == []


async def test_an_order_without_anything_to_sign_is_refused(signer: LocalSigner, order: MakeOrder) -> None:
    one = order()
    empty = SigningOrder(one.withdrawal_id, one.attempt_id, "c", "a", one.claims, b"", ())
    with pytest.raises(SignerRefused, match="nothing to sign"):
        await signer.sign([empty])


# opening, closing, one owner


async def test_creating_never_overwrites_either_file(place: Place) -> None:
    for lost in (place.keys, place.journal):
        content = lost.read_bytes()
        lost.unlink()
        before = {p: p.read_bytes() for p in (place.keys, place.journal) if p.exists()}
        with pytest.raises(SignerUnavailable, match="exists already"):
            await LocalSigner.create(place.keys, place.journal, Password(PASSWORD), work=CHEAP)
        assert {p: p.read_bytes() for p in (place.keys, place.journal) if p.exists()} == before
        lost.write_bytes(content)


async def test_the_journal_of_another_key_file_does_not_open(tmp_path: Path, place: Place) -> None:
    other = Place(tmp_path / "other.keys", tmp_path / "other.journal")
    await LocalSigner.create(other.keys, other.journal, Password(PASSWORD), work=CHEAP)
    with pytest.raises(SignerUnavailable, match="another key file"):
        await Place(place.keys, other.journal).open()


async def test_a_closed_signer_does_nothing(signer: LocalSigner, order: MakeOrder) -> None:
    await signer.close()
    await signer.close()
    for call in (signer.sign([order()]), signer.public_key("k", ED25519), signer.journal()):
        with pytest.raises(SignerUnavailable, match="closed"):
            await call


async def test_closing_finishes_what_is_being_signed(place: Place, signer: LocalSigner, order: MakeOrder) -> None:
    asked = asyncio.create_task(signer.sign([order()]))
    await asyncio.sleep(0)
    await signer.close()
    assert len((await asked)[0][0].data) == 64


async def test_a_caller_that_goes_away_holds_up_nobody(signer: LocalSigner, order: MakeOrder) -> None:
    calls = [asyncio.create_task(signer.sign([order(n)])) for n in range(20)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(r, tuple) for r in results[1::2])
    assert len(await signer.sign([order(100)])) == 1


async def test_another_process_cannot_open_the_journal(place: Place) -> None:
    with process(place, "await asyncio.sleep(60)") as other:
        assert other.stdout is not None
        assert await asyncio.to_thread(other.stdout.readline) == "open\n"
        with pytest.raises(SignerUnavailable, match=f"in use by process {other.pid} on "):
            await place.open()
        other.kill()
        other.wait()
        again = await place.open()
        await again.close()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_process_killed_around_the_fsync_loses_no_line_and_signs_the_same(
    place: Place, moment: str, order: MakeOrder, made: list[SigningRequest]
) -> None:
    body = f"""
real = os.fdatasync
def die(handle):
    if {moment!r} == "after":
        real(handle)
    os.kill(os.getpid(), signal.SIGKILL)
os.fdatasync = die
signatures = await signer.sign([the_order])
print("a signature got out", signatures, flush=True)
"""
    with process(place, body) as other:
        out, _ = await asyncio.to_thread(other.communicate, None, 60)
        assert other.returncode == -signal.SIGKILL
        assert out == "open\n"
    again = await place.open()
    (line,) = await again.journal()
    assert line.claims == order(1).claims
    ((kept,),) = await again.sign([order(1)])
    assert made == [], "the signature of the killed process is the one that counts"
    assert len(await again.journal()) == 1
    with pytest.raises(SignerRefused):
        await again.sign([order(2, claims=order(1).claims)])
    public = await again.public_key("vault/1", SECP256K1_DIGEST)
    assert kept.recovery is not None
    found = PublicKey.from_signature_and_message(
        kept.data + bytes([kept.recovery]), order(1).requests[0].data, hasher=None
    )
    assert found.format() == public
    await again.close()


@contextlib.contextmanager
def process(place: Place, body: str):  # type: ignore[no-untyped-def]
    """Run a signer in a process of its own; it says "open" when it is."""
    code = f"""
import asyncio, hashlib, os, signal
from pathlib import Path
from uuid import UUID
from gateway.core.chain import SigningRequest
from gateway.core.signing import SigningOrder
from gateway.signers.keyfile import Password
from gateway.signers.local import LocalSigner

digest = hashlib.sha256(b"transaction 1").digest()
the_order = SigningOrder(UUID(int=1), UUID(int=1_000_001), "evm-local", "0xabc", ("0xabc:1",), b"record",
                         (SigningRequest("vault/1", "secp256k1-digest", digest),))

async def main():
    signer = await LocalSigner.open(Path({str(place.keys)!r}), Path({str(place.journal)!r}), Password({PASSWORD!r}))
    print("open", flush=True)
{chr(10).join("    " + row for row in body.strip().splitlines())}

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
        try:
            yield other
        finally:
            other.kill()


# secrets


async def test_no_secret_is_in_a_log_an_error_a_text_or_a_file(
    place: Place, order: MakeOrder, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    seed = keyfile.open(place.keys, Password(PASSWORD))._seed
    keys = keyfile.Keys(seed)
    derived = [keys.derive("vault/1", a) for a in (SECP256K1_DIGEST, ED25519)]
    shown = io.StringIO()
    with structlog.testing.capture_logs() as logs:
        signer = await place.open()
        print(signer, vars(signer), file=shown)
        await signer.sign([order()])
        await signer.public_key("vault/1", ED25519)
        print(signer, vars(signer), signer._keys, signer._made, signer._journal, file=shown)
        for bad in (order(2, claims=order(1).claims), order(3, requests=(SigningRequest("vault/1", "x", b""),))):
            try:
                await signer.sign([bad])
            except SignerError as error:
                found = traceback.TracebackException.from_exception(error, capture_locals=True)
                shown.writelines(found.format())
        await signer.close()
        with place.journal.open("ab") as file:
            file.write(b"\0")
        await (await place.open()).close()
    assert "SignerRefused" in shown.getvalue()
    assert logs
    captured = capsys.readouterr()
    texts = shown.getvalue() + caplog.text + str(logs) + captured.out + captured.err
    texts = texts.replace(f"seed = {seed!r}", "").replace(f"derived = {derived!r}", "")
    files = [p.read_bytes() for p in place.keys.parent.iterdir()]
    for secret in (seed, *derived, PASSWORD.encode()):
        for form in (secret.hex(), repr(secret), str(int.from_bytes(secret, "big"))):
            assert form not in texts
            assert not any(form.encode() in content for content in files)
        assert not any(secret in content for content in files)
    assert PASSWORD not in texts
