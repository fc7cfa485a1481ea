"""An index of Lakeward's in a store in memory, and writes that use it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path

from lakeward.index.external.entry_store import EntryStore
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.overlay import current_index
from lakeward.services.indexing.run.index_build import build_index, update_and_tidy
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.tagging.tagging_choice import OpenIndex
from tests.clocks import SkippingClock
from tests.index.builds import in_process
from tests.index.following import Place, places
from tests.our_reader import scan

STORAGE = LocalStorage()


def opened(entries: EntryStore, snapshot: TableSnapshot) -> ExternalIndex:
    return ExternalIndex.of(entries, STORAGE, snapshot, limit=RateLimit(None, clock=SkippingClock()))


def opener(entries: EntryStore) -> OpenIndex:
    return partial(opened, entries)


def build(base: Path, entries: EntryStore) -> None:
    build_index(STORAGE, partial(opened, entries), lambda: scan(base), in_process(base))


def catch_up(base: Path, entries: EntryStore) -> None:
    update_and_tidy(STORAGE, partial(opened, entries), lambda: scan(base))


def located(base: Path, entries: EntryStore, keys: Collection[str]) -> list[tuple[str, Place]]:
    """The places in which the index says that the keys are, with what it does not have."""
    snapshot = scan(base)
    return places(current_index(STORAGE, snapshot, opened(entries, snapshot)), keys)


def located_alone(base: Path, entries: EntryStore, keys: Collection[str]) -> list[tuple[str, Place]]:
    """The same by what the index itself has; refused where it lacks a commit that wrote anything."""
    snapshot = scan(base)
    return places(current_index(STORAGE, snapshot, opened(entries, snapshot), bytes_max=0), keys)
