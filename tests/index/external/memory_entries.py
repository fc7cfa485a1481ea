"""A store of entries in the memory of this process: what the port asks for, as plainly as it can be said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.index.external.entry_store import ENTRIES


@dataclass
class Commit:
    instant: str
    state: str = "building"
    completed: str | None = None
    places: dict[tuple[str, str | None], tuple[str | None, str | None]] = field(default_factory=dict)
    """The place of each key, and where a key is one in its partition of each of its partition paths; None: of all."""


class MemoryEntries:
    def __init__(self, *, is_global: bool) -> None:
        self.is_global = is_global
        self.tries: list[Commit] = []

    def commits(self) -> tuple[str | None, Mapping[str, str | None]]:
        settled = [each.completed for each in self.tries if each.state == "settled"]
        return max(settled, default=None), {
            each.instant: each.completed for each in self.tries if each.state == "whole"
        }

    def begin(self, instant: str, *, beside_others: bool = False) -> int:
        state = "writing" if beside_others else "building"
        for each in self.tries:
            if each.state == state and (state == "building" or each.instant == instant):
                each.state = "dropped"
        self.tries.append(Commit(instant, state))
        return len(self.tries) - 1

    def begun_beside_others(self) -> list[str]:
        return [each.instant for each in self.tries if each.state == "writing"]

    def put(self, attempt: int, changes: pa.RecordBatch) -> None:
        places = self.tries[attempt].places
        for key, partition_path, file_id, _ in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            at = (key, None if self.is_global else partition_path)
            if file_id is not None or at not in places:
                places[at] = (partition_path, file_id)

    def finish(self, attempt: int, completed: str | None) -> None:
        done = self.tries[attempt]
        assert done.state in ("building", "writing", "whole")
        for each in self.tries:
            if each.instant == done.instant and each.state == "whole":
                each.state = "dropped"
        done.state, done.completed = "whole", completed

    def finish_settled(self, attempt: int, completed: str) -> None:
        done = self.tries[attempt]
        assert done.state in ("building", "settled")
        if done.state == "building":
            self._settle(done, completed)

    def forget(self, instant: str) -> None:
        for each in self.tries:
            if each.instant == instant and each.state != "settled":
                each.state = "dropped"

    def settle(self, instant: str, completed: str) -> None:
        for each in self.tries:
            if each.instant == instant and each.state == "whole":
                self._settle(each, completed)

    def _settle(self, each: Commit, completed: str) -> None:
        each.state, each.completed = "settled", completed
        for older in self.tries:
            if older.state == "settled" and older is not each:
                for at in [at for at in older.places if at in each.places or (at[0], None) in each.places]:
                    del older.places[at]
        for at in [at for at, (_, file_id) in each.places.items() if file_id is None]:
            del each.places[at]

    def get(self, keys: pa.Array) -> pa.RecordBatch:
        return self._batch(set(keys.to_pylist()))

    def scan(self) -> Iterator[pa.RecordBatch]:
        yield self._batch(None)

    def _batch(self, keys: set[str] | None) -> pa.RecordBatch:
        rows = [
            (key, partition_path, file_id, each.instant, each.state == "settled")
            for each in self.tries
            if each.state in ("whole", "settled")
            for (key, _), (partition_path, file_id) in each.places.items()
            if keys is None or key in keys
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(ENTRIES)
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, ENTRIES.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)
