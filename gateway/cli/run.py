"""Running a coroutine as a command: Ctrl-C and TERM end it cleanly, an error of ours becomes one line and exit 1."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer

from gateway.core.errors import BadRequest, ConfigError, GatewayError

T = TypeVar("T")


def run(job: Coroutine[Any, Any, T]) -> T:
    """Run `job` to its end and return its answer; exit 1 with what is wrong, or 130 after Ctrl-C or TERM."""
    try:
        return asyncio.run(_until_signal(job))
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        raise typer.Exit(1) from None
    except BadRequest as error:
        field = f"{error.field}: " if error.field else ""
        print(f"error {error.code}: {field}{error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except GatewayError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise typer.Exit(130) from None


async def _until_signal(job: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(job)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, task.cancel)
    return await task
