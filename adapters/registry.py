"""The chain families that can be configured; each is imported only when a chain of it is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from gateway.core.adapter import Adapter
from gateway.core.errors import ConfigError

FAMILIES = ("evm", "bitcoin")


class _Family(Protocol):
    """What the package of a family offers."""

    def make(self, name: str, settings: Mapping[str, object]) -> Adapter:
        """Return both halves of a configured chain. Raises ConfigError that lists every problem."""


def families() -> tuple[str, ...]:
    """Return the names of all families."""
    return FAMILIES


def create(family: str, name: str, settings: Mapping[str, object]) -> Adapter:
    """Return the adapter of the chain `name`. Does no I/O. Raises ConfigError that lists every problem."""
    if family not in FAMILIES:
        raise ConfigError([f"chain {name}: unknown family {family!r}; there are: {', '.join(FAMILIES)}"])
    try:
        module = import_module(f"adapters.{family}")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in ("adapters", "gateway"):
            raise
        raise ConfigError(
            [f"chain {name}: {error.name} is not installed; try: pip install 'withdrawal-gateway[{family}]'"]
        ) from error
    return cast(_Family, module).make(name, settings)
