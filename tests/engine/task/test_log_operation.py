"""One LOG operation: readers get from its output what they got from the logs it stands for."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeward.base.errors import NotFound, Unsupported, VerificationFailed
from lakeward.engine.task import log_operation as log_operation_module
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec, finished_operations
from lakeward.format.avro.schema import table_schema
from lakeward.format.log import data_block as data_block_module
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.merge.logs import log_records as log_records_module
from lakeward.merge.logs.log_fold import LogFold
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.file_slice import open_slice
from lakeward.read.logs.log_scan import scan_slice_heads
from lakeward.read.query.sample import RECORDS_MAX
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from tests.read.log_files import TABLE_SCHEMA, data_block, delete_block, row

SCHEMA = json.dumps(TABLE_SCHEMA)
EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
COMMIT = MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",))
BASE = "fg_0-0-0_050.parquet"
STORAGE = LocalStorage()


def log_name(instant: str) -> str:
    return f".fg_{instant}.log.1_0-0-0"


class Table:
    """A folder with one file slice; `instants` are its logs."""

    def __init__(self, folder: Path, rules: MergeRules = EVENT) -> None:
        self.folder = folder
        self.rules = rules
        self.instants: list[str] = []
        self.sources: dict[str, tuple[str, ...]] = {}
        """What each output was made of, outputs among them included, as its plan says."""
        self.has_base = False

    def base(self, *rows: dict[str, Any]) -> None:
        pq.write_table(pa.Table.from_pylist(list(rows), table_schema(SCHEMA)), self.folder / BASE)
        self.has_base = True

    def log(self, instant: str, data: bytes) -> None:
        (self.folder / log_name(instant)).write_bytes(data)
        self.instants = sorted([*self.instants, instant])

    def input(self, instants: list[str], *, instant: str = "999", base: bool = False) -> SliceInput:
        return SliceInput(
            base_path=str(self.folder),
            partition_path="",
            file_id="fg",
            base_file=BASE if base else None,
            log_files=tuple(log_name(each) for each in instants),
            instant=instant,
            schema=SCHEMA,
            rules=self.rules,
        )

    def superseded(self, instants: list[str]) -> dict[str, tuple[str, ...]]:
        """Logs among these for which an output among them stands."""
        outputs = [each for each in instants if each in self.sources]
        names = {source for output in outputs for source in self.sources[output]}
        return {log_name(each): self.sources.get(each, ()) for each in instants if each in names}

    def spec(self, instant: str, *, logs: int | None = None, **more: Any) -> OperationSpec:
        more = {"superseded": self.superseded(self.instants[:logs])} | more
        attempt = self.folder / f"attempt-{instant}"
        attempt.mkdir(exist_ok=True)
        return OperationSpec(
            kind=OperationKind.LOG,
            index=3,
            slice=replace(self.input(self.instants[:logs], instant=instant), **more),
            attempt=77,
            attempt_folder=str(attempt),
            input_bytes=123,
        )

    def compact(self, instant: str, *, logs: int | None = None) -> OperationResult:
        """LOG over the oldest logs, published."""
        spec = self.spec(instant, logs=logs)
        result = run_operation(STORAGE, spec, 0)
        self.sources[instant] = tuple(self.instants[:logs])
        self.log(instant, (Path(spec.attempt_folder) / result.file_name).read_bytes())
        return result

    def rows(self, *, instant: str = "999") -> list[dict[str, Any]]:
        given = self.input(self.instants, instant=instant, base=self.has_base)
        with open_slice(STORAGE, given) as merged:
            found = [one for batch in merged.batches() for one in batch.to_pylist()]
        return sorted(found, key=lambda one: one["id"])

    def blocks(self, instant: str) -> list[LogBlock]:
        path = self.folder / log_name(instant)
        with path.open("rb") as file:
            found = list(scan_blocks(file, path.stat().st_size, name=path.name))
        assert all(isinstance(one, LogBlock) for one in found)
        return [one for one in found if isinstance(one, LogBlock)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.base(row("a", 10, "base"), row("b", 10, "base"), row("c", 10, "base"))
    made.log("100", data_block("100", [row("a", 12, "one"), row("d", 12, "one"), row("e", 12, "one")]))
    made.log("200", delete_block("200", [("a", 13), ("d", None), ("x", 5)]))
    made.log("300", data_block("300", [row("a", 11, "late"), row("e", 13, "three")]))
    return made


@pytest.mark.parametrize(("memory_bytes", "merged_by"), [(MEMORY_BYTES, MergedBy.HASHES), (1, MergedBy.SORTING)])
def test_one_log_for_many(table: Table, memory_bytes: int, merged_by: MergedBy) -> None:
    """The name says instant and attempt; each key is there once, as row or delete, and readers see what they saw,
    whether or not the records fit memory."""
    before = table.rows()
    spec = table.spec("400", memory_bytes=memory_bytes)
    result = run_operation(STORAGE, spec, task_attempt=2)

    assert result.file_name == ".fg_400.log.1_3-77-2"
    assert result.kind is OperationKind.LOG
    counts = result.counts
    assert counts.merged_by is merged_by
    assert (counts.log_files, counts.log_blocks, counts.log_records, counts.log_keys) == (3, 3, 8, 4)
    assert (counts.rows, counts.inserted, counts.deleted) == (1, 1, 3)
    assert result.size_bytes == (Path(spec.attempt_folder) / result.file_name).stat().st_size
    assert finished_operations(STORAGE.list(spec.attempt_folder)) == {3: 4}

    table.log("400", (Path(spec.attempt_folder) / result.file_name).read_bytes())
    assert table.rows() == before


def test_a_key_with_very_many_records(tmp_path: Path):
    """Its records are not in the sample of the sources, and so not in that of the output, which has one of them."""
    table = Table(tmp_path)
    table.log("100", data_block("100", [row("hot", number, "x") for number in range(RECORDS_MAX + 1)]))
    table.log("101", data_block("101", [row("cold", 1, "y")]))
    assert table.compact("200").counts.log_keys == 2


def test_every_block_says_what_it_stands_for(table: Table) -> None:
    """Data comes first, then deletes without and with ordering values, each with all headers and no positions."""
    table.compact("400")
    blocks = table.blocks("400")
    assert [block.type for block in blocks] == [BlockType.AVRO_DATA, BlockType.DELETE, BlockType.DELETE]
    for block in blocks:
        assert set(block.headers) == {
            HeaderKey.INSTANT_TIME,
            HeaderKey.SCHEMA,
            HeaderKey.COMPACTED_BLOCK_TIMES,
        }
        assert block.headers[HeaderKey.INSTANT_TIME] == "400"
        assert block.headers[HeaderKey.COMPACTED_BLOCK_TIMES] == "100,200,300"


def test_a_reader_before_it_sees_the_sources(table: Table) -> None:
    """Time travel to an instant before the output reads as if it were not there."""
    before = [table.rows(instant=instant) for instant in ("100", "200", "300")]
    table.compact("400")
    assert [table.rows(instant=instant) for instant in ("100", "200", "300")] == before


def test_over_an_earlier_output(table: Table) -> None:
    """The earlier output is named in place of its own sources, as Hudi's log compaction names it."""
    before = table.rows()
    table.compact("400", logs=2)
    assert table.blocks("400")[0].headers[HeaderKey.COMPACTED_BLOCK_TIMES] == "100,200"
    table.compact("500")
    assert table.blocks("500")[0].headers[HeaderKey.COMPACTED_BLOCK_TIMES] == "400,300"
    assert table.rows() == before


