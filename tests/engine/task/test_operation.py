"""One operation: its output is checked before anybody can see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import AlreadyExists, NotFound, SpillFailed, Unsupported, VerificationFailed
from lakeward.engine.task import operation as operation_module
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationKind, OperationSpec, finished_operations
from lakeward.engine.task.work_counters import WorkCounters
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.log.change_log import ChangedRows, ChangeLogWriter, read_changes
from lakeward.format.metadata.base_file_stats import read_bloom_filter
from lakeward.format.parquet.base_file import SORTED_BY_KEY, BaseFileWriter, read_shape
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.format.supplemental_logging import SupplementalLogging
from lakeward.merge.hash_merge import HashMerge
from lakeward.merge.rows.gather import Numbers, RowSources
from lakeward.read import file_slice as file_slice_module
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from tests.full_disk import full_disk
from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import scan

INSTANT = "20261121050000000"


@pytest.fixture
def spec(tmp_path: Path) -> OperationSpec:
    base = copy_golden("v9", tmp_path / "table")
    snapshot = scan(base)
    (slice_,) = snapshot.latest_slices
    assert slice_.base_file is not None
    assert snapshot.schema is not None
    folder = tmp_path / "attempt"
    folder.mkdir()
    return OperationSpec(
        index=3,
        slice=SliceInput(
            base_path=str(base),
            partition_path="p",
            file_id=slice_.file_id,
            base_file=slice_.base_file.path,
            log_files=tuple(log.path for log in slice_.log_files),
            instant=INSTANT,
            schema=snapshot.schema,
            rules=merge_rules(snapshot),
        ),
        attempt=77,
        attempt_folder=str(folder),
        input_bytes=slice_.base_bytes + slice_.log_bytes,
    )


def test_the_output_is_the_merged_slice(spec: OperationSpec) -> None:
    """Rows as Hudi returns them, each with the new file's name; the name carries index, attempt and task attempt."""
    result = run_operation(LocalStorage(), spec, task_attempt=2)
    assert result.file_name == f"{spec.slice.file_id}_3-77-2_{INSTANT}.parquet"
    rows = pq.read_table(Path(spec.attempt_folder) / result.file_name).to_pylist()
    assert {row.pop("_hoodie_file_name") for row in rows} == {result.file_name}
    assert sorted(rows, key=lambda row: row["_hoodie_record_key"]) == expected_rows("v9")
    assert result.counts.rows == len(rows)
    assert result.size_bytes == (Path(spec.attempt_folder) / result.file_name).stat().st_size


@pytest.mark.parametrize(("golden", "kind"), [("v9", "SIMPLE"), ("v9_metadata", "DYNAMIC_V0")])
def test_the_bloom_filter_is_of_the_kind_that_the_base_file_before_has(
    spec: OperationSpec, tmp_path: Path, golden: str, kind: str
) -> None:
    """The table's writers are set to it; without a base file it is what they are by default."""
    (base,) = (copy_golden(golden, tmp_path / "another") / "p").glob("*.parquet")
    (Path(spec.slice.base_path) / str(spec.slice.base_file)).write_bytes(base.read_bytes())
    for base_file, expected in ((spec.slice.base_file, kind), (None, "DYNAMIC_V0")):
        of = replace(spec, slice=replace(spec.slice, base_file=base_file))
        path = (
            Path(spec.attempt_folder) / run_operation(LocalStorage(), of, task_attempt=0 if base_file else 1).file_name
        )
        with path.open("rb") as source:
            found = read_bloom_filter(source, file_name=path.name)
        assert found is not None and found[0] == expected


