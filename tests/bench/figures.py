"""What the bench prints: one figure per line, beside its target and what limits it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `met` is None where there is no target, only something to compare with."""

    what: str
    number: str
    target: str
    met: bool | None
    limit: str


def at_most(what: str, value: float, most: float, unit: str, limit: str) -> Figure:
    """Return the figure of a value that should not be above its target."""
    return Figure(what, f"{value:.2f} {unit}", f"≤ {most:g} {unit}", value <= most, limit)


def say(figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print the table, or one JSON object per figure."""
    if as_json:
        for figure in figures:
            print(json.dumps(asdict(figure), ensure_ascii=False))
        return
    table = Table("what", "number", "target", "", "what limits it", show_lines=False)
    for figure in figures:
        mark = {True: "met", False: "MISSED", None: ""}[figure.met]
        table.add_row(figure.what, figure.number, figure.target, mark, figure.limit)
    Console(width=None if Console().is_terminal else 200).print(table)
