"""The page of refusals, made from the adapters' own tables: `python -m tests.refusal_page docs/refusals.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from adapters.bitcoin.refusals import TABLE
from adapters.evm.refusals import REFUSALS

HEAD = """# What nodes answer to a send, and what it means here

Made from the adapters' tables (`adapters/*/refusals.py`); a test fails when this page is stale. **Observed** rows
were really provoked on a node in the tests (anvil 1.7.1, litecoind 0.21.2.1); the others rest on the texts
that the clients are known to use. Whatever the class, a refusal never proves that bytes cannot land.
"""


def page() -> str:
    """Return the whole page."""
    evm = [(said, row) for row in REFUSALS for said in row.said]
    seen_evm = sum(said.observed for said, _ in evm)
    seen_bitcoin = sum(row.observed for row in TABLE)
    lines = [HEAD, f"## EVM\n\n{seen_evm} of {len(evm)} observed.\n", "| client | code | text | class | observed |"]
    lines.append("|---|---|---|---|---|")
    for said, row in evm:
        mark = "yes" if said.observed else ""
        lines.append(f"| {said.client} | {said.code} | `{_cell(said.text)}` | {row.outcome} | {mark} |")
    lines += [f"\n## Bitcoin family\n\n{seen_bitcoin} of {len(TABLE)} observed.\n"]
    lines += ["| code | text | class | observed |", "|---|---|---|---|"]
    for entry in TABLE:
        mark = "yes" if entry.observed else ""
        code = "any" if entry.code is None else entry.code
        lines.append(f"| {code} | `{_cell(entry.example or entry.text)}` | {entry.outcome} | {mark} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
