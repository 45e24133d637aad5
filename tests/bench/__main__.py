"""`make bench`: measure everything in one run and print one table."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gateway.cli import logs
from tests.bench import blocks, burst, restart
from tests.bench.databases import postgres_server
from tests.bench.figures import Figure, say

COUNT = 2_000
IN_FLIGHT = 10_000

Measurement = Callable[[int, int], Awaitable[list[Figure]]]
"""Takes how many withdrawals a burst has and how many are in flight."""


async def _burst(count: int, _: int) -> list[Figure]:
    server = await postgres_server()
    if server is None:
        print("!!! PostgreSQL does not answer: the burst runs on SQLite only", file=sys.stderr, flush=True)
    return await burst.measure(count, [None] if server is None else [None, server])


MEASUREMENTS: Mapping[str, Measurement] = {
    "burst": _burst,
    "calls": lambda _, in_flight: blocks.calls(in_flight),
    "cpu": lambda _, in_flight: blocks.cpu(in_flight),
    "latency": lambda *_: blocks.latency(),
    "restart": lambda _, in_flight: restart.measure(in_flight),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print; a missed target is a number to work on and no failure, except with --strict."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="withdrawals in the burst")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="attempts in flight for the others")
    parser.add_argument("--only", action="append", choices=MEASUREMENTS, help="measure only this; may be repeated")
    parser.add_argument("--json", action="store_true", help="one JSON object per figure instead of the table")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    options = parser.parse_args(arguments)
    logs.set_up("error", colors=False)
    figures: list[Figure] = []
    for name in options.only or MEASUREMENTS:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        figures += asyncio.run(_one(MEASUREMENTS[name], options.count, options.in_flight))
    say(figures, as_json=options.json)
    return 1 if options.strict and any(figure.met is False for figure in figures) else 0


async def _one(measurement: Measurement, count: int, in_flight: int) -> list[Figure]:
    return await measurement(count, in_flight)


if __name__ == "__main__":
    sys.exit(main())
