"""What a lookup of keys by `bloom --with-logs` reads and takes, with the cache of filters and with tails of logs.

    python -m benchmarks.log_tails [--groups N] [--logs N] [--rows N] [--keys N] [--turns N]

A merge-on-read table of Lakeward's, each file group with a base file and as many logs, of rows of some 300 bytes whose
keys are drawn by chance; once with tails and once without. A batch of keys, of which none, one in a hundred or half lie
in logs and the others nowhere, is looked up by four sides: nothing known of the logs, the cache built with logs, tails,
and both. Then each side upserts the same batch, new keys into logs, in a copy of its table. Bytes are those that are
read through the storage. What tails take of the logs' bytes, and of the CPU of writing them, comes along. Each write is
made to copies of both tables by turns, before it is made to them, and the CPU of all of these is summed: one write
differs from the next by more than a tail takes, so the difference of the sums has its standard error beside it.

Of the filters it is measured how often they err, beside theory.

Goal: filters and ranges within 3 % of the logs, a key list within 20 bytes a key, writing within 5 % of CPU, by pairs.
A run on two quiet cores takes less than three minutes.

Touches: a temporary folder.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles, stdev
from typing import Any, BinaryIO
from unittest import mock
from uuid import UUID

import pyarrow as pa

from benchmarks.measure import machine, write_report
from lakeward.base.clock import SystemClock
from lakeward.format.bloom_size import error_rate
from lakeward.format.log.log_tail import LogTailBuilder, read_log_tail
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import record_locations
from lakeward.index.index_type import IndexType
from lakeward.services.indexing.run.filter_cache_update import rebuild_filter_cache
from lakeward.services.indexing.run.insert_choice import let_into_logs
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage
from lakeward.write.handles import append
from tests.our_reader import scan
from tests.write.writing import new_table, rows_of, write

STORAGE = LocalStorage()
VALUE_BYTES = 180
Seconds = dict[str, list[tuple[float, float]]]
"""Each side has its CPU for each write, and the CPU for tails within."""
SHARES = {"none": 0.0, "1 %": 0.01, "half": 0.5}


def key(chance: random.Random) -> str:
    return str(UUID(int=chance.getrandbits(128)))


def make(plain: Path, tailed: Path, given: argparse.Namespace) -> tuple[Seconds, Mapping[str, str]]:
    """CPU seconds of each write of logs to both tables, by turns, and of each key that is in logs its partition."""
    chance = random.Random(1)
    groups = [[key(chance) for _ in range(given.rows * 2)] for _ in range(given.groups)]
    rows = [(each, 0, f"p{group:03}", "") for group, keys in enumerate(groups) for each in keys]
    for base in (plain, tailed):
        new_table(base)
        write(base, rows_of(rows), "bulk_insert")
    choose_tails(STORAGE, scan(tailed), are_written=True)
    written: dict[str, str] = {}
    seconds: Seconds = {"plain": [], "tails": []}
    sides = [("plain", plain), ("tails", tailed)]
    for log in range(given.logs):
        rows = []
        for group, keys in enumerate(groups):
            chosen = chance.sample(keys, given.rows)
            written.update((each, f"p{group:03}") for each in chosen)
            rows += [(each, log + 1, f"p{group:03}", chance.randbytes(VALUE_BYTES // 2).hex()) for each in chosen]
        batch = rows_of(rows)
        for turn in range(given.turns):
            is_last = turn == given.turns - 1
            for name, base in sides if (log + turn) % 2 else reversed(sides):
                seconds[name].append(write_cpu(base, batch) if is_last else write_cpu_of_copy(base, batch))
    return seconds, dict(sorted(written.items()))


@dataclass(slots=True)
class TailTimes:
    """CPU of the calls that a write makes for tails alone."""

    seconds: float = 0.0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            began = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                self.seconds += time.thread_time() - began

        return called


def write_cpu(base: Path, batch: pa.RecordBatch) -> tuple[float, float]:
    """CPU seconds of the write, and those for tails within."""
    gc.collect()
    times = TailTimes()
    with ExitStack() as patched:
        for owner, name in ((append, "place_of_next"), (LogTailBuilder, "add"), (LogTailBuilder, "close")):
            patched.enter_context(mock.patch.object(owner, name, times.timed(getattr(owner, name))))
        began = time.process_time()
        write(base, batch)
        return time.process_time() - began, times.seconds


def write_cpu_of_copy(base: Path, batch: pa.RecordBatch) -> tuple[float, float]:
    copy = base.with_name("copy")
    shutil.copytree(base, copy, copy_function=os.link)  # no file of a table is written to
    try:
        return write_cpu(copy, batch)
    finally:
        shutil.rmtree(copy)


def more_cpu(seconds: Seconds) -> Mapping[str, Mapping[str, float]]:
    """The share that writing with tails takes more: by the sums of pairs of writes of one batch to both tables, and by
    the calls that are made for tails alone, which hardly depends on what else runs."""
    plain, tails = [whole for whole, _ in seconds["plain"]], [whole for whole, _ in seconds["tails"]]
    share = sum(tails) / sum(plain) - 1
    off = stdev(with_tails - (1 + share) * without for with_tails, without in zip(tails, plain, strict=True))
    first, middle, third = quantiles([of_tails / (whole - of_tails) for whole, of_tails in seconds["tails"]], n=4)
    return {
        "by_pairs": {"share": share, "standard_error": off * math.sqrt(len(plain)) / sum(plain), "pairs": len(plain)},
        "by_calls": {"first_quartile": first, "median": middle, "third_quartile": third},
    }


def look_up(base: Path, keys: pa.Array) -> dict[str, float]:
    metered = MeteredStorage(STORAGE)
    snapshot = scan(base)
    wall, cpu = time.perf_counter(), time.process_time()
    index = SliceBloomIndex.of(metered, snapshot, clock=SystemClock())
    found = record_locations(metered, index, keys).num_rows
    return {
        "found": found,
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - wall,
        "bytes_read": metered.bytes_read,
        "files_opened": metered.files_opened,
    }


class Metered(LocalStorage):
    """Counts what is read, and does the rest as a local storage."""

    def __init__(self) -> None:
        super().__init__()
        self.read_by = MeteredStorage(STORAGE)

    def open_input(self, path: str) -> BinaryIO:
        return self.read_by.open_input(path)

    def read(self, path: str) -> bytes:
        return self.read_by.read(path)


def upsert(base: Path, rows: pa.RecordBatch) -> dict[str, float]:
    """What a whole upsert takes, of a copy of the table: the better of two."""
    costs = []
    for _ in range(2):
        copy = base.with_name("copy")
        shutil.copytree(base, copy, copy_function=os.link)  # no file of a table is written to
        let_into_logs(STORAGE, scan(copy), only_lakeward=True)
        metered = Metered()
        wall, cpu = time.perf_counter(), time.process_time()
        report = write(copy, rows, storage=metered, index=IndexType.BLOOM)
        costs.append(
            {
                "updates": report.updated,
                "cpu_seconds": time.process_time() - cpu,
                "wall_seconds": time.perf_counter() - wall,
                "bytes_read": metered.read_by.bytes_read,
                "files_opened": metered.read_by.files_opened,
            }
        )
        shutil.rmtree(copy)
    return min(costs, key=lambda cost: cost["cpu_seconds"])


def tail_bytes(base: Path) -> dict[str, float]:
    """What the tails of the table's logs take."""
    total = {"log_bytes": 0, "filters": 0, "lists": 0, "listed_keys": 0, "logs": 0, "without_tail": 0}
    for group in scan(base).file_groups:
        for log in group.slices[0].row_logs:
            with (base / log.path).open("rb") as file:
                tail = read_log_tail(file, log.size)
            total["logs"] += 1
            total["log_bytes"] += log.size
            if tail is None:
                total["without_tail"] += 1
                continue
            filters = [each.filter for each in (tail.own, tail.cumulative) if each.filter is not None]
            total["filters"] += sum(each.length for each in filters)
            if tail.key_list is not None:
                total["lists"] += tail.key_list.length
                total["listed_keys"] += tail.own.count
    return {**total, "filter_share": total["filters"] / total["log_bytes"]}


