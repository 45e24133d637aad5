"""The clock: the one place where the gateway reads the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the present time, aware, in UTC."""
    return datetime.now(UTC)
