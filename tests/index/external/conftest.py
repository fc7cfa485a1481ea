"""A store of entries, once in memory and once in a real PostgreSQL: every law of the index holds on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakeward.index.external.entry_store import EntryStore
from lakeward.state.engine import open_database
from lakeward.state.index_entries import create_entries, open_entries
from tests.index.external.memory_entries import MemoryEntries

BASE_PATH = "/lake/orders"

OpenEntries = Callable[[], EntryStore]
"""The store as another process would open it."""


@pytest.fixture(params=["memory", pytest.param("postgresql", marks=pytest.mark.services)])
def make_entries(request: pytest.FixtureRequest) -> Iterator[Callable[[bool], OpenEntries]]:
    """Makes an index, global or not, and says how it is opened."""
    if request.param == "memory":

        def in_memory(is_global: bool) -> OpenEntries:
            entries = MemoryEntries(is_global=is_global)
            return lambda: entries

        yield in_memory
        return
    database = open_database(request.getfixturevalue("postgresql_url"))

    def in_database(is_global: bool) -> OpenEntries:
        create_entries(database, BASE_PATH, "keys", is_global=is_global)
        return lambda: open_entries(database, BASE_PATH, "keys")

    yield in_database
    database.close()