def false_positives(base: Path, absent: pa.Array, given: argparse.Namespace) -> dict[str, float]:
    """How often the newest logs' cumulative filters let a key pass that is nowhere, and how often they should by the
    keys that differ: each log has half of its group's."""
    measured, theory = [], []
    for group in scan(base).file_groups:
        log = group.slices[0].row_logs[-1]
        with (base / log.path).open("rb") as file:
            tail = read_log_tail(file, log.size)
            rows = None if tail is None else tail.cumulative.read_filter(file)
        if tail is not None and rows is not None:
            measured.append(float(rows.lookup(absent).mean()))
            theory.append(error_rate(given.rows * 2 * (1 - 0.5**tail.logs), rows.bits, rows.hashes))
    return {"measured": sum(measured) / len(measured), "theory": sum(theory) / len(theory)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_tails")
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1_500, help="of each log")
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--turns", type=int, default=6, help="of each write to both tables, or to copies of them")
    given = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory(prefix="log-tails-") as folder:
        plain, tailed = Path(folder) / "plain", Path(folder) / "tailed"
        small = argparse.Namespace(groups=2, logs=2, rows=1_000, turns=1)
        make(Path(folder) / "warm-up", Path(folder) / "warm-up-with-tails", small)
        write_seconds, keys = make(plain, tailed, given)
        chance = random.Random(2)
        batches = {}
        for name, share in SHARES.items():
            some = dict(chance.sample(list(keys.items()), int(share * given.keys)))
            while len(some) < given.keys:
                some[key(chance)] = f"p{chance.randrange(given.groups):03}"
            value = chance.randbytes(VALUE_BYTES // 2).hex()
            batches[name] = rows_of([(each, given.logs + 1, part, value) for each, part in some.items()])
        sides: dict[str, Mapping[str, Any]] = {}
        ask = partial(_ask, batches)
        sides["nothing"], sides["tails"] = ask(plain), ask(tailed)
        for base in (plain, tailed):
            rebuild_filter_cache(STORAGE, scan(base), with_logs=True, on_file=lambda *said: None)
        sides["cache"], sides["cache and tails"] = ask(plain), ask(tailed)
        document = {
            "table": vars(given),
            "write_cpu_seconds": {name: sum(whole for whole, _ in each) for name, each in write_seconds.items()},
            "write_cpu_more": more_cpu(write_seconds),
            "tails": tail_bytes(tailed),
            "false_positives": false_positives(tailed, pa.array([key(chance) for _ in range(20_000)]), given),
            "sides": sides,
        }
    print("writing", document["write_cpu_seconds"], document["write_cpu_more"])
    print(document["tails"], document["false_positives"])
    for name, said in sides.items():
        for asked, cost in said.items():
            print(f"{name:16} {asked:13}", {part: round(value, 3) for part, value in cost.items()})
    for name in SHARES:
        assert len({said[name]["found"] for said in sides.values()}) == 1, name
        assert len({said[f"{name}, upsert"]["updates"] for said in sides.values()}) == 1, name
    write_report("log-tails", before, document)


def _ask(batches: Mapping[str, pa.RecordBatch], base: Path) -> Mapping[str, Any]:
    """Lookups, the better of two, and upserts."""
    found = {}
    for name, rows in batches.items():
        found[name] = min((look_up(base, rows.column("id")) for _ in range(2)), key=lambda cost: cost["cpu_seconds"])
        found[f"{name}, upsert"] = upsert(base, rows)
    return found


if __name__ == "__main__":
    main()
