"""One database of each kind for the whole suite; every test has chains, places and ids of its own in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from db.engine import Kind
from db.store import SqlStore
from db.upgrade import upgrade
from tests.db.places import Place, fresh
from tests.db.world import World

KINDS = [
    pytest.param(Kind.SQLITE, id="sqlite"),
    pytest.param(Kind.POSTGRES, id="postgres", marks=pytest.mark.postgres),
    pytest.param(Kind.MARIADB, id="mariadb", marks=pytest.mark.mariadb),
]


@pytest.fixture(scope="session", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A database with the present schema, shared by the tests of its kind."""
    with fresh(request.param, tmp_path_factory.mktemp("db")) as found:
        asyncio.run(upgrade(found.url))
        yield found


@pytest.fixture(params=KINDS)
def empty_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database with nothing in it, for one test."""
    with fresh(request.param, tmp_path) as found:
        yield found


@pytest.fixture
async def store(place: Place) -> AsyncIterator[SqlStore]:
    """The store on that database."""
    opened = SqlStore(place.url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def world(store: SqlStore) -> World:
    """A workspace, and three vaults with an account each on a chain of the test's own."""
    return await World.make(store)