def test_over_an_earlier_output_alone(table: Table) -> None:
    """Even with nothing new an output of an output is read in its place."""
    before = table.rows()
    table.compact("400")
    table.compact("500")
    assert table.blocks("500")[0].headers[HeaderKey.COMPACTED_BLOCK_TIMES] == "400"
    assert table.rows() == before


def test_a_log_compaction_opens_no_log_that_an_earlier_one_superseded(tmp_path: Path) -> None:
    """Four in a row open what is new and the output before, and readers, which open all, see what they saw."""
    table = Table(tmp_path)
    table.base(row("a", 10, "base"))
    opened = []
    for number in range(4):
        for instant in range(100 * number + 101, 100 * number + 104):
            table.log(str(instant), data_block(str(instant), [row("a", instant % 7, ""), row(f"k{instant}", 1, "")]))
        before = table.rows()
        opened.append(table.compact(str(100 * number + 150)).counts.log_files)
        assert table.rows() == before
    assert opened == [3, 4, 4, 4]
    assert table.blocks("450")[0].headers[HeaderKey.COMPACTED_BLOCK_TIMES] == "350,401,402,403"


def test_only_deletes(tmp_path: Path) -> None:
    """Deletes stay although no file has their keys, and a file without rows has no data block."""
    table = Table(tmp_path)
    table.log("100", delete_block("100", [("a", 5)]))
    table.log("200", delete_block("200", [("b", 7)]))
    result = table.compact("300")
    assert (result.counts.rows, result.counts.deleted) == (0, 2)
    assert [block.type for block in table.blocks("300")] == [BlockType.DELETE]
    table.log("400", data_block("400", [row("a", 4, "late"), row("b", 8, "newer")]))
    assert [one["id"] for one in table.rows()] == ["b"]