def test_cpu_seconds_are_of_all_tries(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that was given up, because the base file is not in the order that its footer says, has cost them, too."""
    say_sorted(spec, and_be=False)
    monkeypatch.setattr(time, "process_time", iter([5.0, 8.5]).__next__)
    assert run_operation(LocalStorage(), spec, 0).cpu_seconds == 3.5


def test_memory_is_given_back(spec: OperationSpec) -> None:
    """While operations run Arrow takes memory where it is given back soonest, if its build has that."""
    before = pa.default_memory_pool()
    try:
        run_operation(LocalStorage(), spec, 0)
        assert "jemalloc" not in pa.supported_memory_backends() or pa.default_memory_pool().backend_name == "jemalloc"
    finally:
        pa.set_memory_pool(before)


def test_what_arrow_reads_and_writes_with_takes_memory_there_too() -> None:
    """A process of Lakeward says so before Arrow is loaded: later, its files and kernels no longer ask."""
    quiet = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    said = "import lakeward, pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    found = subprocess.run([sys.executable, "-c", said], env=quiet, capture_output=True, text=True, check=True).stdout
    assert "jemalloc" not in pa.supported_memory_backends() or found.split() == ["jemalloc"]


def test_a_disk_that_is_full_while_records_are_spilled(
    spec: OperationSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the folder and the remedy; the table is as it was, nothing is finished, and no file is left."""
    spill = tmp_path / "spill"
    spill.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spill))
    table = Path(spec.slice.base_path)
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    small = replace(spec, slice=replace(spec.slice, memory_bytes=1))
    with full_disk(100), pytest.raises(SpillFailed, match=f"run of the logs .* folder {spill}.* TMPDIR") as failed:
        run_operation(LocalStorage(), small, 0)
    assert failed.value.exit_code == 75
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before
    assert list(spill.iterdir()) == []
    assert finished_operations(LocalStorage().list(spec.attempt_folder)) == {}
    assert run_operation(LocalStorage(), small, 1).counts.merged_by is MergedBy.SORTING


def test_a_finished_operation_is_seen_in_the_folder(spec: OperationSpec) -> None:
    """Two attempts of one task count once."""
    storage = LocalStorage()
    run_operation(storage, spec, 0)
    run_operation(storage, spec, 1)
    assert finished_operations(storage.list(spec.attempt_folder)) == {3: 4}


@pytest.mark.parametrize("kind", OperationKind)
def test_an_operation_says_how_far_it_is(spec: OperationSpec, kind: OperationKind) -> None:
    """At its end it has read all of its input, and written and read back its file."""
    of = spec.slice if kind is OperationKind.FULL else replace(spec.slice, base_file=None)
    size = sum((Path(of.base_path) / path).stat().st_size for path in (of.base_file, *of.log_files) if path)
    with WorkCounters(4, on_this_machine=True) as counters:
        given = replace(spec, kind=kind, slice=of, input_bytes=size, counters=counters.place(3))
        result = run_operation(LocalStorage(), given, 0)
        total = counters.total()
    assert total.read_bytes == size
    assert total.written_bytes == total.verified_bytes == result.size_bytes


def test_the_same_attempt_cannot_run_twice(spec: OperationSpec) -> None:
    """Its file is created once."""
    run_operation(LocalStorage(), spec, 0)
    with pytest.raises(AlreadyExists):
        run_operation(LocalStorage(), spec, 0)


def test_a_task_whose_folder_is_gone_writes_nothing(spec: OperationSpec) -> None:
    """The folder is never made by a task."""
    with pytest.raises(NotFound):
        run_operation(LocalStorage(), replace(spec, attempt_folder=spec.attempt_folder + "-fenced-off"), 0)


def say_sorted(spec: OperationSpec, *, and_be: bool) -> None:
    """The footer of the base file says that its rows are sorted by their keys."""
    path = Path(spec.slice.base_path) / str(spec.slice.base_file)
    rows = pq.read_table(path)
    metadata = {**(rows.schema.metadata or {}), SORTED_BY_KEY: "_hoodie_record_key"}
    order = "ascending" if and_be else "descending"
    pq.write_table(rows.sort_by([("_hoodie_record_key", order)]).replace_schema_metadata(metadata), path)


def is_sorted(path: Path) -> bool:
    keys = pq.read_table(path).column("_hoodie_record_key").to_pylist()
    with path.open("rb") as source:
        says = read_shape(source, name=path.name).is_sorted
    assert not says or keys == sorted(keys)
    return says


@pytest.mark.parametrize("sorted_base", [True, None])
def test_what_was_merged_by_order_says_so(spec: OperationSpec, sorted_base: bool | None) -> None:
    """A sorted base file, or none, makes a base file that is sorted, which the next compaction relies on."""
    if sorted_base:
        say_sorted(spec, and_be=True)
    else:
        spec = replace(spec, slice=replace(spec.slice, base_file=None))
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.merged_by is MergedBy.ORDER
    assert is_sorted(Path(spec.attempt_folder) / result.file_name)


def test_a_base_file_that_is_not_sorted_stays_so(spec: OperationSpec) -> None:
    """Rows are merged by their hashes where its footer does not say it, and stay in the order in which they are."""
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.merged_by is MergedBy.HASHES
    assert not is_sorted(Path(spec.attempt_folder) / result.file_name)


