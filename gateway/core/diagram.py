"""The transition table as a picture and as a table for people to read; pure."""

from __future__ import annotations

from gateway.core.lifecycle import FINAL, TRANSITIONS, Direction, Status


def state_diagram(direction: Direction) -> str:
    """Return the transitions of one direction as a mermaid state diagram (`stateDiagram-v2`)."""
    lines = ["stateDiagram-v2"]
    lines += [
        f"    {source or '[*]'} --> {target}: {_label(' / '.join(reasons))}"
        for (source, target), reasons in _moves(direction).items()
    ]
    reached = {target for _, target in _moves(direction)}
    lines += [f"    {status} --> [*]" for status in Status if status in FINAL and status in reached]
    return "\n".join(lines)


def transition_table(direction: Direction) -> str:
    """Return the transitions of one direction as a Markdown table."""
    lines = ["| from | to | when |", "|---|---|---|"]
    lines += [
        f"| {source or '(start)'} | {target} | {' / '.join(reasons)} |"
        for (source, target), reasons in _moves(direction).items()
    ]
    return "\n".join(lines)


def _moves(direction: Direction) -> dict[tuple[Status | None, Status], list[str]]:
    """Return every move once, in the table's order, with each reason that it may have."""
    moves: dict[tuple[Status | None, Status], list[str]] = {}
    for row in TRANSITIONS:
        if row.direction == direction:
            moves.setdefault((row.source, row.target), []).append(row.when)
    return moves


def _label(text: str) -> str:
    """Avoid what ends a label in mermaid."""
    return text.replace(":", " –").replace(";", ",")