def test_rows_take_the_schema_of_the_table(tmp_path: Path) -> None:
    """Older logs lack a column of the table: the output has it, with nulls."""
    table = Table(tmp_path)
    table.log("100", data_block("100", [row("a", 1, "x")]))
    table.log("200", data_block("200", [row("b", 1, "x")]))
    wider = {**TABLE_SCHEMA, "fields": [*TABLE_SCHEMA["fields"], {"name": "w", "type": ["null", "int"]}]}
    spec = table.spec("300", schema=json.dumps(wider))
    result = run_operation(STORAGE, spec, 0)
    given = replace(spec.slice, log_files=(*spec.slice.log_files, log_name("300")))
    table.log("300", (Path(spec.attempt_folder) / result.file_name).read_bytes())
    with open_slice(STORAGE, given) as merged:
        rows = [(one["id"], one["w"]) for batch in merged.batches() for one in batch.to_pylist()]
    assert rows == [("a", None), ("b", None)]


def parquet_log(table: Table, instant: str, rows: list[dict[str, Any]]) -> None:
    with (table.folder / log_name(instant)).open("wb") as sink:
        writer = LogFileWriter(
            sink,
            table_schema(SCHEMA),
            instant=instant,
            schema_json=log_block_schema(SCHEMA),
            block_type=BlockType.PARQUET_DATA,
        )
        writer.write(pa.RecordBatch.from_pylist(rows, table_schema(SCHEMA)))
        writer.close()
    table.instants.append(instant)


