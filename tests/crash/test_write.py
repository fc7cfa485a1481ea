"""A write stopped at every storage call, in every way a call can go wrong: its rows are there whole or not at all, and
the same write again leaves them once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import LakewardError
from lakeward.format.file_name import is_change_log
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.write.request import FileSizes, IndexKind
from tests.crash import metadata_compacting
from tests.crash.capturing import capture_changes, check_listed, named_change_logs
from tests.crash.compacting import age_temporary_files, everything, is_leftover
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import METADATA
from tests.object_lake import BASE, KINDS
from tests.object_tables import bring, fetch
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.write.judged import judged_values
from tests.write.writing import BUCKETS, Row, new_table, rows_of, values, write

pytestmark = pytest.mark.crash

FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "p", "a"), ("k3", 1, "q", "a")]
SECOND: list[Row] = [("k1", 2, "p", "b"), ("k4", 2, "p", "b"), ("k5", 2, "r", "b")]
BEFORE = {"k1": "a", "k2": "a", "k3": "a"}
AFTER = {"k1": "b", "k2": "a", "k3": "a", "k4": "b", "k5": "b"}
AFTER_NATIVE = {key: value for key, value in AFTER.items() if key != "k2"}
MOVES: list[Row] = [("k1", 2, "q", "b"), ("k3", 2, "p", "b"), ("k4", 2, "p", "b")]
AFTER_MOVES = {"k1": "b", "k2": "a", "k3": "b", "k4": "b"}
OVERWRITTEN = {"k1": "b", "k3": "a", "k4": "b", "k5": "b"}

SHAPES: dict[str, dict[str, Any]] = {
    "mor-buckets": {"table_type": "MERGE_ON_READ"},
    "cow-simple": {"table_type": "COPY_ON_WRITE"},
    "mor-column": {"table_type": "MERGE_ON_READ", "indexes": NewIndexes(finds_keys=NewIndex.RECORD)},
    "mor-buckets-native": {"table_type": "MERGE_ON_READ", "version": 10},
    "cow-captured": {"table_type": "COPY_ON_WRITE"},
    "mor-moves": {"table_type": "MERGE_ON_READ", "indexes": NewIndexes(finds_keys=NewIndex.RECORD)},
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
        return {"index": IndexKind.RECORD, "moves_rows": True, "sizes": FileSizes(small_file=0)}
    return {"index": IndexKind.RECORD} if "column" in shape else {}


def second(shape: str) -> Sequence[Row] | pa.RecordBatch:
    """The write that is stopped."""
    if "native" in shape:
        # Its bucket gets a log of rows and one of deletes.
        return with_deletes([*SECOND, ("k2", 2, "p", "x")], deleted={"k2"})
    if "column" not in shape:
        return MOVES if "moves" in shape else SECOND
    batch = rows_of(SECOND)
    return batch.append_column("added", pa.array([1] * len(SECOND), pa.int64()))


def with_deletes(rows: Sequence[Row], deleted: Collection[str] = ()) -> pa.RecordBatch:
    return rows_of(rows).append_column("_hoodie_is_deleted", pa.array([row[0] in deleted for row in rows]))


def values_in(base: Path) -> dict[str, Any]:
    """The column `v` by key; of native logs the second reader tells it."""
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


def kinds(of: Iterable[FaultKind], *, in_check: Collection[FaultKind]) -> list[object]:
    """The kinds as parameters; what `make check` leaves out is slow."""
    return [pytest.param(kind, marks=() if kind in in_check else pytest.mark.slow) for kind in of]


@pytest.mark.parametrize("kind", kinds(FaultKind, in_check=(FaultKind.KILL,)))
@pytest.mark.parametrize(
    ("shape", "operation", "after"),
    [
        ("mor-buckets", "upsert", AFTER),
        ("cow-simple", "upsert", AFTER),
        pytest.param("cow-captured", "upsert", AFTER, marks=pytest.mark.wide),
        pytest.param("mor-buckets", "insert_overwrite", OVERWRITTEN, marks=pytest.mark.wide),
        pytest.param("mor-column", "upsert", AFTER, marks=pytest.mark.wide),
        pytest.param("mor-moves", "upsert", AFTER_MOVES, marks=pytest.mark.wide),
        pytest.param("mor-buckets-native", "upsert", AFTER_NATIVE, marks=pytest.mark.wide),
    ],
)
def test_a_write_survives_every_fault(
    shape: str, operation: str, after: dict[str, str], kind: FaultKind, tmp_path: Path
) -> None:
    """Whatever call fails, dies, tears or loses its reply: the same write again ends it. Keeps 1 of write/beginning."""
    table = written(shape, tmp_path / "table")
    unhurt = unhurt_calls(table, shape, operation, after)
    for fault in spread(faults_of(kind, unhurt.calls)):
        check_survives(table, shape, operation, after, fault, unhurt)


def test_a_log_of_changes_comes_with_its_base_file_or_not_at_all(tmp_path: Path) -> None:
    """The process dies between the two, and behind them."""
    shape = "cow-captured"
    table = written(shape, tmp_path / "table")
    unhurt = unhurt_calls(table, shape, "upsert", AFTER)
    assert named_change_logs(table.with_name("whole"))
    between = max(number for number, call in enumerate(unhurt.calls) if str(call).endswith(".cdc"))
    behind = max(number for number, call in enumerate(unhurt.calls) if str(call).endswith(".commit"))
    for number in (between, between + 1, behind):
        check_survives(table, shape, "upsert", AFTER, Fault(FaultKind.KILL, number), unhurt)


def test_a_write_of_native_logs_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Its file of rows and its file of deletes come and go together: the process dies between them, and behind them."""
    shape = "mor-buckets-native"
    table = written(shape, tmp_path / "table")
    unhurt = unhurt_calls(table, shape, "upsert", AFTER_NATIVE)
    between = max(number for number, call in enumerate(unhurt.calls) if str(call).endswith(".deletes.parquet"))
    behind = max(number for number, call in enumerate(unhurt.calls) if str(call).endswith(".deltacommit"))
    for number in (between, behind):
        check_survives(table, shape, "upsert", AFTER_NATIVE, Fault(FaultKind.KILL, number), unhurt)