def test_a_footer_that_is_wrong_about_the_order(spec: OperationSpec) -> None:
    """What was written by then is thrown away, and the rows are merged without relying on any order."""
    say_sorted(spec, and_be=False)
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.merged_by is MergedBy.HASHES_AFTER_ORDER
    path = Path(spec.attempt_folder) / result.file_name
    assert not is_sorted(path)
    rows = pq.read_table(path).drop_columns("_hoodie_file_name").sort_by("_hoodie_record_key").to_pylist()
    assert rows == expected_rows("v9")


class ForgetfulWriter(BaseFileWriter):
    """A planted encode bug: one value of one row is written wrong."""

    def write(self, batch: pa.RecordBatch) -> None:
        names = batch.column("name").to_pylist()
        names[0] = "planted"
        index = batch.schema.get_field_index("name")
        super().write(batch.set_column(index, batch.schema.field("name"), pa.array(names, batch.column("name").type)))


class ShrinkingWriter(BaseFileWriter):
    """Another one: the last row of a batch is not written."""

    def write(self, batch: pa.RecordBatch) -> None:
        super().write(batch.slice(0, batch.num_rows - 1))


@pytest.mark.parametrize("writer", [ForgetfulWriter, ShrinkingWriter])
def test_a_planted_encode_bug_is_caught(
    spec: OperationSpec, writer: type[BaseFileWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads back is not what was merged."""
    monkeypatch.setattr(operation_module, "BaseFileWriter", writer)
    with pytest.raises(VerificationFailed) as error:
        run_operation(LocalStorage(), spec, 0)
    assert error.value.exit_code == 6


class LosingMerge(HashMerge):
    """A planted merge bug: a row is lost on the way out."""

    def batches(self, *args: object) -> Iterator[pa.RecordBatch]:
        for batch in super().batches(*args):  # type: ignore[arg-type]
            yield batch.filter(pc.not_equal(batch.column("_hoodie_record_key"), "k6"))


class StaleMerge(HashMerge):
    """Another one: a key keeps the base file's version although a log has a newer one."""

    def batches(self, *args: object) -> Iterator[pa.RecordBatch]:
        for batch in super().batches(*args):  # type: ignore[arg-type]
            stale = pa.array(
                [
                    "base1" if key == "k1" else name
                    for key, name in zip(
                        batch.column("_hoodie_record_key").to_pylist(), batch.column("name").to_pylist(), strict=True
                    )
                ]
            )
            index = batch.schema.get_field_index("name")
            yield batch.set_column(index, batch.schema.field("name"), stale)


@pytest.mark.parametrize("merge", [LosingMerge, StaleMerge])
def test_a_planted_merge_bug_is_caught(
    spec: OperationSpec, merge: type[HashMerge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file reads back as it was merged, and still the merge was wrong: counts or the sample say so."""
    monkeypatch.setattr(file_slice_module, "HashMerge", merge)
    with pytest.raises(VerificationFailed):
        run_operation(LocalStorage(), spec, 0)


def test_a_planted_gather_bug_is_caught(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column whose values slip by one row is found out by the hashes that rows bring along, without any sample."""
    gather = RowSources.gather

    def slipping(sources: RowSources, numbers: Numbers, places: Numbers) -> pa.RecordBatch:
        rows = gather(sources, numbers, places)
        index = rows.schema.get_field_index("name")
        names = rows.column(index)
        slipped = pa.concat_arrays([names.slice(1), names.slice(0, 1)])
        return rows.set_column(index, rows.schema.field(index), slipped)

    monkeypatch.setattr(RowSources, "gather", slipping)
    monkeypatch.setattr(operation_module, "check_sample", lambda *_, **__: None)
    with pytest.raises(VerificationFailed, match="checked") as error:
        run_operation(LocalStorage(), spec, 0)
    assert "digest" in str(error.value.why)


def test_checks_can_be_left_out(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without verification the planted bug gets through, so the tests above test the checks."""
    monkeypatch.setattr(file_slice_module, "HashMerge", StaleMerge)
    result = run_operation(LocalStorage(), replace(spec, verify=False), 0)
    assert result.digest == ""
    rows = pq.read_table(Path(spec.attempt_folder) / result.file_name).to_pylist()
    assert json.dumps(rows[0]).count("base1") == 1


def test_columns_are_measured_for_the_metadata_table(spec: OperationSpec) -> None:
    """Indexed columns are measured in the file as it was written; by default none are."""
    columns = {"_hoodie_record_key": "string", "ts": "long"}
    assert run_operation(LocalStorage(), spec, 0).column_stats == ()

    result = run_operation(LocalStorage(), replace(spec, indexed=IndexedColumns(columns, StatsVersion.V2)), 1)

    measured = {str(record.column): record for record in result.column_stats}
    assert measured.keys() == columns.keys()
    rows = expected_rows("v9")
    for column, record in measured.items():
        values = [row[column] for row in rows]
        assert (record.min_value, record.max_value) == (min(values), max(values))
        assert (record.file_name, record.value_count) == (result.file_name, len(rows))


@pytest.mark.parametrize("by_order", [False, True])
@pytest.mark.parametrize("mode", SupplementalLogging)
def test_changes_stand_beside_the_base_file(spec: OperationSpec, mode: SupplementalLogging, by_order: bool) -> None:
    """What the logs replaced, added and removed, and nothing else, by hashes and by order; rows come without meta
    columns. Keeps 3 of engine/task/operation."""
    if by_order:
        first = run_operation(LocalStorage(), replace(spec, slice=replace(spec.slice, log_files=())), task_attempt=1)
        (Path(spec.attempt_folder) / first.file_name).rename(Path(spec.slice.base_path) / "p" / first.file_name)
        spec = replace(spec, slice=replace(spec.slice, base_file=f"p/{first.file_name}"))
    before = rows_of(Path(spec.slice.base_path) / str(spec.slice.base_file))
    result = run_operation(LocalStorage(), replace(spec, supplemental_logging=mode), task_attempt=2)
    assert result.change_log is not None
    path = Path(spec.attempt_folder) / result.change_log.file_name
    assert path.name == f".{spec.slice.file_id}_{INSTANT}.log.1_3-77-2.cdc"
    assert path.stat().st_size == result.change_log.size_bytes
    with path.open("rb") as file:
        found = [row for part in read_changes(file, path.stat().st_size, name=path.name) for row in part.to_pylist()]
    after = rows_of(Path(spec.attempt_folder) / result.file_name)
    due = [
        ("d" if key not in after else "u" if key in before else "i", key, before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    ]
    assert {operation for operation, *_ in due} == {"d", "u"}
    names = {
        SupplementalLogging.OP_KEY_ONLY: ("op", "record_key"),
        SupplementalLogging.DATA_BEFORE: ("op", "record_key", "before"),
        SupplementalLogging.DATA_BEFORE_AFTER: ("op", "ts_ms", "before", "after"),
    }[mode]
    rows = [dict(zip(("op", "record_key", "before", "after", "ts_ms"), (*each, INSTANT), strict=True)) for each in due]
    expected = [{name: row[name] for name in names} for row in rows]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def rows_of(path: Path) -> dict[str, dict[str, object]]:
    """The rows of a base file by key, without meta columns."""
    return {
        row["_hoodie_record_key"]: {name: value for name, value in row.items() if name not in META_COLUMNS}
        for row in pq.read_table(path).to_pylist()
    }


@pytest.mark.parametrize("lost", ["a change", "a byte"])
def test_changes_that_are_not_what_was_merged_are_no_result(
    spec: OperationSpec, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Keeps 1 of engine/task/change_log_output: neither are they where one was not named, nor where the file has
    another."""
    write = ChangeLogWriter.write

    def wrong(writer: ChangeLogWriter, changes: ChangedRows) -> pa.RecordBatch:
        if lost == "a change":
            return write(writer, replace(changes, **{side: getattr(changes, side).slice(1) for side in sides(changes)}))
        shown = write(writer, changes)
        return shown.slice(1)

    monkeypatch.setattr(ChangeLogWriter, "write", wrong)
    with pytest.raises(VerificationFailed):
        run_operation(LocalStorage(), replace(spec, supplemental_logging=SupplementalLogging.DATA_BEFORE), 1)


def sides(changes: ChangedRows) -> list[str]:
    return [side for side in ("before", "after") if getattr(changes, side) is not None]


def test_there_is_no_log_of_changes_where_none_are_captured(spec: OperationSpec) -> None:
    """Keeps 2 of engine/task/change_log_output."""
    assert run_operation(LocalStorage(), spec, task_attempt=1).change_log is None
    assert not list(Path(spec.attempt_folder).glob("*.cdc"))


def test_changes_of_rows_without_keys_are_not_captured(spec: OperationSpec) -> None:
    """It is not known what Hudi calls a change there, so nothing is written."""
    slice_ = replace(spec.slice, key_fields=("id",))
    of = replace(spec, slice=slice_, supplemental_logging=SupplementalLogging.DATA_BEFORE)
    with pytest.raises(Unsupported, match="cannot be captured"):
        run_operation(LocalStorage(), of, task_attempt=1)
    assert not list(Path(spec.attempt_folder).glob("*.parquet"))
