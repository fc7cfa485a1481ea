"""An index in a store of entries that is opened for each call, as each process does that uses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa

from lakeward.index.external.entry_store import EntryStore
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Indexed
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from tests.clocks import SkippingClock
from tests.index.memory_index import CompletionTimes


class ReopenedIndex:
    can_index_log_files = True

    def __init__(self, entries: EntryStore, times: CompletionTimes, groups: Collection[GroupId]) -> None:
        self._entries = entries
        self._times = times
        self._groups = frozenset(groups)
        self.is_global = entries.is_global

    def parts(self, partitions: Collection[str] | None) -> Sequence[frozenset[str] | None]:
        return self._open().parts(partitions)

    def look_up(self, storage: Storage, part: frozenset[str] | None, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        return self._open().look_up(storage, part, keys)

    def indexed(self) -> Indexed:
        return self._open().indexed()

    def update(self, instant: str, changes: Iterable[pa.RecordBatch], *, completed: str | None) -> None:
        self._open().update(instant, changes, completed=completed)

    def build(self, instant: str, locations: Iterable[pa.RecordBatch], *, completed: str) -> None:
        self._open().build(instant, locations, completed=completed)

    def rollback(self, instant: str) -> None:
        self._open().rollback(instant)

    def _open(self) -> ExternalIndex:
        _, unsettled = self._entries.commits()
        limit = RateLimit(None, clock=SkippingClock())
        return ExternalIndex(self._entries, self._times(unsettled.keys()), self._groups, limit=limit)
