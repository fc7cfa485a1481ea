"""Logs of the layout `lsm_tree` that are merged straight out of their files."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.engine.task.slice_check import check_slice
from lakeward.engine.task.slice_check_spec import SliceCheck
from lakeward.engine.task.verification import OutputSample, check_counts, check_sample
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.read.file_slice import open_slice
from lakeward.read.logs import sorted_logs
from lakeward.read.query.slice_query import REWRITE, SliceQuery
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.storage.local import LocalStorage
from tests import native_log_judge as judge
from tests.read import conditions
from tests.read.conditions import Between
from tests.read.native_slices import COMMIT, EVENT, Flush, inline, lay_out, native
from tests.read.test_native_slices import KEYS, digest_of, random_flush, rows_of
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**31)))
STORAGE = LocalStorage()
EVENT_BY_RANK, COMMIT_BY_RANK = replace(EVENT, by_rank=True), replace(COMMIT, by_rank=True)
BASE = [("a", 10, "base"), ("b", 1, "base"), ("d", 1, "base")]
FLUSHES = [
    Flush("200", [("b", 2, "200"), ("c", 1, "200")], [("a", 11)]),
    Flush("300", [("a", 12, "300"), ("c", 3, "300"), ("e", 1, "300")], [("d", 5)]),
]
NEWEST_ROWS = {"a": (12, "300"), "b": (2, "200"), "c": (3, "300"), "e": (1, "300")}


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs do not fit memory, be they as small as they are."""
    monkeypatch.setattr(MemoryBudget, "logs", property(lambda _: 1))


