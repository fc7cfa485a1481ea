"""Slices of the layout `lsm_tree`: all records of a key in the order of their files, the base row first."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeward.engine.task.verification import OutputSample, check_sample
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.file_slice import open_slice
from lakeward.read.query.slice_query import REWRITE
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.storage.local import LocalStorage
from tests import native_log_judge as judge
from tests.read.native_slices import COMMIT, EVENT, NEWEST, Flush, inline, lay_out, native
from tests.read.test_native_slices import KEYS, compacted, digest_of, random_flush, rows_of
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**31)))
STORAGE = LocalStorage()
BY_RANK = [replace(EVENT, by_rank=True), replace(COMMIT, by_rank=True)]
REVIVED = [Flush("200", deletes=[("a", None)]), Flush("300", [("a", 5, "log")])]
"""A row of ts 10 below them is gone before the row of ts 5 comes."""


def merged_by(given: SliceInput) -> MergedBy:
    with open_slice(STORAGE, given) as merged:
        list(merged.batches())
        return merged.counts.merged_by


@pytest.mark.slow
@pytest.mark.parametrize("rules", BY_RANK, ids=["event time", "commit time"])
def test_the_rows_are_those_of_the_second_reader(tmp_path: Path, rules: object) -> None:
    """They are so at every instant, with the output of a log compaction and without; a sample of keys that is
    merged again gives the same. Keeps 7 of read/file_slice."""
    print(f"LAKEWARD_SEED={SEED}")
    classic = EVENT if rules is BY_RANK[0] else COMMIT
    chance = random.Random(f"{SEED} {classic.mode}")
    for number in range(runs(8)):
        base = [(key, chance.randint(0, 6), "base") for key in chance.sample(KEYS, 6)]
        flushes = [random_flush(chance, str(200 + 10 * at)) for at in range(chance.randint(1, 5))]
        if chance.random() < 0.3:
            flushes = [replace(flush, deletes=()) for flush in flushes]
        logs = [native(flush, classic) for flush in flushes]
        output = native(compacted(flushes[: chance.randint(1, len(flushes))], "900", classic), classic)
        base_rows = [{judge.KEY: key, "ts": ts, "v": v} for key, ts, v in base]
        for instant in ("100", *(flush.instant for flush in flushes), NEWEST):
            for more in ({}, output):
                files = {name: data for each in (*logs, more) for name, data in each.items()}
                of_then = {name: data for name, data in files.items() if judge.name_parts(name)["instant"] <= instant}
                due = judge.merged(base_rows, of_then, ["ts"] if classic is EVENT else [], lsm=True)
                folder = tmp_path / f"{number} {bool(more)}"
                given = lay_out(folder, base, files, rules=rules, instant=instant)
                assert rows_of(given) == {key: (row["ts"], row["v"]) for key, row in due.items()}
                check_again(given)


def check_again(given: SliceInput) -> None:
    with open_slice(STORAGE, given, query=replace(REWRITE, takes_sample=True)) as merged:
        output = OutputSample(merged.sample)
        for batch in merged.batches():
            output.update(batch)
        check_sample(merged.sample.keys, output.rows, rules=merged.rules, schema=merged.schema)


def test_one_digest_whatever_the_layout_and_the_form_of_the_logs(tmp_path: Path) -> None:
    """Inline, native and mixed, by ranks and by the classic fold: without the deletes of the next two tests there is no
    difference."""
    print(f"LAKEWARD_SEED={SEED}")
    chance = random.Random(SEED)
    for number in range(runs(4)):
        base = [(key, chance.randint(0, 6), "base") for key in chance.sample(KEYS, 6)]
        drawn = [random_flush(chance, str(200 + 10 * at)) for at in range(chance.randint(2, 5))]
        flushes = [replace(each, deletes=[(key, ts or 0) for key, ts in each.deletes]) for each in drawn]
        digests = set()
        for form in ([inline], [native], [inline, native]):
            logs = {name: data for flush in flushes for name, data in chance.choice(form)(flush).items()}
            given = lay_out(tmp_path / f"{number} {len(digests)} {len(form)} {form[0].__name__}", base, logs)
            digests |= {digest_of(given), digest_of(replace(given, rules=BY_RANK[0]))}
        assert len(digests) == 1


def test_an_unconditional_delete_between_the_base_row_and_a_smaller_one(tmp_path: Path) -> None:
    """The first case in which the layouts differ; without such a delete logs are folded in memory as ever."""
    logs = {name: data for flush in REVIVED for name, data in native(flush).items()}
    base = [("a", 10, "base"), ("b", 1, "base")]
    of_default = lay_out(tmp_path, base, logs)
    assert rows_of(of_default) == {"a": (10, "base"), "b": (1, "base")}
    by_rank = replace(of_default, rules=BY_RANK[0])
    assert rows_of(by_rank) == {"a": (5, "log"), "b": (1, "base")}
    assert merged_by(by_rank) is MergedBy.RANKS
    without = replace(by_rank, log_files=by_rank.log_files[1:])
    assert rows_of(without) == rows_of(of_default)
    assert merged_by(without) is MergedBy.ORDER
    ordered = native(Flush("200", deletes=[("a", 4)])) | native(REVIVED[1])
    assert rows_of(lay_out(tmp_path / "ordered", base, ordered, rules=BY_RANK[0])) == rows_of(of_default)
    assert merged_by(lay_out(tmp_path / "ordered", base, ordered, rules=BY_RANK[0])) is MergedBy.ORDER


def test_a_delete_after_an_unconditional_one_takes_its_place(tmp_path: Path) -> None:
    """The other case in which the layouts differ. Keeps 1 of merge/rules/winner."""
    flushes = [*REVIVED[:1], Flush("210", deletes=[("a", 6)]), Flush("300", [("a", 3, "log")])]
    logs = {name: data for flush in flushes for name, data in native(flush).items()}
    of_default = lay_out(tmp_path, [("b", 1, "base")], logs)
    assert rows_of(of_default) == {"a": (3, "log"), "b": (1, "base")}
    assert rows_of(replace(of_default, rules=BY_RANK[0])) == {"b": (1, "base")}


def test_an_inline_log_brings_the_classic_merge(tmp_path: Path) -> None:
    """It is counted, whether anything of the slice is deleted or not."""
    files = [native(REVIVED[0]), inline(REVIVED[1])]
    given = lay_out(tmp_path, [("a", 10, "base")], {k: v for each in files for k, v in each.items()}, rules=BY_RANK[0])
    assert rows_of(given) == {"a": (10, "base")}
    assert merged_by(given) is MergedBy.OUT_OF_RANKS
    assert merged_by(replace(given, log_files=given.log_files[1:])) is MergedBy.OUT_OF_RANKS
    assert merged_by(replace(given, log_files=())) is MergedBy.ORDER


def upside_down(file: Path) -> None:
    """The same rows and footer, the last row first."""
    table = pq.read_table(file)
    pq.write_table(table.take(list(reversed(range(table.num_rows)))), file)


def test_files_that_are_not_sorted_come_to_the_same(tmp_path: Path) -> None:
    """No file's order is trusted: one that is out of it is sorted first, and counted."""
    more = Flush("310", [("b", 2, "newer"), ("c", 1, "new")])
    logs = {name: data for flush in (*REVIVED, more) for name, data in native(flush).items()}
    given = lay_out(tmp_path, [("a", 10, "base"), ("b", 1, "base")], logs, rules=BY_RANK[0])
    due = {"a": (5, "log"), "b": (2, "newer"), "c": (1, "new")}
    assert rows_of(given) == due
    assert merged_by(given) is MergedBy.RANKS
    upside_down(tmp_path / given.log_files[-1])
    assert rows_of(given) == due
    assert merged_by(given) is MergedBy.OUT_OF_RANKS
    upside_down(tmp_path / str(given.base_file))
    with pytest.raises(NotSorted):
        rows_of(given)
    with open_slice(STORAGE, given, by_order=False) as merged:
        rows = [row for batch in merged.batches() for row in batch.to_pylist()]
        assert [row["id"] for row in rows] == ["a", "b", "c"]
        assert {row["id"]: (row["ts"], row["v"]) for row in rows} == due
        assert merged.counts.merged_by is MergedBy.OUT_OF_RANKS
