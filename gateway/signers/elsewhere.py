"""No signer: for commands that sign nothing, beside a gateway that has the signer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from gateway.core.errors import SignerUnavailable
from gateway.core.signing import SigningOrder


class Elsewhere:
    """A `gateway.core.signing.Signer` that is in another process: whatever is asked of it here, it is not to be had."""

    async def public_key(self, key: str, algorithm: str) -> NoReturn:  # noqa: ARG002 - the port's
        """Raise SignerUnavailable."""
        raise _unavailable()

    async def sign(self, orders: Sequence[SigningOrder]) -> NoReturn:  # noqa: ARG002 - the port's
        """Raise SignerUnavailable."""
        raise _unavailable()

    async def journal(self) -> NoReturn:
        """Raise SignerUnavailable."""
        raise _unavailable()


def _unavailable() -> SignerUnavailable:
    return SignerUnavailable("this command was opened without a signer")
