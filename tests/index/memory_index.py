"""An index in memory: the double of whatever is behind the port `WritableIndex`, and its plainest telling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.index.index import Indexed
from lakeward.index.location import LOCATIONS
from lakeward.storage.storage import Storage

CompletionTimes = Callable[[Collection[str]], Mapping[str, str]]
"""Says which of these instants are completed on the table's timelines, and when."""
Rows = Sequence[tuple[str, str | None, str | None]]


@dataclass
class MemoryIndex:
    """What each commit said is kept apart: nothing ever settles."""

    completion_times: CompletionTimes
    is_global: bool = True
    through: str | None = None
    commits: dict[str, Rows] = field(default_factory=dict)

    can_index_log_files = True

    def indexed(self) -> Indexed:
        return Indexed(self.through, frozenset(self.commits))

    def update(self, instant: str, changes: Iterable[pa.RecordBatch], *, completed: str | None) -> None:
        rows = [row for batch in changes for row in zip(*(c.to_pylist() for c in batch.columns[:3]), strict=True)]
        # What is gone comes first, so that what is located wins.
        self.commits[instant] = sorted(rows, key=lambda row: row[2] is not None)
        if completed is not None:
            self.through = max(self.through or "", completed)

    def rollback(self, instant: str) -> None:
        self.commits.pop(instant, None)

    def settle(self) -> None:
        """What a compaction of an index does: of each key only what counts last stays."""
        times = self.completion_times(self.commits.keys())
        last: dict[tuple[str, str | None], tuple[str, tuple[str, str | None, str | None]]] = {}
        for instant in sorted(times, key=lambda each: (times[each], each)):
            for row in self.commits[instant]:
                last[row[0], None if self.is_global else row[1]] = instant, row
        for instant in times:
            self.commits[instant] = [row for of, row in last.values() if of == instant]

    def parts(self, partitions: Collection[str] | None) -> Sequence[frozenset[str] | None]:
        return [None if partitions is None or self.is_global else frozenset(partitions)]

    def look_up(self, storage: Storage, part: frozenset[str] | None, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        wanted = None if keys is None else set(keys.to_pylist())
        found = [
            (key, partition_path, file_id, instant)
            for (key, partition_path, file_id), instant in sorted(self.places().items())
            if (wanted is None or key in wanted) and (part is None or partition_path in part)
        ]
        if found:
            columns = [pa.array(each, pa.string()) for each in zip(*found, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=LOCATIONS)

    def places(self) -> dict[tuple[str, str, str], str]:
        """The instant of each key, partition path and file id."""
        times = self.completion_times(self.commits.keys())
        shown: dict[tuple[str, str | None], tuple[str, str, str]] = {}
        for instant in sorted(times, key=lambda each: (times[each], each)):
            for key, partition_path, file_id in self.commits[instant]:
                at = (key, None if self.is_global else partition_path)
                shown.pop(at, None)
                if file_id is not None:
                    assert partition_path is not None, "a location has both"
                    shown[at] = (partition_path, file_id, instant)
        return {(key, path, file_id): instant for (key, _), (path, file_id, instant) in shown.items()}
