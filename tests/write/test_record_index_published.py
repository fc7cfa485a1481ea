"""Writes that use Lakeward's record index leave in it what they did to keys, with their commit and never without."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import IndexMoved, LakewardError, Refused
from lakeward.index.index import HashedIndex
from lakeward.index.overlay import current_index
from lakeward.index.record.as_of import locations_as_of
from lakeward.index.record.record_index import RecordIndex
from lakeward.index.record.record_manifest import find_manifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.own_index import AGAIN_MAX
from lakeward.write.request import FileSizes
from tests.called_storage import WRITES
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.index.following import places, truth
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import choose_old
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.own_record_index import STORAGE, build_again, built, catch_up, located, opened, write_by
from tests.write.test_whole_write import CLOCK
from tests.write.writing import Row, rows_of, write

KEYS = [f"k{number}" for number in range(10)]


@pytest.mark.parametrize("is_global", [True, False], ids=["global", "partition"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_the_index_has_each_commit(tmp_path: Path, table_type: str, is_global: bool) -> None:
    """After each operation the index alone says where the keys are: nothing of the commit is read again, and an insert
    looks nothing up. Keeps 1 of write/own_index."""
    base = built(tmp_path / "t", table_type, is_global=is_global)
    moves = {"moves_rows": True} if is_global else {}
    steps: list[tuple[list[Row], str, dict[str, Any]]] = [
        ([("k1", 2, "p", "b"), ("k4", 2, "p", "b")], "upsert", {}),
        ([("k1", 3, "q" if is_global else "p", "b"), ("k3", 3, "q", "b")], "upsert", moves),
        ([("k2", 4, "p", None), ("k9", 4, "p", None)], "delete", {}),
        ([("k5", 5, "p", "b")], "insert", {}),
        ([("k6", 6, "p", "b"), ("k7", 6, "s", "b")], "bulk_insert", {}),
        ([("k8", 7, "p", "b"), ("k5", 7, "p", "b")], "insert_overwrite", {}),
        ([], "delete_partition", {"partitions": ("s",)}),
    ]
    for rows, operation, words in steps:
        instant = write_by(base, rows_of(rows), operation, **words)
        assert instant in opened(base, scan(base)).indexed().instants, operation
        assert located(base, KEYS, bytes_max=0) == truth(base), operation
    assert not catch_up(base).commits
    assert located(base, KEYS, bytes_max=0) == truth(base)


def test_it_travels_to_tasks(tmp_path: Path) -> None:
    """What Spark's tasks get is the index alone, by its buckets; what it is written with stays."""
    base = built(tmp_path / "t", "MERGE_ON_READ")
    writer = opened(base, scan(base))
    sent = pickle.loads(pickle.dumps(current_index(STORAGE, scan(base), writer)))

    assert isinstance(sent, HashedIndex) and sent.count == 3
    assert isinstance(pickle.loads(pickle.dumps(writer)), RecordIndex)
    assert places(sent, KEYS) == truth(base)


@pytest.mark.parametrize("first", [1, 2], ids=["asked", "shown"])  # behind the opening that shows it is there
@pytest.mark.parametrize("times", [AGAIN_MAX, AGAIN_MAX + 1])
def test_an_index_that_is_built_again_meanwhile(tmp_path: Path, times: int, first: int) -> None:
    """It is opened, and asked or informed, again as often as five times; then the write fails, and leaves nothing.
    Keeps 4 of write/own_index."""
    base = built(tmp_path / "t", "COPY_ON_WRITE")
    calls = 0

    def open_moving(snapshot: TableSnapshot) -> RecordIndexWriter:
        nonlocal calls
        index = opened(base, snapshot)
        calls += 1
        if first < calls <= first + times:
            build_again(base)
        return index

    rows: list[Row] = [("k1", 2, "q", "b"), ("k4", 2, "r", "b")]
    before = truth(base)
    if times > AGAIN_MAX:
        with pytest.raises(IndexMoved) as failed:
            write_by(base, rows, open_index=open_moving, moves_rows=True)
        assert failed.value.exit_code == 75
        assert truth(base) == before and scan(base).timeline.pending == ()
        assert not opened(base, scan(base)).indexed().instants
    else:
        instant = write_by(base, rows, open_index=open_moving, moves_rows=True)
        assert calls == times + 3
        assert instant in opened(base, scan(base)).indexed().instants
    assert located(base, KEYS, bytes_max=0) == truth(base)


