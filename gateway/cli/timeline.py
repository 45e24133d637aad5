"""The time line of one withdrawal, for a person: statuses, sends, confirmations and reorgs in one order; pure."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from gateway.core.money import show
from gateway.core.records import History

_BAD = frozenset({"FAILED", "BLOCKED", "REJECTED", "CANCELLED"})


def draw(history: History) -> RenderableType:
    """Return what happened, oldest first."""
    w = history.withdrawal
    head = Text.assemble(
        ("withdrawal ", "dim"), f"{w.id}\n",
        ("pays       ", "dim"), f"{show(w.amount, w.decimals)} {w.asset} to {w.destination} on {w.chain}\n",
        ("status     ", "dim"), (w.status, _colour(w.status)), f"  {w.sub_status}\n",
        ("fee        ", "dim"), f"{show(w.fee_paid, w.decimals)} of at most {show(w.max_fee, w.decimals)}\n",
    )  # fmt: skip
    if w.alarm:
        head.append(f"ALARM      {w.alarm}\n", "bold red")
    whole = Column(overflow="fold")  # a hash that is cut short cannot be looked up
    table = Table(Column(no_wrap=True), Column(), whole, box=None, pad_edge=False, show_header=False)
    started = history.events[0].at if history.events else w.created_at
    for at, what, text, style in sorted(_lines(history), key=lambda line: line[0]):
        table.add_row(f"{(at - started).total_seconds():+10.3f} s", what, Text(text, style))
    return Group(head, table)


def _lines(history: History) -> list[tuple[datetime, str, str, str]]:
    lines = []
    for event in history.events:
        sign = f"{event.target}"
        lines.append((event.at, "●", f"{sign:<20} {event.reason}", _colour(event.target)))
    for attempt in history.attempts:
        if attempt.signed_at is not None:
            lines.append((attempt.signed_at, "✎", f"signed {attempt.kind} {attempt.tx_hash}", "cyan"))
    for send in history.broadcasts:
        lines.append((send.at, "→", f"send {send.attempt_number} to {send.node}: {send.outcome}", "cyan"))
    for row in history.confirmations:
        text = f"block {row.block_height} {row.block_hash}"
        lines.append((row.confirmed_at, "▣", text, "green"))
        if row.reorged_at is not None:
            lines.append((row.reorged_at, "✗", f"block {row.block_height} left the chain", "yellow"))
    return lines


def _colour(status: str) -> str:
    if status == "COMPLETED":
        return "bold green"
    return "bold red" if status in _BAD else "bold"
