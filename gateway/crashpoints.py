"""Crash points: places where a test may kill this process; off unless the environment names one.

`GATEWAY_CRASH_AT=<point>` or `<point>:<n>` kills the process with SIGKILL at the n-th passing of the point, as a power
cut would. Production never sets it; a passing costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
from typing import Final

POINTS: Final = (
    "build:before",
    "build:committed",
    "sign:done",
    "write-ahead:before-commit",
    "write-ahead:committed",
    "send:one",
    "send:all",
    "record:before-commit",
    "record:committed",
    "restart:before-resend",
    "block:before-commit",
    "block:committed",
)
"""Every point, in the order in which a withdrawal passes them."""

_left: dict[str, int] = {}


def arm(setting: str | None) -> None:
    """Arm the point that `setting` names; ValueError for an unknown one. None disarms."""
    _left.clear()
    if setting:
        name, _, count = setting.rpartition(":") if setting.rpartition(":")[2].isdigit() else (setting, "", "1")
        if name not in POINTS:
            raise ValueError(f"{name!r} is not a crash point; there are {', '.join(POINTS)}")
        _left[name] = int(count)


def reach(point: str) -> None:
    """Pass a point; die here when it is armed."""
    if point in _left:
        _left[point] -= 1
        if _left[point] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