@pytest.mark.crash
@pytest.mark.parametrize("kind", [FaultKind.KILL, FaultKind.BEFORE, FaultKind.LOST_REPLY])
def test_stopped_at_any_call_to_the_index(tmp_path: Path, kind: FaultKind) -> None:
    """A write that dies at a call to its index, or whose call fails, leaves no key where it is not and loses none; and
    so it is after the next write, which rolls it back. Keeps 2 of write/own_index."""
    base = built(tmp_path / "t", "MERGE_ON_READ")
    rows: list[Row] = [("k1", 2, "q", "b"), ("k5", 2, "r", "b")]
    counting = FaultyStorage()
    write_by(base, rows, storage=counting, moves_rows=True)
    calls = [
        number
        for number, call in enumerate(counting.calls)
        if "/.lakeward/index/" in call and (call.split()[0] in WRITES or kind is FaultKind.BEFORE)
    ]
    assert len(calls) >= 2
    for number in calls:
        case = built(tmp_path / f"t-{number}", "MERGE_ON_READ")
        processes = ScriptedProcesses()
        with suppress(Killed, LakewardError, OSError):
            write_by(case, rows, storage=FaultyStorage(Fault(kind, number)), moves_rows=True, processes=processes)
        assert located(case, KEYS) == truth(case), f"{kind} {number}"
        processes.dead |= {owner.attempt for owner in processes.owners}
        write_by(case, [("k6", 3, "p", "c"), ("k5", 3, "p", "c")], moves_rows=True, processes=processes)
        assert located(case, KEYS) == truth(case), f"{kind} {number}, then"
        catch_up(case)
        assert located(case, KEYS, bytes_max=0) == truth(case), f"{kind} {number}, in the end"


def test_an_index_to_which_its_own_writers_come_alone(tmp_path: Path) -> None:
    """Each write leaves a file in a bucket, and an update, which finds nothing that it lacks, merges them; then it is
    known where keys were as of the last write, and not as of one before."""
    base = built(tmp_path / "t", buckets=1)
    instants = [write_by(base, [(f"k{number}", number, "p", "v")]) for number in range(4, 13)]
    _, before = find_manifest(STORAGE, RecordOptions().folder(str(base)))
    assert len(before.files) == 10

    done = catch_up(base)

    assert (done.commits, done.is_tidied, catch_up(base).is_tidied) == ((), True, False)
    _, after = find_manifest(STORAGE, RecordOptions().folder(str(base)))
    assert len(after.files) == 1 and after.commits == before.commits
    assert located(base, KEYS, bytes_max=0) == [each for each in truth(base) if each[0] in KEYS]
    snapshot = scan(base)
    index = RecordIndex.of(STORAGE, snapshot, RecordOptions().folder(str(base)))
    keys = pa.array([f"k{number}" for number in range(4, 14)])
    assert locations_as_of(STORAGE, snapshot, index, keys, instants[-1]).num_rows == 9
    with pytest.raises(Refused, match="does not know any more"):
        locations_as_of(STORAGE, snapshot, index, keys, instants[0])


def test_files_that_another_writer_left_are_cleaned_away(tmp_path: Path) -> None:
    """Another writer makes a file group; a write of Lakeward, which covers that, puts another row of it in its place,
    and a clean takes what the other one wrote: the index has all keys of the group all the same."""
    base = built(tmp_path / "t", "COPY_ON_WRITE")
    write(base, [("k4", 2, "p", "x"), ("k5", 2, "p", "x")], clock=CLOCK, sizes=FileSizes(small_file=0))
    write_by(base, [("k4", 3, "p", "y")])
    table = replace(serviced_table(str(base), STORAGE, ScriptedProcesses()), clock=CLOCK)
    Cleaner(table, {}, keep_seconds=0.0).clean(choose_old)
    assert located(base, KEYS) == [each for each in truth(base) if each[0] in KEYS]

    assert len(catch_up(base).commits) == 1
    assert located(base, KEYS, bytes_max=0) == [each for each in truth(base) if each[0] in KEYS]
