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
        self.inner = inner
        self._process = process
        self.is_global = inner.is_global

    def commits(self) -> tuple[str | None, Mapping[str, str | None]]:
        return self._read("commits", self.inner.commits)

    def begun_beside_others(self) -> Collection[str]:
        return self._read("begun", self.inner.begun_beside_others)

    def get(self, keys: pa.Array) -> pa.RecordBatch:
        return self._read("get", lambda: self.inner.get(keys))

    def scan(self) -> Iterator[pa.RecordBatch]:
        return self._read("scan", self.inner.scan)

    def begin(self, instant: str, *, beside_others: bool = False) -> int:
        return self._change("begin", lambda: self.inner.begin(instant, beside_others=beside_others))

    def put(self, attempt: int, changes: pa.RecordBatch) -> None:
        half = changes.slice(0, changes.num_rows // 2)
        self._change("put", lambda: self.inner.put(attempt, changes), lambda: self.inner.put(attempt, half))

    def finish(self, attempt: int, completed: str | None) -> None:
        self._change("finish", lambda: self.inner.finish(attempt, completed))

    def finish_settled(self, attempt: int, completed: str) -> None:
        self._change("finish_settled", lambda: self.inner.finish_settled(attempt, completed))

    def forget(self, instant: str) -> None:
        self._change("forget", lambda: self.inner.forget(instant))

    def settle(self, instant: str, completed: str) -> None:
        self._change("settle", lambda: self.inner.settle(instant, completed))

    def _read(self, name: str, act: Callable[[], T]) -> T:
        return self._process.call("read", f"index/{name}", act)

    def _change(self, name: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        """Named as a storage calls it, so that `faults_of` knows which calls change something."""
        return self._process.call("create", f"index/{name}", act, tear)
