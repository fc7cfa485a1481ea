"""Writes that find their keys by an index of Lakeward's, beside writes by the indexes of base files.

A seed is one history; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused, UsageError
from lakeward.index import overlay
from lakeward.index.index_type import IndexType
from lakeward.storage.local import LocalStorage
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import OpenIndex
from lakeward.write.whole_write import write_rows
from tests.clocks import SkippingClock
from tests.crash.compacting import compact
from tests.faults import FaultyStorage
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import truth
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.own_index import build, catch_up, located, opened, opener
from tests.write.writing import Row, new_table, rows_of, write

STORAGE = LocalStorage()
KEYS = [f"k{number}" for number in range(10)]


def write_by(
    base: Path,
    open_index: OpenIndex | None,
    rows: Sequence[Row],
    operation: str,
    clock: Clock | None = None,
    **request: Any,
) -> None:
    batch = rows_of(rows)
    asked = WriteRequest(WriteOperation(operation), index=IndexType.POSTGRES, **request)
    table = serviced_table(str(base), STORAGE, ScriptedProcesses())
    table = replace(table, clock=clock or table.clock)
    write_rows(table, asked, InProcessFlow(STORAGE, [batch]), batch.schema, open_index)


def found(base: Path) -> list[tuple[Any, ...]]:
    columns = ("id", "_hoodie_partition_path", "ts", "part", "v")
    return sorted(tuple(row[name] for name in columns) for row in read_rows(base))


@pytest.mark.parametrize("scope", ["partition", "stays", "moves"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(20)))])
def test_the_rows_are_those_of_a_write_by_base_files(tmp_path: Path, seed: int, scope: str) -> None:
    """Whatever the index has taken in, each key is where its last row belongs, once in its scope."""
    chance = random.Random(f"{seed} {scope}")
    table_type = chance.choice(["MERGE_ON_READ", "COPY_ON_WRITE"])
    print(f"{seed=} {scope=} {table_type=}")
    is_global, moves = scope != "partition", scope == "moves"
    entries, clock = MemoryEntries(is_global=is_global), SkippingClock()
    own, hudis = (new_table(tmp_path / name, table_type=table_type) for name in ("own", "hudis"))
    kind = IndexType.GLOBAL_SIMPLE if is_global else IndexType.SIMPLE
    for step in range(1, 7):
        keys = chance.sample(KEYS, chance.randint(1, 6))
        rows: list[Row] = [(key, step, chance.choice("pq"), f"v{step}") for key in keys]
        operation = chance.choice(["upsert", "upsert", "delete"]) if step > 1 else "upsert"
        try:
            if step > 1 and chance.random() < 0.3:  # another writer, of which the index learns later
                write(own, rows, operation, index=kind, moves_rows=moves, clock=clock)
            else:
                write_by(own, opener(entries), rows, operation, clock, moves_rows=moves)
            write(hudis, rows, operation, index=kind, moves_rows=moves)
        except Refused as refused:  # since no row of a base file lies in its own partition (`write/assignment`)
            assert scope == "stays" and "partition paths are not made as its properties say" in refused.what
            return
        assert found(own) == found(hudis), f"step {step}"
        act = chance.choice(["build", "update", "compact", "nothing"])
        if act == "build" and opened(entries, scan(own)).indexed().through is None:
            build(own, entries)
        elif act in ("build", "update"):
            catch_up(own, entries)
        elif act == "compact" and any(slice_.row_logs for slice_ in scan(own).latest_slices):
            compact(own, FaultyStorage(), ScriptedProcesses(), clock=clock)
    assert located(own, entries, KEYS) == truth(own)


def test_an_index_that_is_too_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with what to do, and nothing of the write is left."""
    base = new_table(tmp_path / "t")
    entries = MemoryEntries(is_global=True)
    write(base, [("k1", 1, "p", "x")])
    before = found(base)
    monkeypatch.setattr(overlay.current_index, "__kwdefaults__", {"bytes_max": 1})

    with pytest.raises(Refused, match="The index does not say where keys are") as refused:
        write_by(base, opener(entries), [("k1", 2, "p", "y")], "upsert")
    assert "lakeward index update" in str(refused.value.remedy)
    assert found(base) == before
    assert [each.action for each in scan(base).timeline.pending] == []


def test_what_does_not_fit(tmp_path: Path) -> None:
    """No index is opened, or rows are to move by one of which a key is one in its partition."""
    base = new_table(tmp_path / "t")
    row: Row = ("k1", 1, "p", "x")
    with pytest.raises(UsageError, match="none is opened for it"):
        write_by(base, None, [row], "upsert")
    with pytest.raises(UsageError, match="the index is not global"):
        write_by(base, opener(MemoryEntries(is_global=False)), [row], "upsert", moves_rows=True)
