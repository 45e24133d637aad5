"""A test that needs a chain's node says so: missing, it skips loudly, and in CI it fails."""

import os

import pytest

from devnets.registry import why_missing


def need(chain: str) -> None:
    """Skip the test with the reason when the chain's network cannot be had here; fail where CI is set."""
    reason = why_missing(chain)
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"no {chain} devnet in CI: {reason}")
    pytest.skip(f"no {chain} devnet: {reason}")
