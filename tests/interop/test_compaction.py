"""Real Hudi writes a table, Lakeward compacts it, real Hudi and hudi-rs judge: the proof that all else stands on.

Of a table with a metadata table Hudi is also asked without it, and the metadata table is held against the files, and
what our compaction wrote into it against what Hudi's own wrote.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from lakeward.format.file_name import CDC_SUFFIX
from lakeward.format.log.change_log import read_changes
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.table.file_group import FileSlice
from tests.hudi.metadata_table import WITHOUT_METADATA, assert_same_records
from tests.hudi.table import HudiTable, Instants, Rows
from tests.interop.cases import DRAWN, NARROW, PAIRS, PASSED, VALUES, Case, all_pairs, can_be, pairs_of
from tests.interop.every_query import judge_every_query
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.story import ODD_NAMES, Story
from tests.our_reader import scan
from tests.runs import spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGINNING = "000"
DAY_OF_COPY = 1e9

UNLIKE_HUDIS = ("c_float", "c_double", "c_binary", "added", ODD_NAMES["added"])
"""Columns whose ranges Hudi leaves values out of, so that queries skip them (`test_metadata_stats.py`): NaN, and bytes.
And one that some files of a partition have no record of: Hudi writes a record of the others, and we none
(`format/metadata/partition_stats.py`)."""


WIDE = [pytest.param(case, marks=pytest.mark.wide) for case in PAIRS]


def test_narrow_cases_hold_every_value():
    """What CI runs leaves no value of a column out, but for types of ordering values; nor what cannot be in."""
    for name in VALUES.keys() - {"ordering_type"}:
        assert {getattr(case, name) for case in NARROW} == set(VALUES[name]), name
    for case in (*NARROW, *PAIRS):
        assert can_be(asdict(case)), case
    assert {case.ordering_type for case in (*NARROW, *PAIRS)} == set(VALUES["ordering_type"])


def test_pairs_hold_every_pair():
    """Every value of every column of these thirty meets every value of every other one that it can meet."""
    assert len(NARROW) <= 12 and len({*NARROW, *PAIRS}) == 30
    assert set().union(*map(pairs_of, (*NARROW, *PAIRS))) >= all_pairs()


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("case", [*spread(NARROW, least=2), *WIDE], ids=str)
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, case: Case):
    """Every query of released Hudi answers as before, or as it does where Hudi itself compacted; then life goes on."""
    judge(Story(spark, tmp_path / "table", case), tmp_path, case)


@pytest.mark.interop
@pytest.mark.wide
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not DRAWN, reason="make interop-full SEED=s COUNT=n draws tables")
@pytest.mark.parametrize("name", DRAWN or [""])
def test_tables_by_chance(spark: SparkSession, tmp_path: Path, name: str):
    """The same of any table that can be, with all kinds of query by Lakeward before and after. `make interop-full`
    remembers which passed."""
    case = DRAWN[name]
    print(f"LAKEWARD_INTEROP_FULL, {name}: {case}")

    def judge_queries(table: HudiTable) -> None:
        # (What hudi-rs leaves out of such tables `judge` says.)
        encoded = "part" if case.layout == "encoded" else ""
        fills = case.merging == "filled"
        print(
            judge_every_query(
                table,
                by_metadata=case.has_metadata,
                by_hudi_rs=False,
                encoded=encoded,
                fills=fills,
                is_listed_whole=case.is_listed_whole,
            )
        )

    judge(Story(spark, tmp_path / "table", case), tmp_path, case, judge_queries)
    PASSED.mkdir(exist_ok=True)
    (PASSED / name).touch()


def judge(
    story: Story, tmp_path: Path, case: Case, judge_queries: Callable[[HudiTable], None] = lambda table: None
) -> None:
    story.begin()
    table = story.table
    if not case.is_readable:
        judge_by_model(story)
        return
    before, before_by_hudi_rs = table.snapshot(), table.read_by_hudi_rs()
    assert table.snapshot(with_meta=False) == story.expected()
    assert table.read_by_lakeward() == before
    assert table.read_by_lakeward(read_optimized=True) == table.read_optimized()
    judge_queries(table)
    twin = table.copy_to(tmp_path / "twin")

    compact_copy(story)
    hudi_compacts(twin)

    after = table.snapshot()
    assert after == twin.snapshot()
    if case.history != "pending":
        # (With a plan pending, Hudi's own compaction may change what is read: see `TableModel.rows`.)
        assert after == before
    assert table.read_optimized() == after
    assert table.read_by_lakeward() == table.read_by_lakeward(read_optimized=True) == after
    # (Some logs hudi-rs cannot read, and some it does not see: those of a file group without a base file, where the
    # metadata table lists them. Of partial updates it knows nothing, and logs of version 6 it leaves out. Then there is
    # only its answer afterwards.)
    has_answer = after == before and not isinstance(before_by_hudi_rs, str) and len(before_by_hudi_rs) == len(before)
    has_answer = has_answer and case.merging == "whole" and case.version != "6"
    after_by_hudi_rs = table.read_by_hudi_rs()
    assert after_by_hudi_rs == (before_by_hudi_rs if has_answer else twin.read_by_hudi_rs())
    assert not table.pending_instants()
    assert not [name for name in table.files() if name.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/"))]
    if not isinstance(after_by_hudi_rs, str):
        assert table.slices_by_hudi_rs() == our_slices(table)
    if case.has_metadata:
        assert_metadata_agrees(table, after, by_listing=case.is_listed_whole)
        assert_same_records(table, twin, but=UNLIKE_HUDIS)
    if case.captures_changes:
        assert _as_text(captured_changes(table)) == _as_text(captured_changes(twin))
    # What a metadata table adds to each write and query is made up for here: history is not its matter, and the model
    # judges our copy alone, too.
    assert_same_history(
        table, twin, last=2 if case.has_metadata else None, windows=windows_between if case in NARROW else all_windows
    )

    judge_queries(table)
    # The in-memory index is one map for all tables of a JVM: it cannot serve two copies of one table.
    copies = [table] if case.index == "MEMORY" or case.has_metadata else [table, twin]
    story.go_on(copies)

    for copy in copies:
        assert copy.snapshot(with_meta=False) == story.expected()
    if case.has_metadata:
        if case.is_listed_whole:
            assert table.snapshot(with_meta=False, **WITHOUT_METADATA) == story.expected()
        assert_verified(table)
        if not isinstance(after_by_hudi_rs, str):
            assert table.slices_by_hudi_rs() == our_slices(table)


def judge_by_model(story: Story) -> None:
    """Hudi cannot read such logs, and so cannot compact them; it reads what we made of them."""
    table = story.table
    before = _rows_of_bases(story) if story.case.captures_changes else {}
    compact_copy(story)
    story.model.compact()
    assert table.snapshot(with_meta=False) == table.read_optimized(with_meta=False) == story.expected()
    assert not table.pending_instants()
    if story.case.has_metadata:
        assert_metadata_agrees(table, table.snapshot(), by_listing=story.case.is_listed_whole)
    if story.case.captures_changes:
        assert_changes_lead(before, captured_changes(table), story)
    story.go_on([table])
    assert table.snapshot(with_meta=False) == story.expected()


def compact_copy(story: Story) -> None:
    """Lakeward compacts the table once its file times are what the case says. Where nothing shows the time zone of its
    writers, the times of instants are the greatest that there was and the milliseconds after it."""
    table, times = story.table, story.case.times
    if times == "equal":
        table.cut_head_of_properties()
        table.set_file_times(DAY_OF_COPY)
    elif times == "now":
        table.set_file_times()
    before = _instant_times(table)
    compact(table)
    if times == "equal":
        greatest = parse_instant_time(max(before), UTC)
        after = [parse_instant_time(time, UTC) - greatest for time in _instant_times(table) - before]
        assert all(0 < milliseconds < 100 for milliseconds in after), after
        assert after or story.case.version == "6", "there, an end has no time of its own"


def _instant_times(table: HudiTable) -> set[str]:
    """Requested and completion times, of the metadata table too."""
    folders = (table.path / ".hoodie", table.path / ".hoodie" / "metadata" / ".hoodie")
    names = [file.name for folder in folders for of in ("*", "timeline/*") for file in folder.glob(of)]
    return {time for name in names for time in re.findall(r"\d{17}", name.partition(".")[0])}


def hudi_compacts(table: HudiTable) -> None:
    for instant in table.pending_instants():
        table.compact_pending(instant)
    table.compact()


def our_slices(table: HudiTable) -> frozenset[tuple[str, str, str, frozenset[str]]]:
    """Our slices in the form of `HudiTable.slices_by_hudi_rs`; nothing is pending."""
    latest = [group.slices[0] for group in scan(table.path).file_groups if not group.slices[0].is_empty]
    return frozenset(map(_spelled, latest))


def _spelled(slice_: FileSlice) -> tuple[str, str, str, frozenset[str]]:
    base = slice_.base_file.name if slice_.base_file is not None else ""
    return slice_.partition_path, slice_.file_id, base, frozenset(log.name.text for log in slice_.log_files)


Changes = dict[str, list[dict[str, Any]]]


def captured_changes(table: HudiTable) -> list[Changes]:
    """What each compaction wrote of changes, by file id: one log beside each base file, which `cdcStats` names."""
    found = []
    for instant in table.compactions():
        (commit,) = (table.path / ".hoodie" / "timeline").glob(f"{instant}_*.commit")
        shown = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2)
        stats = [stat for each in shown.partition_to_write_stats.values() for stat in each]
        found.append({stat.file_id or "": _changes_in(table.path, stat.cdc_stats or {}) for stat in stats})
    return found


def _changes_in(base: Path, cdc_stats: Mapping[str, int]) -> list[dict[str, Any]]:
    ((name, size),) = cdc_stats.items()
    assert (base / name).stat().st_size == size and name.endswith(CDC_SUFFIX)
    with (base / name).open("rb") as file:
        return [record for batch in read_changes(file, size, name=name) for record in batch.to_pylist()]


def _as_text(shown: list[Changes]) -> list[dict[str, list[str]]]:
    """Changes as they are compared: in no order, and without the instant of the compaction."""
    return [
        {
            file_id: sorted(repr(_comparable({**change, "ts_ms": None})) for change in changes)
            for file_id, changes in each.items()
        }
        for each in shown
    ]


def _comparable(value: Any) -> Any:
    """Hudi writes the entries of a map in the order of their hashes."""
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(value) if value and isinstance(value[0], tuple) else [_comparable(each) for each in value]
    return value


def assert_changes_lead(before: dict[str, str], shown: list[Changes], story: Story) -> None:
    """The changes of all compactions, one after the other, lead from the keys of the base files before to those after,
    and name each key whose row is another one, but no key whose row is the same."""
    after = _rows_of_bases(story)
    now = set(before)
    changed = set()
    for change in (change for each in shown for changes in each.values() for change in changes):
        key = change["record_key"] if "record_key" in change else _key_of(story, change["before"] or change["after"])
        assert (key in now) == (change["op"] != "i"), change
        (now.discard if change["op"] == "d" else now.add)(key)
        changed.add(key)
    assert now == after.keys()
    assert changed & (before.keys() | now) == {key for key, _ in before.items() ^ after.items()}


def _rows_of_bases(story: Story) -> dict[str, str]:
    """The row of each key in the newest base file of its file group: which write it is of, and which of its rows."""
    found = {}
    names = ["_hoodie_record_key", "_hoodie_commit_seqno"]
    for group in scan(story.table.path).file_groups:
        newest = next((slice_ for slice_ in group.slices if slice_.base_file is not None), None)
        if newest is not None and newest.base_file is not None:
            with pq.ParquetFile(story.table.path / newest.partition_path / newest.base_file.name) as file:
                found |= {row[names[0]]: row[names[1]] for row in file.read(names).to_pylist()}
    return found


def _key_of(story: Story, row: Mapping[str, Any]) -> str:
    return f"id:{row['id']},sub:{row['sub']}" if story.case.keys == "composite" else row["id"]


def assert_metadata_agrees(table: HudiTable, rows: Rows, *, by_listing: bool = True) -> None:
    """Hudi finds the same rows without the metadata table, and by its indexes those that a condition asks for.

    Args:
        by_listing: all partitions are found so.
    """
    optimized = {"hoodie.datasource.query.type": "read_optimized"}
    if by_listing:
        assert table.snapshot(**WITHOUT_METADATA) == table.snapshot(**optimized, **WITHOUT_METADATA) == rows
    skipping = table.frame(**{"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"})
    kinds = dict(skipping.dtypes)
    one = json.loads(rows[len(rows) // 2])
    for column in ("id", "ts"):
        wanted = tuple(row for row in rows if json.loads(row)[column] == one[column])
        condition = f.col(column) == f.lit(one[column]).cast(kinds[column])
        assert table.formatted(skipping.where(condition)) == wanted, column
    assert_verified(table)


def assert_verified(table: HudiTable) -> None:
    """Every statistic, filter and key is as the files have it, but for what Hudi itself has wrong."""
    _, printed = lakeward("verify", str(table.path), "--all")
    known = tuple(f"Column {column}" for column in UNLIKE_HUDIS)
    assert [problem for problem in printed["problems"] if not problem["what"].startswith(known)] == []


def assert_same_history(
    table: HudiTable, twin: HudiTable, *, last: int | None = None, windows: Callable[[Instants], list[tuple[str, str]]]
) -> None:
    """Time travel to each instant and the incremental query of each window, our compactions taken for Hudi's.

    Args:
        last: of so many instants only; None for all.
        windows: which queries there are between instants.
    """
    # A plan keeps its place by requested time whichever engine runs it, and whenever.
    own, hudis = tuple(sorted(table.completed_instants())), tuple(sorted(twin.completed_instants()))
    assert len(own) == len(hudis)
    if last is not None:
        own, hudis = own[-last:], hudis[-last:]
    for (instant, _), (instant_there, _) in zip(own, hudis, strict=True):
        assert table.as_of(instant) == twin.as_of(instant_there), f"time travel to {instant}"

    for window, window_there in zip(windows(own), windows(hudis), strict=True):
        assert table.incremental(*window) == twin.incremental(*window_there), f"incremental {window}"


def windows_between(instants: Instants) -> list[tuple[str, str]]:
    """From each completion time to the next one, and from the beginning to the last: a window is a sum of these."""
    ends = sorted(completed for _, completed in instants)
    return [*itertools.pairwise(ends), (BEGINNING, ends[-1])]


def all_windows(instants: Instants) -> list[tuple[str, str]]:
    """From each completion time to each later one, and from the beginning to the last."""
    ends = [completed for _, completed in instants]
    return [(min(pair), max(pair)) for pair in itertools.combinations(ends, 2)] + [(BEGINNING, max(ends))]
