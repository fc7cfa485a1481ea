"""An operation holds no more than its budget, whatever the logs hold."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported
from lakeward.engine.task import peak_memory
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationKind, OperationSpec
from lakeward.engine.task.peak_memory import PeakMemory
from lakeward.format.avro.schema import table_schema
from lakeward.format.file_name import NativeLogKind, NativeLogName
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.logs.log_scan import read_heads
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.storage.local import LocalStorage
from tests.read.log_files import META, TABLE_SCHEMA

MIB = 1024 * 1024
BUDGET = MemoryBudget(64 * MIB)
"""A smaller one makes so many small batches that the test would take seconds."""
SCHEMA = json.dumps(TABLE_SCHEMA)
ROW_BYTES = 2_000


def write_log(path: Path, instant: str, keys: np.ndarray, row_bytes: int) -> None:
    schema = table_schema(SCHEMA)
    text = "".join(chr(97 + n * n % 23) for n in range(ROW_BYTES)) * (row_bytes // ROW_BYTES)
    ids = pa.array([f"key-{number:08}" for number in keys])
    columns = {field["name"]: pa.nulls(len(keys), pa.string()) for field in META} | {
        "_hoodie_record_key": ids,
        "_hoodie_partition_path": pa.repeat("", len(keys)),
        "id": ids,
        "ts": pa.array(keys, pa.int64()),
        "v": pa.repeat(text, len(keys)),
    }
    with path.open("wb") as sink:
        writer = LogFileWriter(
            sink, schema, instant=instant, schema_json=log_block_schema(SCHEMA), block_type=BlockType.AVRO_DATA
        )
        writer.write(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))
        writer.close()


def native_operation(folder: Path, rows: int) -> OperationSpec:
    """The same rows as `operation` has, in two native logs, and without a base file FULL makes one."""
    spec = operation(folder, rows)
    names = []
    for place, log in enumerate(spec.slice.log_files):
        instant = str(100 + place)
        footer = NativeLogFooter(instant, log_block_schema(SCHEMA))
        names.append(NativeLogName("fg", "0-0-0", instant, 1, NativeLogKind.DATA).text)
        with (folder / names[-1]).open("wb") as sink:
            writer = NativeDataWriter(
                sink, table_schema(SCHEMA), file_id="fg", footer=footer, row_group_bytes=BUDGET.runs // 8
            )
            for block, file in read_heads(LocalStorage(), str(folder), log):
                assert isinstance(block, LogBlock)
                (whole,) = pa.Table.from_batches(read_data_block(file, block)).combine_chunks().to_batches()
                for start in range(0, whole.num_rows, 1_000):
                    ordered = whole.sort_by("_hoodie_record_key").slice(start, 1_000)
                    writer.write(ordered)
            writer.close()
    rules = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",), by_rank=True)
    return replace(spec, kind=OperationKind.FULL, slice=replace(spec.slice, log_files=tuple(names), rules=rules))


def operation(folder: Path, rows: int, row_bytes: int = ROW_BYTES) -> OperationSpec:
    """Two logs of so many rows together, whose keys lie between one another."""
    numbers = np.random.default_rng(1).permutation(rows)
    for place, instant in enumerate(("100", "101")):
        write_log(folder / f".fg_{instant}.log.1_0-0-0", instant, numbers[place::2], row_bytes)
    attempt = folder / "attempt"
    attempt.mkdir()
    slice_input = SliceInput(
        base_path=str(folder),
        partition_path="",
        file_id="fg",
        base_file=None,
        log_files=(".fg_100.log.1_0-0-0", ".fg_101.log.1_0-0-0"),
        instant="999",
        schema=SCHEMA,
        rules=MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",)),
        memory_bytes=BUDGET.total,
    )
    return OperationSpec(
        kind=OperationKind.LOG,
        index=0,
        slice=slice_input,
        attempt=1,
        attempt_folder=str(attempt),
        input_bytes=rows * ROW_BYTES,
    )


@pytest.mark.slow
@pytest.mark.skipif(not peak_memory._reset(), reason="this system lets no process reset its peak")
def test_logs_of_ten_times_their_share(tmp_path: Path) -> None:
    """Their rows are never all in memory: an operation takes less than they do beside what was there, and most of it is
    windows and chunks, which are no larger where the logs are."""
    spec = operation(tmp_path, 12 * BUDGET.logs // ROW_BYTES)
    before = PeakMemory().peak_bytes()
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.rows == spec.input_bytes // ROW_BYTES
    assert result.peak_memory_bytes - before < 10 * BUDGET.logs


@pytest.mark.slow
@pytest.mark.skipif(not peak_memory._reset(), reason="this system lets no process reset its peak")
def test_sorted_logs_of_ten_times_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of the layout lsm_tree are merged straight out of their files: as little is held, and nothing is spilled."""
    spec = native_operation(tmp_path, 12 * BUDGET.logs // ROW_BYTES)
    monkeypatch.setattr(tempfile, "mkstemp", None)
    before = PeakMemory().peak_bytes()
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.rows == spec.input_bytes // ROW_BYTES
    assert result.counts.merged_by is MergedBy.ORDER
    assert result.peak_memory_bytes - before < 10 * BUDGET.logs


@pytest.mark.parametrize("kind", OperationKind)
def test_a_row_is_refused_before_it_takes_more_than_there_is(tmp_path: Path, kind: OperationKind) -> None:
    """An operation of either kind asks how large its rows are, and writes none that is too large."""
    spec = replace(operation(tmp_path, 2, row_bytes=BUDGET.row + ROW_BYTES), kind=kind)
    with pytest.raises(Unsupported, match=r"key-0000000.*\.log\.1_0-0-0.*--memory"):
        run_operation(LocalStorage(), spec, 0)
    assert not [path for path in (tmp_path / "attempt").iterdir() if path.stat().st_size]
