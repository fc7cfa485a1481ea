"""One FULL operation on one file slice, in process: merged by order, merged by hashes, and the floor.

    python -m benchmarks.merge [--base-rows N] [--logs N] [--log-rows N]

A sorted base file and Avro logs, 15 columns; four of five log rows update rows all over the base, the others are new.
Each side is a process of its own, in turn, `--times` times, and the best is kept: the merge that relies on the base
file's order, the one that does not, each with the checks of the output and without. The floor decodes the same inputs
and encodes the rows that survive, with the same readers and writers and no merge; its memory says nothing, since it
holds these rows before. All sides write equal rows.

Touches: a temporary folder; writes `benchmarks/results/merge-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.measure import machine, measure, write_report
from lakeward.format.avro.schema import META_COLUMNS, table_schema
from lakeward.format.log.block import BlockType
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.writer import LogFileWriter, log_block_schema
from lakeward.format.parquet.base_file import BaseFileWriter, open_base_file
from lakeward.format.projection import project
from lakeward.merge.digest import Digest
from lakeward.merge.merge_rules import MergeMode, MergeRules
from lakeward.read.log_scan import scan_slice_heads
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.task import operation
from lakeward.task.operation_spec import OperationSpec
from lakeward.task.peak_memory import PeakMemory

COLUMNS: dict[str, Any] = {
    "id": "string",
    "ts": "long",
    "account": "int",
    "big": "long",
    "ratio": "double",
    "score": "double",
    "active": "boolean",
    "seen": "long",
    "city": "string",
    "state": "string",
    "note": "string",
    "trace": "string",
    "amount": "double",
    "day": "int",
    "shop": "int",
}
SCHEMA = json.dumps({"type": "record", "name": "t", "fields": [{"name": n, "type": t} for n, t in COLUMNS.items()]})
FILE_ID = "f6b2a3c0-0000-4000-8000-000000000000-0"
BASE = f"{FILE_ID}_0-0-0_20270101000000000.parquet"
INSTANT = "20270201000000000"
BATCH_ROWS = 16_384
SIDES = ("order", "hashes", "order unchecked", "hashes unchecked", "floor")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base-rows", type=int, default=2_000_000)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--log-rows", type=int, default=30_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("folder", nargs="?", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side is not None:
        print(json.dumps(run_side(arguments.side, Path(arguments.folder))))
        return 0
    about_machine = machine()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        write_slice(Path(folder), arguments.base_rows, arguments.logs, arguments.log_rows)
        sides = compare(folder, arguments.times)
    workload = {name: getattr(arguments, name) for name in ("base_rows", "logs", "log_rows", "times")}
    write_report("merge", about_machine, {"workload": workload, "sides": sides})
    return 0


def compare(folder: str, times: int) -> dict[str, dict[str, float]]:
    best: dict[str, dict[str, float]] = {}
    digests = set()
    for _ in range(times):
        for side in SIDES:
            _, printed = measure([sys.executable, "-m", "benchmarks.merge", "--side", side, folder])
            found = json.loads(printed)
            digests.add(found.pop("digest"))
            if side not in best or found["cpu_seconds"] < best[side]["cpu_seconds"]:
                best[side] = found
    assert len(digests) == 1, "the sides wrote different rows"
    return best


# ------------------------------------------------------------------------------------------------ the slice


def write_slice(folder: Path, base_rows: int, logs: int, log_rows: int) -> None:
    chance = np.random.default_rng(1)
    schema = table_schema(SCHEMA)
    with (folder / BASE).open("wb") as sink:
        writer = BaseFileWriter(sink, schema, file_name=BASE, keys_expected=base_rows)
        for start in range(0, base_rows, BATCH_ROWS):
            writer.write(some_rows(np.arange(start, min(start + BATCH_ROWS, base_rows)), 0, chance))
        writer.close(is_sorted=True)
    for number in range(1, logs + 1):
        # Keys of two numbers: those of the base are even, so that new ones fall between them.
        known = chance.choice(base_rows, size=log_rows * 4 // 5, replace=False) * 2
        new = chance.choice(base_rows, size=log_rows - len(known), replace=False) * 2 + 1
        numbers = chance.permutation(np.concatenate([known, new]))
        with (folder / f".{FILE_ID}_{log_instant(number)}.log.1_0-0-0").open("wb") as sink:
            log = LogFileWriter(
                sink,
                schema,
                instant=log_instant(number),
                schema_json=log_block_schema(SCHEMA),
                block_type=BlockType.AVRO_DATA,
            )
            for start in range(0, len(numbers), BATCH_ROWS):
                log.write(some_rows(numbers[start : start + BATCH_ROWS], number, chance, are_halves=True))
            log.close()


def log_instant(number: int) -> str:
    return f"202701{number:011}"


def some_rows(
    numbers: npt.NDArray[np.int64], ts: int, chance: np.random.Generator, *, are_halves: bool = False
) -> pa.RecordBatch:
    if not are_halves:
        numbers = numbers * 2
    keys = pa.array([f"user-{number:012}-0000-4000-8000-abcd" for number in numbers])
    count = len(numbers)

    def one_of(*values: str) -> pa.Array:
        return pa.array(values).take(pa.array(chance.integers(0, len(values), count)))

    columns = {
        "_hoodie_commit_time": pa.array([f"{ts}"] * count),
        "_hoodie_commit_seqno": pa.array([f"{ts}_{row}" for row in range(count)]),
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": pa.array([""] * count),
        "_hoodie_file_name": pa.array(["f"] * count),
        "id": keys,
        "ts": pa.array(np.full(count, ts, dtype=np.int64)),
        "account": pa.array((numbers % 100_000).astype(np.int32)),
        "big": pa.array(numbers * 31),
        "ratio": pa.array(chance.random(count)),
        "score": pa.array(chance.random(count)),
        "active": pa.array(numbers % 3 == 0),
        "seen": pa.array(numbers * 1_000_003),
        "city": one_of(*(f"city {number}" for number in range(500))),
        "state": one_of("new", "open", "closed"),
        "note": pa.array([f"note {number % 7777} of version {ts}" for number in numbers]),
        "trace": pa.array([f"{value:016x}" for value in chance.integers(0, 2**62, count)]),
        "amount": pa.array((numbers % 1000).astype(np.float64)),
        "day": pa.array((numbers % 1500).astype(np.int32)),
        "shop": pa.array((numbers % 40).astype(np.int32)),
    }
    assert tuple(columns)[: len(META_COLUMNS)] == META_COLUMNS
    return pa.RecordBatch.from_pydict(columns, schema=table_schema(SCHEMA))


# ------------------------------------------------------------------------------------------------ one side


def run_side(side: str, folder: Path) -> dict[str, Any]:
    spec = spec_of(folder)
    survivors = read_all(folder / "survivors") if side == "floor" else []
    memory = PeakMemory()
    begin, cpu = time.perf_counter(), time.process_time()
    if side == "floor":
        path = decode_and_encode(spec, survivors)
    else:
        name, _, unchecked = side.partition(" ")
        spec = replace(spec, verify=not unchecked)
        result = operation._run(LocalStorage(), spec, 0, by_order=name == "order")
        assert result.counts.merged_by.startswith(name)
        path = Path(spec.attempt_folder) / result.file_name
    peak = memory.peak_bytes()
    figures = {"peak_rss_bytes": peak, "seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}
    digest = Digest()
    for batch in read_all(path):
        digest.update(batch)
    figures["output_bytes"] = path.stat().st_size
    if side == "order":
        path.replace(folder / "survivors")
    return figures | {"digest": digest.hexdigest}


def spec_of(folder: Path) -> OperationSpec:
    attempt = Path(tempfile.mkdtemp(dir=folder))
    logs = tuple(sorted(path.name for path in folder.iterdir() if ".log." in path.name))
    slice_input = SliceInput(
        partition_path="",
        file_id=FILE_ID,
        base_file=BASE,
        log_files=logs,
        base_path=str(folder),
        instant=INSTANT,
        schema=SCHEMA,
        rules=MergeRules(MergeMode.EVENT_TIME_ORDERING, "ts"),
    )
    return OperationSpec(0, slice_input, attempt=1, attempt_folder=str(attempt), input_bytes=1)


def decode_and_encode(spec: OperationSpec, survivors: list[pa.RecordBatch]) -> Path:
    """Decodes all inputs, lets go of their rows, and encodes those that survive."""
    schema = table_schema(SCHEMA)
    of = spec.slice
    with (Path(of.base_path) / str(of.base_file)).open("rb") as source:
        for _ in open_base_file(source, schema, name=BASE):
            pass
    scan = scan_slice_heads(LocalStorage(), of.base_path, of.log_files, instant=INSTANT, superseded={})
    for block in scan.blocks:
        with (Path(of.base_path) / block.file).open("rb") as file:
            for batch in read_data_block(file, block, bytes_max=2**27):
                project(batch, schema, where=block.where)
    path = Path(spec.attempt_folder) / BASE
    with path.open("wb") as sink:
        keys = sum(batch.num_rows for batch in survivors)
        writer = BaseFileWriter(sink, schema, file_name=BASE, keys_expected=keys)
        for batch in survivors:
            writer.write(batch)
        writer.close()
    return path


def read_all(path: Path) -> list[pa.RecordBatch]:
    with path.open("rb") as source:
        return list(open_base_file(source, table_schema(SCHEMA), name=path.name))


if __name__ == "__main__":
    sys.exit(main())
