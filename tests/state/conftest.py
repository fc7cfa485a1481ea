"""The store, once on SQLite and once on a real PostgreSQL: every test of its behaviour runs on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakeward.state.migration import migrate
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock

BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.services)]

_TEMPLATE = "lakeward_template"


@pytest.fixture(params=BACKENDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without a schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store/lakeward.db"
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with this release's schema."""
    if request.param == "sqlite":
        path = f"sqlite:///{tmp_path}/store/lakeward.db"
        migrate(path)
        yield path
        return
    server = request.getfixturevalue("postgresql_server")
    if not server.execute(f"SELECT 1 FROM pg_database WHERE datname = '{_TEMPLATE}'"):
        server.execute(f"CREATE DATABASE {_TEMPLATE}")
        migrate(server.url(_TEMPLATE))
    name = server.create_database(_TEMPLATE)
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(1_800_000_000.0)


@pytest.fixture
def open_again(url: str, clock: SettableClock) -> Iterator[Callable[[], Store]]:
    """Opens the same database as another process would."""
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(open_store(url, clock=clock))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_again: Callable[[], Store]) -> Store:
    return open_again()
