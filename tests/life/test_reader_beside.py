"""A query beside another process: `TableScan`, stopped before each of its storage calls while a service or a writer
runs to its end, and run in the middle of a service, at each of its calls.

The answer is one that the table had while the query began, or an error that says what to do; never fewer rows. Plan
and snapshot are the real ones, and so is what a file that is gone means; slices are folded by
`tests/simulation/data_files`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import LakewardError
from lakeward.read import slice_scan
from lakeward.read.newest_slice import TableReading
from lakeward.scan.past_snapshot import read_as_of
from lakeward.scan.scan_plan import TableQuery
from lakeward.scan.table_scan import TableScan
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import take_snapshot
from tests.life.faulty_memory import FaultyMemory
from tests.life.model import Life
from tests.life.rows import newest, present
from tests.life.small_table import BASE, without_threads
from tests.life.test_interleavings import (
    ACTS,
    LEFT_ALONE,
    ONE_VERSION,
    prepared,
    retire_sources,
    with_merged_logs,
)
from tests.life.turns import Segment, Turns
from tests.runs import NIGHTLY, spread
from tests.simulation.data_files import fold, read_base_file, read_log_file

Rows = dict[int, int]


def _restore(life: Life, storage: FaultyMemory) -> None:
    life.will_restore(min(life.saved))
    life.table.restore(min(life.saved), storage)


def _compact_and_clean(life: Life, storage: FaultyMemory) -> None:
    """The slices that a query has just chosen go."""
    life.table.compact(CompactionType.FULL, storage)
    life.table.clean(ONE_VERSION, storage)


def prepared_for(other: str) -> Life:
    return with_merged_logs() if other == "retire" else prepared()


BESIDE: dict[str, Callable[[Life, FaultyMemory], object]] = {
    **{name: ACTS[name] for name in ("clean commits", "clean versions", "roll back", "archive", "overwrite")},
    "compact and clean": _compact_and_clean,
    "restore": _restore,
    "retire": retire_sources,
}
ENDS_QUERIES = {("clean commits", "earlier"), ("clean versions", "earlier"), ("compact and clean", "now")}
"""Some of them end with an error."""
HINDERS_NONE = {("archive", "now")}
"""A query gives rows whenever they come."""


def fold_slice(
    storage: Storage, reading: TableReading, slice_: FileSlice, *given: Any, **named: Any
) -> Iterator[pa.RecordBatch]:
    """Stands in for `slice_rows`."""
    base, logs = slice_.base_file, []
    ids = set() if base is None else {*read_base_file(storage.read(posixpath.join(BASE, base.path))).ids}
    for log in slice_.row_logs:
        logs.append((log.instant, read_log_file(storage.read(posixpath.join(BASE, log.path)))))
    found = pa.array([str(each) for each in sorted(ids | fold(logs)[0])], pa.string())
    yield pa.RecordBatch.from_arrays([found], ["id"])


def query(life: Life, storage: FaultyMemory, as_of: str | None = None) -> Rows:
    snapshot = take_snapshot(storage, BASE, timezone="UTC", clock=life.table.clock)
    if as_of is not None:
        snapshot = read_as_of(storage, snapshot, as_of, clock=life.table.clock)
    scan = TableScan(storage, snapshot, TableQuery(), clock=life.table.clock)
    return present(newest([int(text) for batch in scan for text in batch.column("id").to_pylist()]))


def play(other: str, schedule: Sequence[Segment], as_of: str | None = None) -> tuple[list[str], list[str], str]:
    """One run. The calls of the query and of the other process, and how the query ended."""
    life = prepared_for(other).copy()
    life.table.storage.watch = lambda change, path: None
    states = [present(rows) for rows in life.then.values()] if other == "restore" else []
    states.append(present(life.rows))
    answers: list[Rows] = []
    bodies = [lambda storage: answers.append(query(life, storage, as_of)), lambda storage: BESIDE[other](life, storage)]
    turns = Turns(life.table.storage, bodies, schedule)  # a query holds no lock: nobody waits for it
    ended, beside = turns.run()
    where = f"play({other!r}, {list(schedule)}, {as_of!r}) repeats this run"
    assert beside is None or isinstance(beside, LEFT_ALONE), where
    states.append(present(life.rows))
    if as_of is not None:
        states = [prepared_for(other).past[as_of]]
    if ended is None:
        assert answers[0] in states, f"{where}: {answers[0]} is none of {states}"
    elif not isinstance(ended, LakewardError):
        ended.add_note(where)
        raise ended
    else:
        assert ended.remedy, f"{where}: {ended!r} says no remedy"
    return turns.actors[0].storage.calls, turns.actors[1].storage.calls, type(ended).__name__


def test_merged_logs_do_retire() -> None:
    """Or nothing is interrupted."""
    life = with_merged_logs().copy()
    with without_threads():
        before = sum(len(slice_.log_files) for slice_ in life.table.snapshot().latest_slices)
        life.will_clean(CleanPolicy(CleanPolicyKind.COMMITS, 2))
        retire_sources(life, life.table.process())
        after = sum(len(slice_.log_files) for slice_ in life.table.snapshot().latest_slices)
    assert after < before
    life.check()


@pytest.mark.parametrize("moment", ["now", "earlier"])
@pytest.mark.parametrize("other", BESIDE)
def test_a_query_that_is_interrupted(other: str, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of read/slice_scan and 2 of scan/table_scan in other words: no row is lost to who deletes files."""
    monkeypatch.setattr(slice_scan, "slice_rows", fold_slice)
    life = prepared_for(other)
    as_of = None if moment == "now" else min(life.past.keys() - life.saved)
    with without_threads():
        calls, _, ended = play(other, [], as_of)
        assert ended == "NoneType"
        endings = {play(other, [(0, at), (1, 0)], as_of)[2] for at in spread(range(1, len(calls)), least=8)}
        print(other, moment, endings)
    may_end = ("NoneType", "TryLater", "Refused", "DamagedFiles", "BrokenFile")
    assert endings <= ({"NoneType"} if (other, moment) in HINDERS_NONE else {*may_end}), endings
    # Where one call in four is tried, a clean may end the query at none of them.
    assert not NIGHTLY or (other, moment) not in ENDS_QUERIES or len(endings) > 1, endings


@pytest.mark.parametrize("other", BESIDE)
def test_a_query_in_the_middle_of_a_service(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is stopped before its n-th call, and the query runs."""
    monkeypatch.setattr(slice_scan, "slice_rows", fold_slice)
    with without_threads():
        calls = play(other, [])[1]
        endings = {play(other, [(1, at), (0, 0)])[2] for at in spread(range(1, len(calls)), least=8)}
        print(other, endings)
