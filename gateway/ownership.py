"""Ownership: one owner for a lane or a tracker, by a lease on the database's clock.

The owner stops by its own monotonic clock at half the lease, so that a paused process has stopped before another can
have begun. Renewal happens when the owner asks for its fence: no task of its own, nothing to forget.
"""

from __future__ import annotations

import time

from gateway.core.errors import LeaseLost
from gateway.core.records import Lease
from gateway.core.store import Store


class Ownership:
    """The right to work for one name, taken when first needed and kept while it is used."""

    def __init__(self, store: Store, name: str, owner: str, *, seconds: float) -> None:
        self._store = store
        self._name = name
        self._owner = owner
        self._seconds = seconds
        self._lease: Lease | None = None
        self._renewed = 0.0

    async def take(self) -> bool:
        """Own it now? Takes the lease when it is free; False while another process owns it."""
        if self._lease is not None and self._age() < self._seconds / 2:
            return True
        asked = time.monotonic()
        self._lease = await self._store.acquire(self._name, self._owner, self._seconds)
        self._renewed = asked
        return self._lease is not None

    async def fence(self) -> Lease:
        """Return the lease to write under; renewed when a quarter of it is gone. LeaseLost: stop now."""
        if self._lease is None or self._age() >= self._seconds / 2:
            self._lease = None
            raise LeaseLost(f"{self._name}: the lease ran out before it was renewed")
        if self._age() >= self._seconds / 4:
            asked = time.monotonic()
            try:
                await self._store.renew(self._lease, self._seconds)
            except LeaseLost:
                self._lease = None
                raise
            self._renewed = asked
        return self._lease

    async def release(self) -> None:
        """Give it back, so that a successor need not wait."""
        if self._lease is not None:
            lease, self._lease = self._lease, None
            await self._store.yield_lease(lease)

    def _age(self) -> float:
        return time.monotonic() - self._renewed
