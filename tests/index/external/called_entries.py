"""A store of entries whose calls are counted with those of a storage, and go wrong with them: one process dies once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol, TypeVar

import pyarrow as pa

from tests.index.external.memory_entries import MemoryEntries

T = TypeVar("T")


class Process(Protocol):
    """`FaultyStorage` and `MemoryObjects` are one."""

    def call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T: ...


class CalledEntries:
    def __init__(self, inner: MemoryEntries, process: Process) -> None:
        self._inner = inner
        self._process = process
        self.is_global = inner.is_global

    def commits(self) -> tuple[str | None, Mapping[str, str | None]]:
        return self._read("commits", self._inner.commits)

    def begun_beside_others(self) -> Collection[str]:
        return self._read("begun", self._inner.begun_beside_others)

    def get(self, keys: pa.Array) -> pa.RecordBatch:
        return self._read("get", lambda: self._inner.get(keys))

    def scan(self) -> Iterator[pa.RecordBatch]:
        return self._read("scan", self._inner.scan)

    def begin(self, instant: str, *, beside_others: bool = False) -> int:
        return self._change("begin", lambda: self._inner.begin(instant, beside_others=beside_others))

    def put(self, attempt: int, changes: pa.RecordBatch) -> None:
        half = changes.slice(0, changes.num_rows // 2)
        self._change("put", lambda: self._inner.put(attempt, changes), lambda: self._inner.put(attempt, half))

    def finish(self, attempt: int, completed: str | None, *, is_settled: bool = False) -> None:
        self._change("finish", lambda: self._inner.finish(attempt, completed, is_settled=is_settled))

    def forget(self, instant: str) -> None:
        self._change("forget", lambda: self._inner.forget(instant))

    def settle(self, instant: str, completed: str) -> None:
        self._change("settle", lambda: self._inner.settle(instant, completed))

    def _read(self, name: str, act: Callable[[], T]) -> T:
        return self._process.call("read", f"index/{name}", act)

    def _change(self, name: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        """Named as a storage calls it, so that `faults_of` knows which calls change something."""
        return self._process.call("create", f"index/{name}", act, tear)
