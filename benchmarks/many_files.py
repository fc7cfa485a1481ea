"""What the first rows of a table of 100,000 files cost: `lakeward read --limit 20`, and filters that rule files out.

    python -m benchmarks.many_files [--files N] [--runs N]

The table is copy-on-write, with 100 partitions, and has a metadata table, with statistics of four columns, half of it
compacted. Names, timelines and the metadata table are real; its base files are real, too, but all have one content.
Each command is a process of its own, and its CPU is measured from the start of the interpreter on.

Goal: the first row within 1.5 CPU seconds.

Touches: a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, replace
from datetime import UTC
from pathlib import Path
from typing import Any

import orjson

from benchmarks.indexed_table import (
    DEFINITION,
    PROPERTIES,
    WrittenMetadata,
    base_file_template,
    complete,
    write_properties,
)
from benchmarks.measure import machine, measure, write_report
from lakeward.format.metadata.partition import COLUMN_STATS, FILES
from lakeward.format.timeline.commit_metadata import WriteStat
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.metadata.changes import NewFile

DAY = "c02"
"""The column of the partitions; it is of text."""
PARTITIONS = 100
COMMITS = 10
LINKS_MAX = 10_000
"""File systems bound the names of one file."""
INDEXED = ("_hoodie_record_key", "ts", "c00", "c01")
COMMANDS = {
    "--limit 20": ["--limit", "20"],
    "20 rows on a terminal": [],
    "a filter that one partition has": ["--limit", "20", "--where", f"{DAY} = '07'"],
    "a filter that no file has": ["--limit", "20", "--where", "c01 = -1"],
}


def make(base: Path, files: int) -> None:
    changed = {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.metadata.partitions": f"{COLUMN_STATS},{FILES}",
        "hoodie.table.partition.fields": DAY,
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    write_properties(base, PROPERTIES | changed)
    definitions = base / ".hoodie" / ".index_defs" / "index.json"
    definitions.parent.mkdir()
    definition = DEFINITION | {"sourceFields": list(INDEXED)}
    definitions.write_bytes(orjson.dumps({"indexDefinitions": {COLUMN_STATS: definition}}))
    paths = [f"{DAY}={number:02}" for number in range(PARTITIONS)]
    for path in paths:
        (base / path).mkdir()
        (base / path / ".hoodie_partition_metadata").touch()
    template = base_file_template()
    template = replace(template, column_stats=tuple(each for each in template.column_stats if each.column in INDEXED))
    metadata = WrittenMetadata(base / ".hoodie" / "metadata", (FILES, COLUMN_STATS))
    chance, clock = random.Random(1), int(time.time() * 1000) - 3_600_000
    made: list[NewFile] = []

    def now() -> str:
        nonlocal clock
        clock += 1000
        return format_instant_time(clock, UTC)

    for commit in range(COMMITS):
        instant = now()
        of_commit = []
        for number in range(commit, files, COMMITS):
            file_id = f"{chance.getrandbits(128):032x}-0"
            of_commit.append(template.file(paths[number % PARTITIONS], file_id, f"{file_id}_0-1-0_{instant}.parquet"))
        for number, file in enumerate(of_commit):
            if number % LINKS_MAX == 0:
                original = base / ".hoodie" / f"template-{instant}-{number}"
                original.write_bytes(template.content)
            os.link(original, base / file.partition_path / file.name)
        complete(metadata.base, instant, now(), "deltacommit", "deltacommit", {})
        stats: dict[str, list[WriteStat]] = {}
        for file in of_commit:
            stats.setdefault(file.partition_path, []).append(
                WriteStat(
                    file_id=file.file_id,
                    path=f"{file.partition_path}/{file.name}",
                    partition_path=file.partition_path,
                    num_writes=1_000,
                    file_size_in_bytes=file.size,
                )
            )
        complete(base, instant, now(), "commit", "commit", stats, "BULK_INSERT")
        made += of_commit
        if commit == COMMITS // 2 - 1:
            metadata.compact(made, instant=now(), completion_time=now())
        elif commit >= COMMITS // 2:
            metadata.write_logs(of_commit, instant=instant)
    for original in (base / ".hoodie").glob("template-*"):
        original.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_files")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory(prefix="many-files-") as folder:
        table = Path(folder) / "t"
        make(table, given.files)
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(given.runs):
            for name, options in COMMANDS.items():
                command = [sys.executable, "-m", "lakeward.cli.main", "read", str(table), "--explain", *options]
                cost, printed = measure(command)
                lines = printed.splitlines()
                found.setdefault(name, []).append({"last_line": lines[-1], "process": asdict(cost)})
                print(f"{name:34} {cost.cpu_seconds:6.2f} CPU s  {lines[-1]}", flush=True)
    write_report("many-files", before, {"table": vars(given), "commands": found})


if __name__ == "__main__":
    main()
