"""The page of refusals and the README's counts of them, made from the adapters' own tables.

python -m tests.refusal_page docs/refusals.md README.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from adapters.bitcoin.refusals import TABLE
from adapters.evm.refusals import REFUSALS
from gateway.core.errors import Outcome

BEGIN, END = "<!-- refusals:begin -->", "<!-- refusals:end -->"

MEANINGS = {
    Outcome.ALREADY_KNOWN: "the node has the bytes, which is success",
    Outcome.LOOKUP: "look the hash up; it may be our own bytes in a block",
    Outcome.RETRY: "the same bytes later",
    Outcome.FEE_TOO_LOW: "others pay more; the same bytes later",
    Outcome.GAP: "something before it is missing at this node; the same bytes later",
    Outcome.FUNDS: "the account does not cover it at this node",
    Outcome.EXPIRED: "the window is over at this node",
    Outcome.PERMANENT: "this node will not take these bytes",
}

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


def counts() -> str:
    """Return the README's table: how many refusals of each class are known, and how many a node here really gave."""
    evm = [(row.outcome, said.observed) for row in REFUSALS for said in row.said]
    bitcoin = [(row.outcome, row.observed) for row in TABLE]
    lines = ["| what a refusal means here | EVM: observed of known | Bitcoin family |", "|---|---|---|"]
    for outcome, meaning in MEANINGS.items():
        found = [[seen for said, seen in table if said is outcome] for table in (evm, bitcoin)]
        if any(found):
            cells = " | ".join(f"{sum(seen)} of {len(seen)}" if seen else "–" for seen in found)
            lines.append(f"| {outcome}: {meaning} | {cells} |")
    totals = " | ".join(f"{sum(seen for _, seen in table)} of {len(table)}" for table in (evm, bitcoin))
    return "\n".join([*lines, f"| all | {totals} |"])


def renewed(readme: str) -> str:
    """Return the README with its counts current."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{counts()}\n\n{END}{after}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
    readme = Path(sys.argv[2])
    readme.write_text(renewed(readme.read_text()))
