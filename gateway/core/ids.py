"""Identities: UUIDv7 in 16 bytes, one type per thing that is identified."""

from __future__ import annotations

import secrets
import threading
from datetime import datetime
from typing import NewType
from uuid import UUID

TransactionId = NewType("TransactionId", UUID)
WithdrawalId = NewType("WithdrawalId", UUID)
AttemptId = NewType("AttemptId", UUID)
WorkspaceId = NewType("WorkspaceId", UUID)
VaultId = NewType("VaultId", UUID)
AccountId = NewType("AccountId", UUID)
UserId = NewType("UserId", UUID)

_RANDOM_BITS = 74
_last = 0
_last_lock = threading.Lock()


def uuid7(now: datetime) -> UUID:
    """Return a version 7 UUID of `now` that sorts after every one made before in this process.

    Layout of RFC 9562: 48 bits of Unix milliseconds, version, variant, 74 random bits. Within one
    millisecond the random part only counts up, so rows written in one batch keep their order.
    """
    global _last
    milliseconds = int(now.timestamp() * 1000)
    fresh = (milliseconds << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1)
    with _last_lock:
        _last = max(fresh, _last + 1)
        value = _last
    milliseconds, random = value >> _RANDOM_BITS, value & ((1 << _RANDOM_BITS) - 1)
    return UUID(int=(milliseconds << 80) | (7 << 76) | ((random >> 62) << 64) | (2 << 62) | (random & ((1 << 62) - 1)))
