"""Signed bytes: put together and held against what was approved; no others are ever stored."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.adapter import Codec
from gateway.core.chain import Account, Signature, Signed
from gateway.core.records import Attempt, Withdrawal


def approved(
    codec: Codec, account: Account, withdrawal: Withdrawal, attempt: Attempt, signatures: Sequence[Signature]
) -> Signed:
    """Return an attempt's signed bytes. SignedMismatch: they are not exactly the approved payment."""
    signed = codec.assemble(attempt.payload, account, signatures)
    codec.check_signed(
        signed.raw,
        withdrawal.intent,
        account,
        pays=attempt.kind.pays,
        max_fee=withdrawal.max_fee,
        claims=attempt.claims,
        payload=attempt.payload,
    )
    return signed
