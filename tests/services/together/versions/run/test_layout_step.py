"""A table becomes one of the layout `lsm_tree`, and goes back: whole, stopped at every storage call, and beside what
forbids it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Conflict, Refused, TryLater, VerificationFailed
from lakeward.services.compaction.plan.planner import Planner
from lakeward.services.together.restore.run.restore import restore
from lakeward.services.together.versions.plan.change_step import StepKind
from lakeward.table.file_order import FileOrder
from lakeward.table.table_config import LSM_TREE_SINCE
from tests.crash.compacting import FULL, LOG, compact, everything
from tests.crash.metadata_compacting import check_agrees
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.together.versions.run.layouts import Conversion
from tests.services.together.versions.run.test_upgraded_slices import Upgraded, change, native_on_inline
from tests.services.together.versions.run.test_version_step import properties_of
from tests.write.judged import judged_values
from tests.write.writing import BUCKETS, values, write

pytestmark = pytest.mark.slow

COW = "COPY_ON_WRITE"
MANY = {f"{letter}{part}": "a" for letter in "abcdef" for part in "12"}
"""Two rows and more in each bucket."""


def turn_over(file: Path) -> None:
    """The same rows, the last one first, in a file of the same size, which its commit says."""
    size, table, pad = file.stat().st_size, pq.read_table(file), 0
    rows = table.take(list(reversed(range(table.num_rows))))
    for _ in range(20):
        with pq.ParquetWriter(file, rows.schema, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"pad": "x" * pad})
        if (more := size - file.stat().st_size) == 0:
            return
        pad += more
    raise AssertionError("no size fits")


def base_files(base: Path) -> list[Path]:
    """The base files of the newest slices."""
    return [base / each.base_file.path for each in scan(base).latest_slices if each.base_file is not None]


def is_sorted(file: Path) -> bool:
    keys = [key.encode() for key in pq.read_table(file)["_hoodie_record_key"].to_pylist()]
    return keys == sorted({*keys})


def native(base: Path) -> Upgraded:
    """Logs of rows and deletes, the output of a LOG among them, on older slices and on the newest."""
    table = Upgraded(base, version=10)
    table.upsert(a1="a", b1="a", c2="a", d1="a")
    for value in "bcd":
        table.upsert(a1=value, b1=value)
    table.delete("b1")
    table.compact(LOG)
    table.upsert(a1="e")
    table.compact()
    table.upsert(a1="f", d1="b")
    table.delete("c2")
    return table


def inline(base: Path) -> Upgraded:
    table = Upgraded(base, metadata=False)
    native_on_inline(table)
    table.compact()
    table.upsert(a1="d")
    return table


def copied_on_write(base: Path) -> Upgraded:
    table = Upgraded(base, version=10, table_type=COW)
    table.upsert(**MANY)
    table.upsert(a1="b", c2="b")
    for file in base_files(base):
        turn_over(file)
    return table


def out_of_order(base: Path) -> Upgraded:
    """Base files that are not sorted, with logs and without."""
    table = Upgraded(base, version=10)
    table.upsert(**MANY)
    for file in base_files(base):
        turn_over(file)
    table.upsert(a1="b")
    return table


CASES: dict[str, tuple[Callable[[Path], Upgraded], list[StepKind]]] = {
    "native": (native, [StepKind.COMPACTION]),
    "inline": (inline, [StepKind.COMPACTION]),
    "copy-on-write": (copied_on_write, [StepKind.SORTING]),
    "out-of-order": (out_of_order, [StepKind.COMPACTION, StepKind.SORTING]),
}


def check_rows(table: Upgraded) -> None:
    """The rows of now, and as of every commit that the model knows."""
    assert values(read_rows(table.base)) == table.model
    for time, model in table.history.items():
        assert values(read_rows(table.base, as_of=time)) == model, time


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_table_becomes_sorted_and_lives_on(case: str, tmp_path: Path) -> None:
    """What is done is what was announced, by a dry run that wrote nothing; every row is as before, also as of every
    earlier commit, to the second reader, too; a second run reads nothing. Then the table is written to and compacted by
    rank, and brought down to version 9."""
    make, steps = CASES[case]
    table = make(tmp_path / "t")
    check_rows(table)
    found, before = everything(table.base), properties_of(table.base)
    keys = {row["_hoodie_record_key"]: row["_hoodie_commit_time"] for row in read_rows(table.base)}
    groups = {(each.partition_path, each.file_id) for each in scan(table.base).file_groups}
    last = [StepKind.VERIFICATION, StepKind.PROPERTIES]

    shown = Conversion(table.base, clock=table.clock).preview()
    assert (everything(table.base), properties_of(table.base)) == (found, before)
    conversion = Conversion(table.base, clock=table.clock)
    done = conversion.run()
    assert [step.kind for step in done.steps] == [step.kind for step in shown.steps] == [*steps, *last]
    assert done.steps[: len(steps)] == shown.steps[: len(steps)]
    files = base_files(table.base)
    assert all(is_sorted(file) for file in files)
    assert {str(file.relative_to(table.base)) for file in files} <= {*conversion.read}
    assert {*done.steps[-2].subjects} == {str(file.relative_to(table.base)) for file in files}

    check_rows(table)
    assert judged_values(table.base) == table.model
    assert {row["_hoodie_record_key"]: row["_hoodie_commit_time"] for row in read_rows(table.base)} == keys
    assert {(each.partition_path, each.file_id) for each in scan(table.base).file_groups} == groups
    assert not any(slice_.log_files for slice_ in scan(table.base).latest_slices)
    if (table.base / ".hoodie/metadata").exists():
        check_agrees(table.base)
    again = Conversion(table.base, clock=table.clock)
    assert again.run().steps == () and again.read == []

    table.upsert(a1="lsm", z1="new")
    table.delete("d1")
    check_rows(table)
    assert judged_values(table.base) == table.model
    if scan(table.base).config.is_merge_on_read:
        table.compact()
    table.upsert(a1="lsm, again")
    check_rows(table)
    change(table, 9)
    assert {"hoodie.table.storage.layout", LSM_TREE_SINCE}.isdisjoint(properties_of(table.base))
    assert values(read_rows(table.base)) == table.model and not table.native()
    table.upsert(a1="inline")
    assert values(read_rows(table.base)) == table.model


def revive(table: Upgraded, key: str, value: str) -> None:
    """An unconditional delete, and a row that is older than the one of 10 below: the layouts differ over it."""
    write(table.base, [(key, 0, "p", None)], "delete", clock=table.clock, **BUCKETS)
    write(table.base, [(key, 5, "p", value)], clock=table.clock, **BUCKETS)


def test_the_case_in_which_the_layouts_differ(tmp_path: Path) -> None:
    """A row that stayed after an unconditional delete and a smaller row stays: its logs were merged before the layout
    changed, and those of older slices are merged as they were then. What comes later is merged by rank; and stays as
    it is on the way back."""
    table = Upgraded(tmp_path / "t", metadata=False, version=10)
    write(table.base, [("a", 10, "p", "greater")], clock=table.clock, **BUCKETS)
    revive(table, "a", "smaller")
    times = [each.time for each in scan(table.base).timeline.completed_writes]
    before = {time: values(read_rows(table.base, as_of=time)) for time in times}
    assert values(read_rows(table.base)) == before[times[-1]] == {"a": "greater"}
    Conversion(table.base, clock=table.clock).run()
    assert {time: values(read_rows(table.base, as_of=time)) for time in times} == before
    assert values(read_rows(table.base)) == judged_values(table.base) == {"a": "greater"}

    revive(table, "a", "ranked")
    assert values(read_rows(table.base)) == judged_values(table.base) == {"a": "ranked"}
    back = Conversion(table.base, clock=table.clock).run("default")
    assert [step.kind for step in back.steps] == [StepKind.COMPACTION, StepKind.PROPERTIES]
    assert not scan(table.base).config.is_lsm_tree
    assert values(read_rows(table.base)) == judged_values(table.base) == {"a": "ranked"}
    assert {time: values(read_rows(table.base, as_of=time)) for time in times} == before


def test_base_files_are_sorted_a_commit_at_a_time(tmp_path: Path) -> None:
    """A run that dies over a later one has only that to do again: what is sorted is not sorted twice. Keys stay in
    their file groups, and the metadata table knows the new files."""
    table = copied_on_write(tmp_path / "t")
    number = len(base_files(table.base))
    conversion = Conversion(table.base, clock=table.clock, sorted_at_once=1)
    (shown, *_), done = conversion.preview().steps, conversion.run().steps
    last = [StepKind.VERIFICATION, StepKind.PROPERTIES]
    assert number > 1 and [step.kind for step in done] == [*[StepKind.SORTING] * number, *last]
    assert tuple(path for step in done[:-2] for path in step.subjects) == shown.subjects
    assert sum(step.bytes for step in done[:-2]) == shown.bytes
    assert len(conversion.read) == 3 * number  # the dry run has read them, too
    check_rows(table)
    check_agrees(table.base)


def test_the_way_to_a_commit_before_leads_over_the_layout_of_then(tmp_path: Path) -> None:
    """A restore to a commit whose files were merged or sorted since is refused with the way: back to `default`, the
    restore, and `lsm_tree` again. One to a commit since, or to the newest before, is done."""
    table = native(tmp_path / "t")
    first, *_, last = table.history
    sorted_by = Conversion(table.base, clock=table.clock).run().steps
    assert sorted_by[0].kind is StepKind.COMPACTION
    at = scan(table.base).timeline.completed_writes[-1].time
    table.upsert(a1="late")

    def go_back(target: str) -> None:
        restore(Conversion(table.base, clock=table.clock).table, target)

    for before in (first, last):
        with pytest.raises(Refused, match="has the layout lsm_tree since"):
            go_back(before)
    go_back(at)
    assert values(read_rows(table.base)) == table.history[last]
    Conversion(table.base, clock=table.clock).run("default")
    go_back(first)
    assert values(read_rows(table.base)) == table.history[first]
    Conversion(table.base, clock=table.clock).run()
    assert values(read_rows(table.base)) == judged_values(table.base) == table.history[first]


@pytest.mark.parametrize(
    ("property_", "value", "why"),
    [
        ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS", "partial-update-mode"),
        ("hoodie.populate.meta.fields", "false", "no-meta-fields"),
        ("hoodie.meta.fields.mode", "COMMIT_TIME_ONLY", "meta-fields-mode"),
        ("hoodie.table.ordering.fields", "a.b", "nested-ordering-field"),
        ("hoodie.record.merge.mode", "CUSTOM", "merge-mode"),
        ("hoodie.table.cdc.enabled", "true", "cdc-enabled"),
        ("hoodie.table.log.file.format", "ORC", "log-file-format"),
    ],
)
def test_what_cannot_be_of_the_layout(property_: str, value: str, why: str, tmp_path: Path) -> None:
    """Keeps 2 of services/together/versions/run/layout_step: it is refused by name before anything is written or
    read."""
    table = Upgraded(tmp_path / "t", metadata=False, version=10)
    table.upsert(a1="a")
    table.upsert(a1="b")
    set_property(table.base, property_, value)
    found = everything(table.base)
    conversion = Conversion(table.base, clock=table.clock)
    for act in (conversion.preview, conversion.run):
        with pytest.raises(Refused, match=why):
            act()
    assert everything(table.base) == found and conversion.read == []


def test_a_table_of_version_9(tmp_path: Path) -> None:
    """It is refused with the way to version 10, whatever it has; to be `default` it is already."""
    table = Upgraded(tmp_path / "t", metadata=False)
    table.upsert(a1="a")
    with pytest.raises(Refused, match="version 9") as refused:
        Conversion(table.base, clock=table.clock).run()
    assert "lakeward table upgrade --to 10" in refused.value.remedy
    assert Conversion(table.base, clock=table.clock).run("default").steps == ()


def test_buckets_of_several_numbers(tmp_path: Path) -> None:
    """A table of consistent hashing is refused, by its folder."""
    table = Upgraded(tmp_path / "t", metadata=False, version=10)
    table.upsert(a1="a")
    (table.base / ".hoodie/.bucket_index").mkdir()
    (table.base / ".hoodie/.bucket_index/consistent_hashing_metadata").mkdir()
    with pytest.raises(Refused, match="consistent hashing"):
        Conversion(table.base, clock=table.clock).run()


def test_what_lands_while_files_are_read(tmp_path: Path) -> None:
    """Keeps 3 and 4 of services/together/versions/run/layout_step: a write that lands between the reading and the
    change of the property makes the run fail, and the layout stays; the next run reads what came, and ends it."""
    table = copied_on_write(tmp_path / "t")
    conversion = Conversion(table.base, clock=table.clock)
    read, learned = conversion.work.check_order, len(base_files(table.base))

    def interfere(check: object, attempt: int) -> FileOrder:
        found = read(check, attempt)  # type: ignore[arg-type]
        if len(conversion.read) == 2 * learned:  # all were sorted, and are read for the last time
            table.upsert(a1="late")
        return found

    object.__setattr__(conversion.work, "check_order", interfere)
    with pytest.raises(Conflict, match=r"commit \d+ appeared while its files were read"):
        conversion.run()
    assert not scan(table.base).config.is_lsm_tree
    check_rows(table)
    Conversion(table.base, clock=table.clock).run()
    check_rows(table)


def test_a_failed_write_is_rolled_back(tmp_path: Path) -> None:
    """So that none of its files is taken for one of the layout; beside a heartbeat that beats nothing is done."""
    table = native(tmp_path / "t")
    died = ScriptedProcesses()
    with pytest.raises(Killed):
        storage = FaultyStorage(Fault(FaultKind.KILL, 60))
        write(table.base, [("a1", 99, "p1", "lost")], storage=storage, processes=died, clock=table.clock, **BUCKETS)
    assert [each.action for each in scan(table.base).timeline.pending] == ["deltacommit"]
    with pytest.raises(TryLater, match="under way"):
        Conversion(table.base, processes=died, clock=table.clock).run()
    died.kill_all()
    steps = [step.kind for step in Conversion(table.base, processes=died, clock=table.clock).run().steps]
    assert steps[:2] == [StepKind.ROLLBACK, StepKind.COMPACTION]
    assert not scan(table.base).timeline.pending
    check_rows(table)


@pytest.mark.slow
@pytest.mark.parametrize("planner", [FULL, LOG], ids=["full", "log"])
def test_a_pending_plan_is_carried_out(planner: Planner, tmp_path: Path) -> None:
    """It is so by the rules of the layout in which it was made, with sorted rows: no plan is pending over the other."""
    table = out_of_order(tmp_path / "t")
    for value in "xyz":
        table.upsert(a1=value, b1=value)
    died, trial = ScriptedProcesses(), FaultyStorage()
    copy = Path(shutil.copytree(table.base, tmp_path / "trial"))
    compact(copy, trial, ScriptedProcesses(), planner, clock=table.clock)
    at = next(number for number, call in enumerate(trial.calls) if call.startswith("link")) - 1
    with pytest.raises(Killed):
        compact(table.base, FaultyStorage(Fault(FaultKind.KILL, at)), died, planner, clock=table.clock)
    died.kill_all()
    (pending,) = scan(table.base).timeline.pending
    Conversion(table.base, processes=died, clock=table.clock).run()
    assert not scan(table.base).timeline.pending
    assert scan(table.base).timeline.find_write(pending.time)
    check_rows(table)
    assert judged_values(table.base) == table.model


def test_what_was_sorted_and_is_not(tmp_path: Path) -> None:
    """A file group that was sorted, and whose new base file is out of order all the same, is reported; it is not
    written again for ever."""
    table = copied_on_write(tmp_path / "t")
    conversion = Conversion(table.base, clock=table.clock)
    object.__setattr__(conversion.work, "check_order", lambda check, attempt: FileOrder(is_sorted=False))
    with pytest.raises(VerificationFailed, match="was sorted, and is out of order again"):
        conversion.run()
    assert not scan(table.base).config.is_lsm_tree
    check_rows(table)


def test_a_key_in_several_rows(tmp_path: Path) -> None:
    """It is refused before anything is written, with file and key: what queries find now, one row after the other,
    the next log would fold into one."""
    table = Upgraded(tmp_path / "t", metadata=False, version=10)
    rows = [("a", 1, "p", "one"), ("a", 2, "p", "two"), ("b", 1, "p", "b")]
    write(table.base, rows, "bulk_insert", clock=table.clock)
    write(table.base, [("c", 1, "q", "c")], clock=table.clock)
    (twice,) = {file.name for file in base_files(table.base) if file.parent.name == "p"}
    found = everything(table.base)
    for act in (Conversion(table.base, clock=table.clock).preview, Conversion(table.base, clock=table.clock).run):
        with pytest.raises(Refused, match=f"a key is in several rows.*p/{twice}: 'a'"):
            act()
    assert everything(table.base) == found


def check_between(table: Upgraded) -> None:
    """True at every moment, where the properties are there: the rows; and a table of the layout is sorted, without
    logs from before."""
    if not (table.base / ".hoodie/hoodie.properties").exists():
        return
    check_rows(table)
    if scan(table.base).config.is_lsm_tree:
        assert all(is_sorted(file) for file in base_files(table.base))
        assert not any(slice_.log_files for slice_ in scan(table.base).latest_slices)
