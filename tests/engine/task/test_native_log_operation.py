"""LOG operations of table version 10: one file of rows and one of deletes, from inline, native and mixed slices."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported, VerificationFailed
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec, finished_operations
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.delete_file import NativeDeleteWriter
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.read.logs.log_deletes import check_native_deletes
from lakeward.read.logs.log_scan import scan_slice_heads
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from tests import native_log_judge as judge
from tests.read.native_slices import COMMIT, EVENT, NEWEST, Flush, inline, lay_out, native
from tests.read.test_native_slices import KEYS, digest_of, random_flush, rows_of
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**31)))
STORAGE = LocalStorage()
LONG = ["null", "long"]


def spec_of(given: SliceInput, instant: str = "900", *, logs: int | None = None, **more: object) -> OperationSpec:
    """A LOG over the oldest logs."""
    folder = Path(given.base_path) / f"attempt-{instant}"
    folder.mkdir(exist_ok=True)
    of = replace(given, base_file=None, log_files=given.log_files[:logs], instant=instant)
    return OperationSpec(
        index=3,
        slice=of,
        attempt=77,
        attempt_folder=str(folder),
        input_bytes=123,
        kind=OperationKind.LOG,
        native=True,
        **more,  # type: ignore[arg-type]
    )


def names_of(result: OperationResult) -> list[str]:
    return [result.file_name, *([] if result.delete_log is None else [result.delete_log.file_name])]


def contents_of(spec: OperationSpec, result: OperationResult) -> dict[str, bytes]:
    return {name: (Path(spec.attempt_folder) / name).read_bytes() for name in names_of(result)}


@pytest.mark.parametrize("rules", [EVENT, COMMIT], ids=["event time", "commit time"])
def test_the_slice_reads_as_before(tmp_path: Path, rules: MergeRules) -> None:
    """Keeps 1 and 2 of engine/task/log_operation, of both files: for us and for the second reader, whatever form the
    sources have, whether or not they fit memory, and once more over the output. Each file is sorted, of one flush."""
    print(f"LAKEWARD_SEED={SEED}")
    chance = random.Random(f"{SEED} {rules.mode}")
    fields = ["ts"] if rules is EVENT else []
    for number in range(runs(6)):
        base = [(key, chance.randint(0, 6), "base") for key in chance.sample(KEYS, 6)]
        flushes = [random_flush(chance, str(200 + 10 * at)) for at in range(chance.randint(2, 5))]
        form = chance.choice([[native], [inline], [inline, native]])
        files = [chance.choice(form)(flush, rules) for flush in flushes]
        logs = {name: data for of_flush in files for name, data in of_flush.items()}
        folder = tmp_path / str(number)
        given = lay_out(folder, base, logs, rules=rules)
        rows, digest = rows_of(given), digest_of(given)

        count = chance.randint(2, len(flushes))
        memory = chance.choice([MEMORY_BYTES, 1])
        sources = replace(given, memory_bytes=memory)
        spec = spec_of(sources, logs=sum(map(len, files[:count])))
        result = run_operation(STORAGE, spec, 0)
        output = contents_of(spec, result)
        after = lay_out(folder, base, logs | output, rules=rules)
        assert rows_of(after) == rows
        assert digest_of(after) == digest

        later = {name: data for flush in flushes[count:] for name, data in native(flush, rules).items()}
        base_rows = [{judge.KEY: key, "ts": ts, "v": v} for key, ts, v in base]
        # Oldest first, and the output stands before what came later.
        in_place = {name.replace("_900_", "_201_"): data for name, data in output.items()} | later
        due = judge.merged(base_rows, in_place, fields)
        assert {key: (row["ts"], row["v"]) for key, row in due.items()} == rows
        for data in output.values():
            said = judge.footer(data)
            assert said["INSTANT_TIME"] == "900"
            assert said["COMPACTED_BLOCK_TIMES"] == ",".join(flush.instant for flush in flushes[:count])

        again = spec_of(after, "950")
        outputs = contents_of(again, run_operation(STORAGE, again, 0))
        whole = lay_out(folder, base, logs | output | outputs, rules=rules)
        assert (rows_of(whole), digest_of(whole)) == (rows, digest)


def test_the_two_files(tmp_path: Path) -> None:
    """One version and token, and each with what it holds; each has its statistics, that of
    deletes an empty range for each column, and the folder speaks of all records."""
    flushes = [Flush("200", [("b", 7, "x"), ("a", 9, "y")]), Flush("210", [], [("c", 3), ("b", 8), ("d", None)])]
    given = lay_out(tmp_path, None, native(flushes[0]) | native(flushes[1]))
    columns = IndexedColumns({"ts": LONG}, StatsVersion.V2)
    spec = spec_of(given, indexed=columns)
    result = run_operation(STORAGE, spec, task_attempt=2)

    start = f"{given.file_id}_3-77-2_900_1"
    assert names_of(result) == [f"{start}.log.parquet", f"{start}.deletes.parquet"]
    output = contents_of(spec, result)
    rows, deletes = output.values()
    assert [row[judge.KEY] for row in judge.rows(rows)] == ["a"]
    assert [(row[judge.KEY], row["ts"]) for row in judge.rows(deletes)] == [("b", 8), ("c", 3), ("d", None)]
    assert (result.counts.rows, result.counts.deleted, result.counts.log_keys) == (1, 3, 4)
    assert result.delete_log is not None
    assert (result.size_bytes, result.delete_log.size_bytes) == (len(rows), len(deletes))
    assert result.output_bytes == len(rows) + len(deletes)
    assert finished_operations(STORAGE.list(spec.attempt_folder)) == {3: 4}
    (of_rows,), (of_deletes,) = result.column_stats, result.delete_log.column_stats
    assert (of_rows.file_name, of_rows.min_value, of_rows.value_count) == (f"{start}.log.parquet", 9, 1)
    assert (of_deletes.file_name, of_deletes.min_value, of_deletes.value_count) == (f"{start}.deletes.parquet", None, 0)
    assert result.without_statistics().delete_log == replace(result.delete_log, column_stats=())


@pytest.mark.parametrize("kind", ["rows", "deletes"])
def test_one_file_where_one_kind_is_left(tmp_path: Path, kind: str) -> None:
    """There is no file without a record."""
    flushes = [Flush("200", [("a", 1, "x")], [("b", 1)]), Flush("210", [("a", 2, "x")], [("b", 2)])]
    if kind == "rows":
        flushes.append(Flush("220", [("b", 3, "x")]))
    else:
        flushes.append(Flush("220", [], [("a", 3)]))
    given = lay_out(tmp_path, None, {name: data for each in flushes for name, data in native(each).items()})
    spec = spec_of(given)
    result = run_operation(STORAGE, spec, 0)
    assert result.delete_log is None
    assert result.file_name.endswith(".log.parquet" if kind == "rows" else ".deletes.parquet")
    assert [path.name for path in Path(spec.attempt_folder).iterdir() if path.suffix == ".parquet"] == names_of(result)
    assert (result.counts.rows, result.counts.deleted) == ((2, 0) if kind == "rows" else (0, 2))


@pytest.mark.parametrize("writer", [NativeDataWriter, NativeDeleteWriter])
def test_a_file_that_lacks_a_record_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Any) -> None:
    """Keeps 1 of engine/task/log_operation, of either file."""
    write = writer.write

    def lose_one(self: object, first: pa.RecordBatch | pa.Array, *others: pa.Array, **more: pa.Array) -> None:
        others = tuple(None if each is None else each[1:] for each in others)
        write(self, first[1:], *others, **{name: each[1:] for name, each in more.items()})

    given = lay_out(tmp_path, None, native(Flush("200", [("a", 1, "x"), ("b", 1, "x")], [("c", 1), ("d", 1)])))
    monkeypatch.setattr(writer, "write", lose_one)
    with pytest.raises(VerificationFailed):
        run_operation(STORAGE, spec_of(given), 0)


def test_deletes_that_hudi_would_read_otherwise(tmp_path: Path) -> None:
    """With several ordering fields a delete without values is in no native log, and that is known before it is
    planned."""
    rules = MergeRules(EVENT.mode, ("ts", "n"))
    given = lay_out(tmp_path, None, inline(Flush("200", [("a", 1, "x")], [("b", None)])), rules=rules)
    with pytest.raises(Unsupported, match="without values of ts, n"):
        run_operation(STORAGE, spec_of(given), 0)
    schema = table_schema(given.schema)
    blocks = scan_slice_heads(STORAGE, str(tmp_path), given.log_files, instant=NEWEST).blocks
    with pytest.raises(Unsupported, match="without values of ts, n"):
        check_native_deletes(STORAGE, str(tmp_path), blocks, rules, schema)
    for other in (EVENT, COMMIT):
        check_native_deletes(STORAGE, str(tmp_path), blocks, other, schema)
    of_rows = [block for block in blocks if block.type is not BlockType.DELETE]
    check_native_deletes(STORAGE, str(tmp_path), of_rows, rules, schema)


def test_time_travel_reads_the_sources(tmp_path: Path) -> None:
    """A query of an instant before the output does not see it."""
    flushes = [Flush("200", [("a", 1, "x")]), Flush("210", [("a", 2, "y")], [("b", 2)])]
    logs = {name: data for each in flushes for name, data in native(each).items()}
    spec = spec_of(lay_out(tmp_path, [("b", 1, "base")], logs))
    logs |= contents_of(spec, run_operation(STORAGE, spec, 0))
    for instant, due in (
        ("200", {"a": (1, "x"), "b": (1, "base")}),
        ("210", {"a": (2, "y")}),
        (NEWEST, {"a": (2, "y")}),
    ):
        assert rows_of(lay_out(tmp_path, [("b", 1, "base")], logs, instant=instant)) == due
