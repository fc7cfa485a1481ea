"""How long compacting a large record index takes, and how much memory.

    python -m benchmarks.metadata_compaction [--records N] [--updates N] [--groups N] [--processes] [--folder PATH]

The golden table of version 9, whose record index is given N records in its base file, one file group, and a log on top
that moves some of them; with --groups it gets more groups, copies of it. `MetadataCompactor` compacts it in a process
of its own, with the files read back as by default; with --processes in processes of this machine, a task for each
group, whose CPU is not counted. Bound: 400 MB of memory, interpreter and kernels included, however many records there
are. Prints JSON and writes it to `benchmarks/results`; exits 1 when the bound is broken.

Touches: a temporary folder, `benchmarks/results/metadata-compaction-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, write_report
from lakeward.base.clock import SystemClock
from lakeward.engine.dispatch.local import LocalDispatcher, places_of_machine
from lakeward.engine.task.entry import merge_metadata_slice_at
from lakeward.format.file_name import parse_log_file
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.metadata.base_file import write_metadata_base_file
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.log_file import write_metadata_log
from lakeward.format.metadata.record import RecordIndexRecord
from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.metadata.plan.due_before_writers import MetadataService
from lakeward.services.metadata.run.metadata_round import MetadataServices
from lakeward.services.metadata.run.slice_merges import MergeTasks
from lakeward.storage.local import LocalStorage
from tests.golden_tables import copy_golden

RSS_MB_MAX = 400.0
GROUP = "record-index-0000-0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=1, help="file groups of the record index")
    parser.add_argument("--processes", action="store_true", help="of this machine carry the tasks out")
    parser.add_argument("--folder", type=Path, help="where the table is made; where temporary files are, unless given")
    parser.add_argument("--compact", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compact is not None:
        print(json.dumps(compact(arguments.compact, in_processes=arguments.processes)))
        return 0
    with tempfile.TemporaryDirectory(prefix="metadata-compaction-", dir=arguments.folder) as folder:
        base = copy_golden("v9_metadata", Path(folder, "table"))
        index = base / ".hoodie" / "metadata" / "record_index"
        fill(index, arguments.records, arguments.updates)
        for group in range(1, arguments.groups):
            for file in (newest_base(index), newest_log(index)):
                shutil.copyfile(file, index / file.name.replace(GROUP, f"record-index-{group:04}-0"))
        command = [sys.executable, "-m", "benchmarks.metadata_compaction", "--compact", str(base)]
        command += ["--processes"] if arguments.processes else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured = json.loads(done.stdout)
    assert measured["entries"] >= arguments.records, measured
    within = measured["rss_mb"] <= RSS_MB_MAX
    report = {
        "records": arguments.records,
        "updates": arguments.updates,
        "groups": arguments.groups,
        "processes": arguments.processes,
        **measured,
        "bounds": {"rss_mb": RSS_MB_MAX},
        "within_bounds": within,
    }
    write_report("metadata-compaction", machine(), report)
    return 0 if within else 1


def compact(base: Path, *, in_processes: bool) -> dict[str, Any]:
    options = CompactionOptions(writers_stopped=True, lock=stopped_writers_options(wait_seconds=0.0), timezone="UTC")
    table = ServicedTable.for_one_attempt(
        LocalStorage(), str(base), options, clock=SystemClock(), processes=Processes()
    )
    tasks = None
    if in_processes:
        dispatcher = LocalDispatcher(places_of_machine(), memory_bytes=options.memory_bytes)
        tasks = MergeTasks(lambda input_bytes: dispatcher, partial(merge_metadata_slice_at, str(base)))
    services = MetadataServices(table, tasks=tasks)
    started, cpu = time.monotonic(), time.process_time()
    done = services.run(MetadataService.COMPACTION).compaction
    assert done is not None
    return {
        "seconds": round(time.monotonic() - started, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "entries": done.entries,
        "input_mb": round(done.input_bytes / 1e6, 1),
        "output_mb": round(done.output_bytes / 1e6, 1),
    }


def fill(folder: Path, records: int, updates: int) -> None:
    """The newest base file of the group, and the newest log on it, under the names that they have."""
    base, log = newest_base(folder), newest_log(folder)
    with base.open("rb") as file:
        schema = HFileReader(file, length=base.stat().st_size, name=base.name).info["schema"].decode()
    with base.open("wb") as sink:
        write_metadata_base_file(sink, schema_json=schema, entries=entries(schema, 1, records), keys_expected=records)
    name = parse_log_file(log.name)
    assert name is not None
    step = max(1, records // updates)
    moved = ((key.decode(), payload) for key, payload in entries(schema, step, records))
    with log.open("wb") as sink:
        write_metadata_log(sink, instant=name.instant, schema_json=schema, entries=moved)


def newest_base(folder: Path) -> Path:
    return max(folder.glob(f"{GROUP}_*.hfile"), key=lambda path: path.name.rpartition("_")[2])


def newest_log(folder: Path) -> Path:
    return max(folder.glob(f".{GROUP}_*.log.*"), key=lambda path: path.name)


def entries(schema: str, step: int, records: int) -> Iterator[tuple[bytes, bytes]]:
    """Entries of every n-th record key, in their order."""
    encode = metadata_codec(schema).encode
    for number in range(0, records, step):
        file_id = f"{number % 1000:08x}-0000-4000-8000-{step:012x}-0"
        record = RecordIndexRecord(partition=f"day={number % 365:03}", file_id=file_id, instant_millis=number)
        yield f"order-{number:012}".encode(), encode(record)


if __name__ == "__main__":
    sys.exit(main())
