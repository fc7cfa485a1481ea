"""Makes tests/golden/v8: a table by Hudi 1.0.2, with every index of its metadata table, and a plan to compact it.

    python -m tests.hudi.golden_version_8 FOLDER SCRATCH

`table.tar.xz` in FOLDER is the table, without Hadoop's checksum files; `expected.json` has the value of each key, and
what Hudi's own compaction by that plan wrote into the metadata table, by partition, formatted by `comparable_records`.
And how tables of version 8 are written at all.

Touches: FOLDER, through another release's process.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

from tests.hudi.metadata_table import COLUMNS, INDEXES, MADE_BY_COMPACTIONS, comparable_records
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import OLDEST_VERSION_OF_8
from tests.hudi.table import TableShape

_OWN = ("hoodie.table.name", "hoodie.compact.inline", "hoodie.datasource.write.")


def by_default(**options: str) -> TableShape:
    """A table whose writer sets nothing but what a table is, and leaves compaction to others."""
    named = TableShape(partition_fields="part")
    unset = {name: "" for name in named.write_options() if not name.startswith(_OWN) and "parallelism" not in name}
    return replace(named, options={**unset, "hoodie.datasource.write.precombine.field": "ts", **options})


INDEXED = by_default(**INDEXES, **{"hoodie.index.bloom.num_entries": "100"})


def first_writes(table: OtherTable, *, by_commit_time: bool = False) -> dict[str, str]:
    """Inserts, updates, late ones, deletes, and updates with inserts. Returns the value that each key then has."""
    for first, last, ts, value in ((0, 40, 10, "a"), (10, 30, 11, "b"), (12, 20, 9, "late")):
        table.write(rows_of(first, last, ts, value), "upsert")
    table.write(rows_of(0, 4, 12, "x"), "delete")
    table.write(rows_of(38, 44, 12, "c"), "upsert")
    expected = {f"k{key}": "a" if key < 10 or key >= 30 else "b" for key in range(4, 38)}
    expected |= {f"k{key}": "late" for key in range(12, 20) if by_commit_time}
    return expected | {f"k{key}": "c" for key in range(38, 44)}


def rows_of(first: int, last: int, ts: int, value: str) -> str:
    return (
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, '{value}' AS v, {COLUMNS} "
        f"FROM range({first}, {last})"
    )


def main(folder: Path, scratch: Path) -> None:
    with OtherRelease(OLDEST_VERSION_OF_8, scratch) as release:
        table = release.table(scratch / "table", INDEXED)
        values = first_writes(table)
        instant = table.compaction("op => 'schedule'")
        shutil.copytree(table.path, scratch / "twin")
        table.at(scratch / "twin").compaction(f"op => 'run', timestamp => {instant}")
    with tarfile.open(folder / "table.tar.xz", "w:xz") as archive:
        archive.add(table.path, ".", filter=lambda entry: None if entry.name.endswith(".crc") else entry)
    records = {part: comparable_records(scratch / "twin", instant, part) for part in sorted(MADE_BY_COMPACTIONS)}
    expected = {"instant": instant, "values": values, "records": records}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