@pytest.mark.parametrize(("memory_bytes", "rows_min"), [(MEMORY_BYTES, 32), (1, 32), (MEMORY_BYTES, 33)])
def test_text_that_repeats_stays_in_dictionaries(
    tmp_path: Path, memory_bytes: int, rows_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the Parquet blocks that are read to the one that is written, checks and all; readers see what they saw.

    Of blocks of few rows it is not said which columns repeat.
    """
    written: list[pa.Schema] = []

    class SeenWriter(LogFileWriter):
        def __init__(self, sink: Any, schema: pa.Schema, **more: Any) -> None:
            written.append(schema)
            super().__init__(sink, schema, **more)

    table = Table(tmp_path)
    table.log("100", data_block("100", [row("avro", 1, "red"), row("k3", 9, "wins")]))
    for instant, rows in (("200", 32), ("300", 9)):
        colours = [row(f"k{n}", int(instant) % 7, ("red", "blüe")[n % 2], instant=instant) for n in range(rows)]
        parquet_log(table, instant, colours)
    before = table.rows()
    monkeypatch.setattr(log_operation_module, "LogFileWriter", SeenWriter)
    monkeypatch.setattr(data_block_module, "_ROWS_TO_JUDGE_MIN", rows_min)
    spec = table.spec("400", memory_bytes=memory_bytes)
    result = run_operation(STORAGE, spec, 0)

    assert pa.types.is_dictionary(written[0].field("v").type) == (rows_min == 32)
    assert pa.types.is_string(written[0].field("_hoodie_record_key").type)
    table.sources["400"] = ("100", "200", "300")
    table.log("400", (Path(spec.attempt_folder) / result.file_name).read_bytes())
    assert table.rows() == before


def test_parquet_blocks_stay_parquet(tmp_path: Path) -> None:
    """The newest data block decides in which format rows are written."""
    table = Table(tmp_path)
    table.log("100", data_block("100", [row("a", 1, "avro")]))
    parquet_log(table, "200", [row("b", 1, "parquet", instant="200")])
    before = table.rows()
    table.compact("300")
    assert [block.type for block in table.blocks("300")] == [BlockType.PARQUET_DATA]
    assert table.rows() == before


def test_nothing_to_merge_is_said_before_anything_is_written(tmp_path: Path) -> None:
    """A lone output whose sources are gone stands for nothing: there is no record to write."""
    table = Table(tmp_path)
    table.log("300", data_block("300", [row("a", 1, "")], COMPACTED_BLOCK_TIMES="100,200"))
    spec = table.spec("400")
    with pytest.raises(Unsupported, match="no records"):
        run_operation(STORAGE, spec, 0)
    assert STORAGE.list(spec.attempt_folder) == []


def test_a_task_whose_folder_is_gone_writes_nothing(table: Table) -> None:
    """The folder is never made by a task."""
    spec = table.spec("400")
    with pytest.raises(NotFound):
        run_operation(STORAGE, replace(spec, attempt_folder=spec.attempt_folder + "-fenced-off"), 0)


KEYS = st.sampled_from("abc")
ORDERING = st.integers(8, 12)
DATA = st.lists(st.tuples(KEYS, ORDERING), min_size=1, max_size=3)
DELETES = st.lists(st.tuples(KEYS, st.none() | ORDERING), min_size=1, max_size=3)
LOGS = st.lists(st.tuples(st.just("data"), DATA) | st.tuples(st.just("deletes"), DELETES), min_size=2, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    logs=LOGS,
    runs=st.lists(st.integers(2, 8), min_size=1, max_size=2),
    rules=st.sampled_from([EVENT, COMMIT]),
    has_base=st.booleans(),
)
def test_any_run_of_oldest_logs_may_become_one(
    tmp_path_factory: pytest.TempPathFactory, logs: list[Any], runs: list[int], rules: MergeRules, has_base: bool
) -> None:
    """Whatever the logs hold and however many of the oldest are merged, once or twice: rows, commit times and sequence
    numbers are those of the slice without the output."""
    table = Table(tmp_path_factory.mktemp("table"), rules)
    if has_base:
        table.base(row("a", 10, "base", instant="050"), row("b", 10, "base", instant="050"))
    for number, (what, records) in enumerate(logs):
        instant = f"{100 + number}"
        if what == "data":
            records = list(dict(records).items())
            rows = [row(key, ts, f"v{number}", instant=instant) for key, ts in records]
            table.log(instant, data_block(instant, rows))
        else:
            table.log(instant, delete_block(instant, list(dict(records).items())))
    before = table.rows()
    for number, run in enumerate(runs):
        spec = table.spec(f"{300 + number}", logs=run)
        scan = partial(scan_slice_heads, STORAGE, str(table.folder), spec.slice.log_files, instant=spec.slice.instant)
        assert scan(superseded=spec.slice.superseded).blocks == scan().blocks
        table.compact(f"{300 + number}", logs=run)
        assert table.rows() == before


class ForgetfulWriter(LogFileWriter):
    """A planted encode bug: a row is not written."""

    def write(self, batch: pa.RecordBatch) -> None:
        super().write(batch.slice(1))


class SofteningWriter(LogFileWriter):
    """Another one: deletes lose their ordering values, and so would win over later rows."""

    def write_deletes(self, keys: pa.Array, ordering: pa.Array | None, *, partition_path: str) -> None:
        super().write_deletes(keys, None, partition_path=partition_path)


class SourcelessWriter(LogFileWriter):
    """Another one: the blocks forget one of the instants they stand for, which would then be read twice."""

    def __init__(self, *arguments: Any, headers: dict[HeaderKey, str], **more: Any) -> None:
        super().__init__(*arguments, headers={HeaderKey.COMPACTED_BLOCK_TIMES: "100,200"}, **more)


@pytest.mark.parametrize("writer", [ForgetfulWriter, SofteningWriter, SourcelessWriter])
def test_a_planted_encode_bug_is_caught(
    table: Table, writer: type[LogFileWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads back beside the sources is not what was merged."""
    monkeypatch.setattr(log_operation_module, "LogFileWriter", writer)
    with pytest.raises(VerificationFailed):
        run_operation(STORAGE, table.spec("400"), 0)


class StaleFold(LogFold):
    """A planted merge bug: the first record of a key wins."""

    def append_data(self, batch: pa.RecordBatch, *, source: str) -> None:
        super().append_data(batch.slice(0, 1) if "log.1" in source and ".fg_300" in source else batch, source=source)


class DroppingFold(LogFold):
    """Another one: a delete is forgotten."""

    def tombstones(self, ids: Any) -> Tombstones:
        return super().tombstones(ids[1:])


@pytest.mark.parametrize("fold", [StaleFold, DroppingFold])
def test_a_planted_merge_bug_is_caught(table: Table, fold: type[LogFold], monkeypatch: pytest.MonkeyPatch) -> None:
    """The file reads back as it was merged, and still the merge was wrong: counts or the sample say so."""
    monkeypatch.setattr(log_records_module, "LogFold", fold)
    with pytest.raises(VerificationFailed):
        run_operation(STORAGE, table.spec("400"), 0)


def test_checks_can_be_left_out(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without verification the planted bug gets through, so the tests above test the checks."""
    monkeypatch.setattr(log_operation_module, "LogFileWriter", SofteningWriter)
    result = run_operation(STORAGE, replace(table.spec("400"), verify=False), 0)
    assert result.digest == ""


def test_columns_are_measured_for_the_metadata_table(table: Table) -> None:
    """The rows that the log keeps are measured; deletes are no rows."""
    indexed = IndexedColumns({"_hoodie_record_key": "string", "ts": "long"}, StatsVersion.V2)
    spec = replace(table.spec("400"), indexed=indexed)
    result = run_operation(STORAGE, spec, 0)

    measured = {str(record.column): record for record in result.column_stats}
    assert measured.keys() == indexed.columns.keys()
    kept = measured["ts"]
    assert (kept.min_value, kept.max_value, kept.value_count, kept.null_count) == (13, 13, 1, 0)
    assert (kept.file_name, kept.total_size) == (result.file_name, 0)
    assert result.counts.rows == 1
