"""Indexes of Lakeward beside a table of version 6, each opened again whenever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import OwnIndex
from lakeward.index.overlay import OVERLAY_BYTES_MAX, current_index
from lakeward.index.record.merge_choice import MergeOptions
from lakeward.index.record.record_index import RecordIndex
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.run.index_build import build_index, update_and_tidy
from lakeward.services.indexing.run.index_update import IndexUpdate
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.index.builds import in_process
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import places
from tests.index.record.reopened_record_index import new_record_index
from tests.our_reader import scan
from tests.version_6_lives import KEYS

STORAGE = LocalStorage()
MERGES = MergeOptions(3, 0.3)
Opens = Callable[[TableSnapshot], OwnIndex]


@dataclass
class Kept:
    """An index of the table, opened again whenever it is asked."""

    name: str
    base: Path
    opens: Opens
    pace: float
    """How often it is brought up to date."""

    def build(self) -> None:
        build_index(STORAGE, self.opens, lambda: scan(self.base), in_process(self.base))

    def update(self, storage: Storage = STORAGE) -> IndexUpdate:
        return update_and_tidy(storage, self.opens, lambda: scan(self.base))

    def found(self, *, bytes_max: int = OVERLAY_BYTES_MAX) -> list[tuple[str, tuple[str, str]]]:
        snapshot = scan(self.base)
        return places(current_index(STORAGE, snapshot, self.opens(snapshot), bytes_max=bytes_max), KEYS)


def record_folder(base: Path, name: str) -> Path:
    return base / ".hoodie" / ".lakeward" / "index" / name


def record(base: Path, name: str, pace: float, *, is_global: bool = True, storage: Storage = STORAGE) -> Kept:
    folder = record_folder(base, name)
    if not folder.exists():
        new_record_index(folder, is_global=is_global, buckets=2)

    def opens(snapshot: TableSnapshot) -> OwnIndex:
        return RecordIndexWriter(storage, RecordIndex.of(storage, snapshot, str(folder)), merges=MERGES)

    return Kept(name, base, opens, pace)


def outside(base: Path, entries: MemoryEntries, pace: float) -> Kept:
    limit = RateLimit(None, clock=SkippingClock())
    return Kept("outside", base, lambda now: ExternalIndex.of(entries, STORAGE, now, limit=limit), pace)
