"""PSBT (BIP 174), for a signer outside: the unsigned transaction goes out, signatures come back."""

from __future__ import annotations

import base64
import binascii

from embit.base import EmbitError
from embit.psbt import PSBT
from embit.script import Script
from embit.transaction import SIGHASH, TransactionOutput

from adapters.bitcoin.address import p2wpkh_script
from adapters.bitcoin.payload import decode
from adapters.bitcoin.transaction import compact_of, digests, is_signed_by, unsigned
from gateway.core.chain import Account, Signature
from gateway.core.errors import SignedMismatch

MAX_TEXT = 2_000_000


def to_psbt(coin: str, payload: bytes, account: Account) -> str:
    """Return an unsigned payload as base64 PSBT: every input with its amount, script and hash type."""
    draft = decode(coin, payload)
    script = Script(p2wpkh_script(account.public_key))
    psbt = PSBT(unsigned(draft))
    for scope, spend in zip(psbt.inputs, draft.inputs, strict=True):
        scope.witness_utxo = TransactionOutput(spend.amount, script)
        scope.sighash_type = SIGHASH.ALL
    return base64.b64encode(psbt.serialize()).decode()


def from_psbt(coin: str, text: str, payload: bytes, account: Account) -> tuple[Signature, ...]:
    """Return the account's signature of each input, from a PSBT that was signed or already finalized.

    Raises SignedMismatch unless it is of exactly this payload and every input is signed by the account's key.
    """
    draft = decode(coin, payload)
    psbt = _parse(text)
    if psbt.tx.serialize() != unsigned(draft).serialize():
        raise SignedMismatch("the PSBT is of another transaction")
    found = []
    for index, (scope, digest) in enumerate(zip(psbt.inputs, digests(draft, account.public_key), strict=True)):
        try:
            compact = compact_of(_signature(scope, account.public_key))
        except ValueError as error:
            raise SignedMismatch(f"the PSBT's signature of input {index}: {error}") from error
        if not is_signed_by(account.public_key, digest, compact):
            raise SignedMismatch(f"the PSBT's signature of input {index} is not this account's")
        found.append(Signature(compact))
    return tuple(found)


def _parse(text: str) -> PSBT:
    if len(text) > MAX_TEXT:
        raise SignedMismatch("the PSBT is too long")
    try:
        return PSBT.parse(base64.b64decode(text, validate=True))
    except (
        binascii.Error,
        EmbitError,
        ValueError,
        RuntimeError,
        OverflowError,
        IndexError,
        TypeError,
    ) as error:
        raise SignedMismatch(f"not a PSBT: {error}") from error


def _signature(scope: object, public_key: bytes) -> bytes:
    """Return the DER signature of a key from an input's map: a partial signature, or the final witness."""
    for key, signature in getattr(scope, "partial_sigs", {}).items():
        if key.sec() == public_key:
            return bytes(signature)
    final = getattr(scope, "final_scriptwitness", None)
    if final is not None and len(final.items) == 2 and final.items[1] == public_key:
        return bytes(final.items[0])
    raise ValueError("it is missing")
