"""One chain has one name: who comes up second on the same first block is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from gateway.core.adapter import Adapter
from gateway.core.chain import BlockRef
from gateway.core.errors import ConfigError, NodeUnavailable
from gateway.genesis import Genesis


@dataclass
class FirstBlock:
    """A node of which only the first block matters."""

    hash: str | None
    down: bool = False

    async def header(self, height: int) -> BlockRef | None:
        assert height == 0
        if self.down:
            raise NodeUnavailable("no connection", chain="any", call="header")
        return None if self.hash is None else BlockRef(0, self.hash, "")


@dataclass
class Named:
    name: str


def chain(name: str, first: str | None, *, down: bool = False) -> Adapter:
    codec: Any = type("Codec", (), {"info": Named(name)})()
    return Adapter(codec=codec, node=cast(Any, FirstBlock(first, down)))


async def test_two_names_for_one_chain_are_refused() -> None:
    known = Genesis()
    await known.claim(chain("one", "aa"))
    await known.claim(chain("other", "bb"))
    with pytest.raises(ConfigError, match="chain twin: its first block is aa, and so is that of chain one"):
        await known.claim(chain("twin", "aa"))


async def test_the_same_name_may_ask_again() -> None:
    known = Genesis()
    for _ in range(2):
        await known.claim(chain("one", "aa"))


async def test_a_node_that_is_down_decides_nothing() -> None:
    known = Genesis()
    with pytest.raises(NodeUnavailable):
        await known.claim(chain("one", "aa", down=True))
    await known.claim(chain("other", "aa"))


async def test_a_node_that_shows_no_first_block_is_told_of() -> None:
    with capture_logs() as logs:
        await Genesis().claim(chain("one", None))
    assert [line["log_level"] for line in logs] == ["warning"]