def test_a_row_is_never_in_two_partitions_nor_in_none(tmp_path: Path) -> None:
    """The log that says that it left, the file that has it and its place in the record index come together: the process
    dies at each step that makes something visible."""
    shape = "mor-moves"
    table = written(shape, tmp_path / "table")
    unhurt = unhurt_calls(table, shape, "upsert", AFTER_MOVES)
    assert sum("/.hoodie/" not in call for call in unhurt.calls if call.startswith("move ")) > 2
    for number, call in enumerate(unhurt.calls):
        if call.startswith(("move ", "link ")):
            check_survives(table, shape, "upsert", AFTER_MOVES, Fault(FaultKind.KILL, number), unhurt)


def unhurt_calls(table: Path, shape: str, operation: str, after: dict[str, str]) -> FaultyStorage:
    """The calls of a write to a copy of the table that nothing happens to."""
    unhurt = FaultyStorage()
    whole = Path(shutil.copytree(table, table.with_name("whole"), copy_function=shutil.copy2))
    write(whole, second(shape), operation, storage=unhurt, **request_of(shape))
    check_done(whole, after)
    if has_native_logs(whole):
        kinds_of = [{log.name.text.split(".")[1] for log in each.log_files} for each in scan(whole).latest_slices]
        assert {"log", "deletes"} in kinds_of
    return unhurt


def check_survives(
    table: Path, shape: str, operation: str, after: dict[str, str], fault: Fault, unhurt: FaultyStorage
) -> None:
    """The write with the fault, to a copy of the table, and then the same write once more."""
    base = Path(shutil.copytree(table, table.with_name(f"{fault.kind}-{fault.call}"), copy_function=shutil.copy2))
    processes = ScriptedProcesses()
    try:
        with suppress(LakewardError, OSError, Killed):
            write(
                base,
                second(shape),
                operation,
                storage=FaultyStorage(fault),
                processes=processes,
                **request_of(shape),
            )
        check_whole(base, after)
        processes.kill_all()
        age_temporary_files(base)
        write(base, second(shape), operation, storage=FaultyStorage(), processes=processes, **request_of(shape))
        check_done(base, after)
    except BaseException as error:
        error.add_note(f"{fault.kind} at call {fault.call}: {unhurt.calls[fault.call]}")
        raise
    shutil.rmtree(base)


@pytest.mark.parametrize("kind", kinds(KINDS, in_check=(FaultKind.KILL,)))
@pytest.mark.parametrize(
    ("shape", "after"),
    [
        ("mor-buckets", AFTER),
        ("cow-simple", AFTER),
        pytest.param("cow-captured", AFTER, marks=pytest.mark.wide),
        pytest.param("mor-column", AFTER, marks=pytest.mark.wide),
        pytest.param("mor-buckets-native", AFTER_NATIVE, marks=pytest.mark.wide),
    ],
)
def test_a_write_in_an_object_store_survives_every_fault(
    shape: str, after: dict[str, str], kind: FaultKind, tmp_path: Path
) -> None:
    """The same where attempts are kept apart by commit intents: what one stated is rolled forward. Keeps 5 of
    services/rollback/run/rolling_back."""
    table = written(shape, tmp_path / "table")
    objects = Objects()
    bring(table, MemoryObjects(objects), BASE)

    def copied() -> Objects:
        return Objects(dict(objects.data), objects.versions)

    def fetched(from_store: Objects) -> Path:
        return fetch(MemoryObjects(from_store), BASE, Path(tempfile.mkdtemp(dir=tmp_path)))

    options: dict[str, object] = {"lock": StorageLockOptions(wait_seconds=0.0)}
    unhurt = copied()
    store = MemoryObjects(unhurt)
    write(BASE, second(shape), storage=store, options=options, **request_of(shape))
    check_done(fetched(unhurt), after)
    for number in spread(range(len(store.writes))):
        stopped, processes = copied(), ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            write(
                BASE,
                second(shape),
                storage=MemoryObjects(stopped, Fault(kind, number)),
                processes=processes,
                options=options,
                **request_of(shape),
            )
        try:
            check_whole(fetched(stopped), after)
            processes.kill_all()
            write(
                BASE,
                second(shape),
                storage=MemoryObjects(stopped),
                processes=processes,
                options=options,
                **request_of(shape),
            )
            check_done(fetched(stopped), after)
        except BaseException as error:
            error.add_note(f"{kind} at write {number}: {store.writes[number]}")
            raise
