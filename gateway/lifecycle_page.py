"""Keep the generated parts of a Markdown page current: the life cycle's diagrams and tables.

    python -m gateway.lifecycle_page docs/lifecycle.md README.md      (writes)
    python -m gateway.lifecycle_page --check docs/lifecycle.md        (1 when a page is stale)

A part stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`; NAME is `lifecycle` (diagrams) or
`transitions` (tables).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.core.diagram import state_diagram, transition_table
from gateway.core.lifecycle import Direction


def parts() -> dict[str, str]:
    """Return the text of every generated part by its name."""
    diagrams = [f"**{d.capitalize()}**\n\n```mermaid\n{state_diagram(d)}\n```" for d in Direction]
    tables = [f"**{d.capitalize()}**\n\n{transition_table(d)}" for d in Direction]
    return {"lifecycle": "\n\n".join(diagrams), "transitions": "\n\n".join(tables)}


def renewed(page: str) -> str:
    """Return a page with its generated parts current. ValueError: it has none, or unpaired markers."""
    found = 0
    for name, text in parts().items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if (page.count(begin), page.count(end)) == (0, 0):
            continue
        if (page.count(begin), page.count(end)) != (1, 1) or page.index(begin) > page.index(end):
            raise ValueError(f"{begin} and {end} must stand on the page once, in this order")
        before, after = page[: page.index(begin)], page[page.index(end) + len(end) :]
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
        found += 1
    if not found:
        raise ValueError("the page has no generated part")
    return page


def main(arguments: Sequence[str]) -> int:
    """Renew the named pages; with --check only tell which are stale."""
    check = "--check" in arguments
    stale = 0
    for name in (a for a in arguments if a != "--check"):
        path = Path(name)
        old = path.read_text()
        new = renewed(old)
        if old != new:
            stale += 1
            print(f"{name} is stale" if check else f"{name} renewed")
            if not check:
                path.write_text(new)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