@pytest.fixture
def no_files(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs do not fit memory, and may not be put away in files."""

    def fail(*_: object) -> NoReturn:
        raise AssertionError("a temporary file")

    monkeypatch.setattr(tempfile, "mkstemp", fail)


def logs_of(flushes: list[Flush], rules: MergeRules = EVENT) -> dict[str, bytes]:
    return {name: data for flush in flushes for name, data in native(flush, rules).items()}


def merged_by(given: SliceInput, *, by_order: bool = True) -> MergedBy:
    with open_slice(STORAGE, given, by_order=by_order) as merged:
        list(merged.batches())
        check_counts(merged.counts, rows_written=merged.counts.rows)
        return merged.counts.merged_by


@pytest.mark.slow
@pytest.mark.usefixtures("no_files")
@pytest.mark.parametrize("rules", [EVENT_BY_RANK, COMMIT_BY_RANK], ids=["event time", "commit time"])
def test_the_rows_are_those_of_the_second_reader(tmp_path: Path, rules: MergeRules) -> None:
    """They come out in the order of their keys, without a temporary file, and a sample of them that is merged again
    gives the same; ranges of values are what the whole slice has there."""
    print(f"LAKEWARD_SEED={SEED}")
    classic = EVENT if rules is EVENT_BY_RANK else COMMIT
    chance = random.Random(f"{SEED} {rules.mode}")
    for number in range(runs(24)):
        base = [(key, chance.randint(0, 6), "base") for key in chance.sample(KEYS, 6)]
        flushes = [random_flush(chance, str(200 + 10 * at)) for at in range(chance.randint(1, 6))]
        logs = logs_of(flushes, classic)
        given = lay_out(tmp_path / str(number), base if chance.random() < 0.8 else None, logs, rules=rules)
        base_rows = [{judge.KEY: key, "ts": ts, "v": v} for key, ts, v in base] if given.base_file else []
        due = judge.merged(base_rows, logs, ["ts"] if classic is EVENT else [], lsm=True)
        expected = {key: (row["ts"], row["v"]) for key, row in due.items()}
        found = rows_of(given)
        assert found == expected
        assert list(found) == sorted(found, key=str.encode)
        check_again(given)
        by_value = conditions.wanted(Between("ts", 2, 4))
        assert rows_of(given, SliceQuery(None, by_value)) == {
            key: row for key, row in expected.items() if row[0] is not None and 2 <= row[0] <= 4
        }


@pytest.mark.slow
@pytest.mark.parametrize("rules", [EVENT_BY_RANK, COMMIT_BY_RANK], ids=["event time", "commit time"])
def test_a_range_of_keys_is_what_the_whole_slice_has(tmp_path: Path, rules: MergeRules) -> None:
    """Their logs are folded, unless all records must meet the base row: few of the rows that are decoded are kept."""
    print(f"LAKEWARD_SEED={SEED}")
    chance = random.Random(f"keys {SEED} {rules.mode}")
    for number in range(runs(8)):
        base = [(key, chance.randint(0, 6), "base") for key in chance.sample(KEYS, 6)]
        flushes = [random_flush(chance, str(200 + 10 * at)) for at in range(chance.randint(1, 6))]
        logs = logs_of(flushes, EVENT if rules is EVENT_BY_RANK else COMMIT)
        given = lay_out(tmp_path / str(number), base if chance.random() < 0.8 else None, logs, rules=rules)
        low, high = sorted(chance.sample(KEYS, 2), key=str.encode)
        wanted = conditions.wanted(Between("_hoodie_record_key", low, high))
        found = rows_of(given, SliceQuery(("id", "ts", "v"), wanted))
        assert found == {k: row for k, row in rows_of(given).items() if low.encode() <= k.encode() <= high.encode()}


def check_again(given: SliceInput) -> None:
    with open_slice(STORAGE, given, query=replace(REWRITE, takes_sample=True, carries_hashes=True)) as merged:
        output = OutputSample(merged.sample)
        for batch in merged.batches():
            output.update(batch)
        check_sample(
            merged.sample.keys, [without_hashes(row) for row in output.rows], rules=merged.rules, schema=merged.schema
        )
        assert {key for key, inputs in merged.sample.keys.items() if inputs.logs} or not given.log_files


def without_hashes(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if not name.startswith("lakeward")}


@pytest.mark.usefixtures("no_files")
def test_a_reader_may_stop_early(tmp_path: Path) -> None:
    """The files are closed, and no thread is left that reads them."""
    with open_slice(STORAGE, lay_out(tmp_path, BASE, logs_of(FLUSHES), rules=EVENT_BY_RANK)) as merged:
        assert next(merged.batches()).num_rows


def upside_down(file: Path) -> None:
    """The same rows and footer, the last row first."""
    table = pq.read_table(file)
    pq.write_table(table.take(pa.array(range(table.num_rows - 1, -1, -1))), file)


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("number", range(4))
def test_a_log_that_is_out_of_order(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows or deletes: its rows are right all the same, and it is counted, whether logs fit memory or do not; verify
    names it. Keeps 1 of read/logs/sorted_logs, and Keeps 5 of read/logs/log_run."""
    more = [
        Flush(FLUSHES[0].instant, FLUSHES[0].rows, [("a", 11), ("x", 1)]),
        replace(FLUSHES[1], deletes=[("d", 5), ("y", 1)]),
    ]
    given = lay_out(tmp_path, BASE, logs_of(more), rules=EVENT_BY_RANK)
    assert merged_by(given) is MergedBy.ORDER
    assert check_slice(STORAGE, SliceCheck(given, ()), 0).problems == ()
    upside_down(tmp_path / given.log_files[number])
    (problem,) = check_slice(STORAGE, SliceCheck(given, ()), 0).problems
    assert problem.startswith(f"{given.log_files[number]} is not in the order")
    assert rows_of(given) == NEWEST_ROWS
    assert merged_by(given) is MergedBy.OUT_OF_RANKS
    monkeypatch.undo()
    assert rows_of(given) == NEWEST_ROWS
    assert merged_by(given) is MergedBy.OUT_OF_RANKS


@pytest.mark.parametrize("bound", ["OPEN_RUNS_MAX", "runs"])
def test_logs_that_cannot_all_be_read_at_once(
    tmp_path: Path, bound: str, no_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are sorted in files, as logs of the layout `default` are: in order still, and not counted as out of it.
    Keeps 2 of read/logs/sorted_logs."""
    given = lay_out(tmp_path, BASE, logs_of(FLUSHES), rules=EVENT_BY_RANK)
    asked: list[bool] = []
    ask = sorted_logs.have_room

    def has_room(logs: Sequence[sorted_logs.SortedLog], budget: MemoryBudget) -> bool:
        asked.append(ask(logs, budget))
        return asked[-1]

    monkeypatch.setattr("lakeward.read.logs.log_run.have_room", has_room)
    if bound == "runs":
        monkeypatch.setattr(MemoryBudget, "runs", property(lambda _: 10))
    else:
        monkeypatch.setattr(sorted_logs, "OPEN_RUNS_MAX", 3)
    assert rows_of(given) == NEWEST_ROWS
    assert merged_by(given) is MergedBy.ORDER
    assert asked == [False, False]


def test_the_same_rows_have_one_digest(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Merged out of native files, as logs of blocks, and as some of each."""
    ways = [inline(FLUSHES[0]) | inline(FLUSHES[1]), inline(FLUSHES[0]) | native(FLUSHES[1]), logs_of(FLUSHES)]
    given = [lay_out(tmp_path / str(at), BASE, logs, rules=EVENT_BY_RANK) for at, logs in enumerate(ways)]
    digests = {digest_of(each) for each in given}
    request.getfixturevalue("no_files")
    assert {*digests, digest_of(given[-1])} == digests
    assert len(digests) == 1
