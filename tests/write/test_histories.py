"""Histories of writes and compactions, drawn by chance, against a dictionary of rows.

A seed is one history; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lakeward.index.index_type import IndexType
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.write.request import FileSizes
from tests.clocks import SkippingClock
from tests.crash.compacting import compact
from tests.crash.metadata_compacting import check_agrees
from tests.faults import FaultyStorage
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.services.together.versions.run.test_version_step import change
from tests.write.writing import Row, new_table, write

KEYS = [f"k{number:02}" for number in range(40)]


@dataclass
class History:
    """A table and what is in it."""

    chance: random.Random
    base: Path
    table_type: str
    by_event_time: bool
    index: dict[str, Any]
    rows: dict[str, Row] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    """The greatest ordering value that a key had: after a delete without one, smaller ones are not drawn, for what they
    become depends on where the delete is stored."""
    clock: SkippingClock = field(default_factory=SkippingClock)
    """One for all, or a write would be completed behind the request of what comes after it."""
    shown: list[str] = field(default_factory=list)

    def draw(self, keys: list[str]) -> list[Row]:
        found = []
        for key in keys:
            low = self.newest.get(key, 0)
            ts = self.chance.randint(max(low - 2, 0) if key in self.rows else low, low + 2)
            found.append((key, ts, f"p{KEYS.index(key) % 3}", f"v{self.chance.randrange(1000)}"))
        return found

    def some(self, keys: list[str]) -> list[str]:
        return self.chance.sample(keys, self.chance.randint(1, len(keys))) if keys else []

    def write(self, rows: list[Row], operation: str, **request: Any) -> None:
        sizes = FileSizes(
            small_file=self.chance.choice([0, 2_000_000]),
            log_block=self.chance.choice([200, 10_000_000]),
            max_file=self.chance.choice([1, 100_000_000]),
        )
        self.shown.append(f"{operation} {rows} {request} {sizes.small_file}")
        write(self.base, rows, operation, sizes=sizes, clock=self.clock, **self.index, **request)

    def upsert(self) -> None:
        rows = self.draw(self.chance.choices(KEYS, k=self.chance.randint(1, 30)))
        self.write(rows, "upsert")
        for row in rows:
            old = self.rows.get(row[0])
            if old is None or not self.by_event_time or row[1] >= old[1]:
                self.rows[row[0]] = row
            self.newest[row[0]] = max(row[1], self.newest.get(row[0], 0))

    def delete(self) -> None:
        rows = self.draw(self.some(KEYS))
        self.write(rows, "delete")
        for row in rows:
            self.rows.pop(row[0], None)

    def insert(self) -> None:
        fresh = self.some([key for key in KEYS if key not in self.newest])
        if fresh:
            rows = self.draw(fresh)
            self.write(rows, self.chance.choice(["insert", "bulk_insert"]))
            self._learn(rows)

    def overwrite(self) -> None:
        rows = self.draw(self.some(self.some(KEYS)))
        partitions = {row[2] for row in rows}
        operation = self.chance.choice(["insert_overwrite", "insert_overwrite_table"])
        self.write(rows, operation)
        for key in [key for key, row in self.rows.items() if "table" in operation or row[2] in partitions]:
            del self.rows[key]
        self._learn(rows)

    def delete_partition(self) -> None:
        there = sorted({row[2] for row in self.rows.values()})
        if there:
            gone = self.chance.choice(there)
            self.write([], "delete_partition", partitions=(gone,))
            self.rows = {key: row for key, row in self.rows.items() if row[2] != gone}

    def compact(self) -> None:
        if self.table_type == "MERGE_ON_READ" and any(slice_.log_files for slice_ in scan(self.base).latest_slices):
            self.shown.append("compact")
            compact(self.base, FaultyStorage(), ScriptedProcesses(), clock=self.clock)

    def _learn(self, rows: list[Row]) -> None:
        for row in rows:
            self.rows[row[0]] = row
            self.newest[row[0]] = max(row[1], self.newest.get(row[0], 0))

    def found(self) -> list[Row]:
        return [(row["id"], row["ts"], row["part"], row["v"]) for row in read_rows(self.base)]

    def check(self) -> None:
        assert self.found() == sorted(self.rows.values()), "\n".join(self.shown)


INDEXES: list[tuple[dict[str, Any], NewIndexes]] = [
    ({"index": IndexType.SIMPLE}, NewIndexes()),
    ({"index": IndexType.BUCKET, "buckets": 2}, NewIndexes()),
    ({"index": IndexType.METADATA}, NewIndexes(finds_keys=NewIndex.METADATA)),
    ({"index": IndexType.BLOOM}, NewIndexes(bloom_filters=True)),
]


@pytest.mark.parametrize(
    ("version", "seed"),
    [
        pytest.param(version, seed, marks=() if (version, seed) == (9, 0) else pytest.mark.wide)
        for version in (9, 10)
        for seed in range(runs(20))
    ],
)
def test_a_history_of_writes(tmp_path: Path, version: int, seed: int) -> None:
    """After each write the table holds the rows of the dictionary, and its metadata table lists its files. Of two
    tables that end with version 10 one was born with 9, and keeps inline logs beside native ones."""
    chance = random.Random(seed)
    table_type = chance.choice(["MERGE_ON_READ", "COPY_ON_WRITE"])
    by_event_time = chance.random() < 0.7
    index, indexes = chance.choice(INDEXES)
    has_metadata = indexes.of_metadata_table is not None or chance.random() < 0.5
    born = 9 if seed % 2 else version
    base = new_table(
        tmp_path / "t",
        version=born,
        table_type=table_type,
        ordering_fields=("ts",) if by_event_time else (),
        indexes=indexes,
        has_metadata_table=has_metadata,
    )
    history = History(chance, base, table_type, by_event_time, index)
    history.shown.append(
        f"seed {seed}: version {born} to {version}, {table_type} {by_event_time=} {has_metadata=} {index}"
    )
    acts = [history.upsert] * 4 + [history.delete] * 2 + [history.insert, history.overwrite, history.compact]
    acts.append(history.delete_partition)
    for step in range(6 if seed else 3):
        if step == 3 and born < version:
            history.shown.append("upgrade")
            change(base, version)
        chance.choice(acts)()
        history.check()
    if has_metadata:
        check_agrees(base)
