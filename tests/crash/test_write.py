"""A write stopped at every call to the storage: its rows are there whole or not at all, and the same write again leaves
them once. A row is a write to one table; the loop is in tests/crash/harness.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.format.file_name import is_change_log
from lakeward.index.index_type import IndexType
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.write.request import FileSizes
from tests.crash import metadata_compacting
from tests.crash.capturing import capture_changes, check_listed, named_change_logs
from tests.crash.compacting import everything, is_leftover
from tests.crash.harness import Case, Extent, Place, Row, cases_of
from tests.faults import FaultKind
from tests.metadata_golden import METADATA
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.clustering.run.packing import pack
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.judged import judged_values
from tests.write.writing import BUCKETS, new_table, rows_of, values, write
from tests.write.writing import Row as WrittenRow

pytestmark = pytest.mark.crash

FIRST: list[WrittenRow] = [("k1", 1, "p", "a"), ("k2", 1, "p", "a"), ("k3", 1, "q", "a")]
SECOND: list[WrittenRow] = [("k1", 2, "p", "b"), ("k4", 2, "p", "b"), ("k5", 2, "r", "b")]
BEFORE = {"k1": "a", "k2": "a", "k3": "a"}
AFTER = {"k1": "b", "k2": "a", "k3": "a", "k4": "b", "k5": "b"}
AFTER_NATIVE = {key: value for key, value in AFTER.items() if key != "k2"}
MOVES: list[WrittenRow] = [("k1", 2, "q", "b"), ("k3", 2, "p", "b"), ("k4", 2, "p", "b")]
AFTER_MOVES = {"k1": "b", "k2": "a", "k3": "b", "k4": "b"}
OVERWRITTEN = {"k1": "b", "k3": "a", "k4": "b", "k5": "b"}

SHAPES: dict[str, dict[str, Any]] = {
    "mor-buckets": {"table_type": "MERGE_ON_READ"},
    "cow-simple": {"table_type": "COPY_ON_WRITE"},
    "mor-column": {"table_type": "MERGE_ON_READ", "indexes": NewIndexes(finds_keys=NewIndex.METADATA)},
    "mor-buckets-native": {"table_type": "MERGE_ON_READ", "version": 10},
    "cow-captured": {"table_type": "COPY_ON_WRITE"},
    "mor-moves": {"table_type": "MERGE_ON_READ", "indexes": NewIndexes(finds_keys=NewIndex.METADATA)},
}
"""The third one has a record index, and the write that is stopped brings a column; that to the fourth leaves a native
log of rows and one of deletes in a file group, that to the fifth a log of changes beside each base file, and that to
the last one moves rows from partition to partition."""


def written(shape: str, path: Path) -> Path:
    base = new_table(path, **SHAPES[shape])
    if "captured" in shape:
        capture_changes(base)
    write(base, with_deletes(FIRST) if "native" in shape else FIRST, **request_of(shape))
    return base


def request_of(shape: str) -> dict[str, Any]:
    if "buckets" in shape:
        return BUCKETS
    if "moves" in shape:
        return {"index": IndexType.METADATA, "moves_rows": True, "sizes": FileSizes(small_file=0)}
    return {"index": IndexType.METADATA} if "column" in shape else {}


def second(shape: str) -> Sequence[WrittenRow] | pa.RecordBatch:
    """The write that is stopped."""
    if "native" in shape:
        # Its bucket gets a log of rows and one of deletes.
        return with_deletes([*SECOND, ("k2", 2, "p", "x")], deleted={"k2"})
    if "column" not in shape:
        return MOVES if "moves" in shape else SECOND
    batch = rows_of(SECOND)
    return batch.append_column("added", pa.array([1] * len(SECOND), pa.int64()))


def with_deletes(rows: Sequence[WrittenRow], deleted: Collection[str] = ()) -> pa.RecordBatch:
    return rows_of(rows).append_column("_hoodie_is_deleted", pa.array([row[0] in deleted for row in rows]))


def values_in(base: Path) -> dict[str, Any]:
    """The column `v` by key; of native logs the second reader gives it."""
    return judged_values(base) if has_native_logs(base) else values(read_rows(base))


def has_native_logs(base: Path) -> bool:
    return scan(base).config.version.has_native_logs


def check_whole(base: Path, after: dict[str, str]) -> None:
    """True at every moment: the rows of the write are there whole or not at all, and none twice."""
    assert values_in(base) in (BEFORE, after)
    assert has_native_logs(base) or len(read_rows(base)) in (len(BEFORE), len(after))


def check_done(base: Path, after: dict[str, str]) -> None:
    """True in the end: each row once, nothing left over, and the metadata table says the same."""
    assert values_in(base) == after
    assert has_native_logs(base) or len(read_rows(base)) == len(after)
    assert [path for path in everything(base) if is_leftover(path)] == []
    assert scan(base).timeline.pending == ()
    assert not scan(base).uncommitted_files
    if (base / METADATA).exists():
        metadata_compacting.check_agrees(base)
    check_change_logs(base)


def check_change_logs(base: Path) -> None:
    """The logs of changes that stand are those that completed commits name, by the metadata table, too."""
    named = named_change_logs(base)
    assert {path for path in everything(base) if is_change_log(path.rpartition("/")[2])} == named.keys()
    if (base / METADATA).exists():
        check_listed(base)


def writing(shape_and_operation: str, folder: Path) -> Case:
    """Whatever call fails, dies, tears or loses its reply: the same write again ends it. What a process stated in an
    object store is rolled forward. Keeps 1 of write/write_start, and Keeps 5 of services/rollback/run/roll_back."""
    shape, _, operation = shape_and_operation.partition("/")
    after = AFTERS[shape_and_operation]

    def run(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: object) -> None:
        words = {"options": options} if options else {}
        request = request_of(shape)
        write(base, second(shape), operation, storage=storage, processes=processes, **words, **request)  # type: ignore[arg-type]

    def check_now(base: Path, whole: Path) -> None:
        check_whole(base, after)

    def check_end(base: Path, whole: Path) -> None:
        check_done(base, after)

    return Case(table=written(shape, folder), run=run, check_now=check_now, check_end=check_end)


def writing_a_log_of_changes(shape_and_operation: str, folder: Path) -> Case:
    """A log of changes comes with its base file or not at all: the process dies between the two, and behind them."""

    def where(calls: Sequence[str]) -> list[int]:
        between = last(calls, ".cdc")
        return [between, between + 1, last(calls, ".commit")]

    return replace(writing(shape_and_operation, folder), where=where)


def writing_native_logs(shape_and_operation: str, folder: Path) -> Case:
    """A file of rows and one of deletes come and go together: the process dies between them, and behind them."""
    case = writing(shape_and_operation, folder)

    def check_end(base: Path, whole: Path) -> None:
        case.check_end(base, whole)
        kinds_of = [{log.name.text.split(".")[1] for log in each.log_files} for each in scan(base).latest_slices]
        assert {"log", "deletes"} in kinds_of

    def where(calls: Sequence[str]) -> list[int]:
        return [last(calls, ".deletes.parquet"), last(calls, ".deltacommit")]

    return replace(case, check_end=check_end, where=where)


def moving_rows(shape_and_operation: str, folder: Path) -> Case:
    """A row is never in two partitions nor in none: the log that takes it out, the file that has it and its place in
    the record index come together. The process dies at each step that makes something visible."""

    def where(calls: Sequence[str]) -> list[int]:
        assert sum("/.hoodie/" not in call for call in calls if call.startswith("move ")) > 2
        return [number for number, call in enumerate(calls) if call.startswith(("move ", "link "))]

    return replace(writing(shape_and_operation, folder), where=where)


def packing(shape: str, folder: Path) -> Case:
    """A clustering is a write without rows of its own: the same rows at every moment, in the end in one file group for
    each partition, and the metadata table says so. Keeps 1 and 3 of services/clustering/run/clusterer."""
    base, by = new_table(folder, **SHAPES[shape]), request_of(shape) | {"sizes": FileSizes(small_file=0)}
    write(base, FIRST, **by)
    write(base, [("k4", 1, "p", "a"), ("k5", 1, "q", "a")], **by)
    write(base, [("k1", 2, "p", "b")], **by)
    before = read_rows(base)

    def run(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        pack(base, storage, processes, packing=PackOptions(groups_min=2), **options)

    def check_now(base: Path, whole: Path) -> None:
        assert read_rows(base) == before

    def check_end(base: Path, whole: Path) -> None:
        # A run that finds nothing to pack begins nothing, and leaves what does no harm to the next service.
        swept = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
        with swept.locked():
            swept.sweep(scan(base))
        check_done(base, values(before))
        assert [each.partition_path for each in scan(base).latest_slices] == ["p", "q"]

    return Case(table=base, run=run, check_now=check_now, check_end=check_end)


def last(calls: Sequence[str], suffix: str) -> int:
    return max(number for number, call in enumerate(calls) if call.endswith(suffix))


AFTERS = {
    "mor-buckets/upsert": AFTER,
    "mor-buckets/insert_overwrite": OVERWRITTEN,
    "cow-simple/upsert": AFTER,
    "cow-captured/upsert": AFTER,
    "mor-column/upsert": AFTER,
    "mor-moves/upsert": AFTER_MOVES,
    "mor-buckets-native/upsert": AFTER_NATIVE,
}
KILLED = Extent(check=(FaultKind.KILL,))
ONLY_KILLED = Extent(check=(FaultKind.KILL,), test=(FaultKind.KILL,))
SLOWLY_KILLED = Extent(test=(FaultKind.KILL,))
NIGHTLY = Extent(test=())

ROWS = (
    Row(make=writing, table="mor-buckets/upsert", disk=KILLED, store=KILLED),
    Row(make=writing, table="cow-simple/upsert", disk=KILLED, store=KILLED),
    Row(make=writing, table="cow-captured/upsert", disk=NIGHTLY, store=NIGHTLY),
    Row(make=writing, table="mor-buckets/insert_overwrite", disk=NIGHTLY),
    Row(make=writing, table="mor-column/upsert", disk=NIGHTLY, store=NIGHTLY),
    Row(make=writing, table="mor-moves/upsert", disk=NIGHTLY),
    Row(make=writing, table="mor-buckets-native/upsert", disk=NIGHTLY, store=NIGHTLY),
    Row(make=writing_a_log_of_changes, table="cow-captured/upsert", disk=ONLY_KILLED),
    Row(make=writing_native_logs, table="mor-buckets-native/upsert", disk=ONLY_KILLED),
    Row(make=moving_rows, table="mor-moves/upsert", disk=ONLY_KILLED),
    Row(make=packing, table="cow-simple", disk=SLOWLY_KILLED, store=NIGHTLY),
    Row(make=packing, table="mor-column", disk=NIGHTLY, store=NIGHTLY),
)


@pytest.mark.parametrize(("row", "place", "kind"), cases_of(ROWS))
def test_a_write_survives_every_fault(row: Row, place: Place, kind: FaultKind, survives: Callable[..., None]) -> None:
    """Its rows are there whole or not at all, and the same write again leaves them once."""
    survives(row, place, kind)
