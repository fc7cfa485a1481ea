"""Makes tests/golden/v6_oldest: a table of version 6 by Hudi 0.15.0, with writes that failed, a plan to compact it, and
a write after that plan.

    python -m tests.hudi.golden_version_6 FOLDER SCRATCH

`table.tar.xz` in FOLDER is the table, without Hadoop's checksum files; `expected.json` has the plan's instant and the
rows of 0.15.0's snapshot query, without the name of their file. And how tables of version 6 are written at all.

Touches: FOLDER, through another release's process.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

from tests.hudi.golden_version_8 import by_default
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import OLDEST_VERSION_OF_6

SMALL = {
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "10",
}
BY_COMMANDS = {"hoodie.rollback.using.markers": "false"}
"""A write that only seems to have died has no markers any more; so what it left is looked for in the logs."""

SHAPE = by_default(**SMALL)
PAYLOAD = "hoodie.datasource.write.payload.class"
BY_EVENT_TIME = by_default(**SMALL, **{PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload"})
BY_COMMIT_TIME = by_default(**SMALL, **{"hoodie.datasource.write.precombine.field": ""})
SHAPES = {"latest": SHAPE, "by event time": BY_EVENT_TIME, "by commit time": BY_COMMIT_TIME}


def rows_of(first: int, last: int, ts: int, value: str) -> str:
    return (
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, '{value}' AS v "
        f"FROM range({first}, {last})"
    )


def writes(table: OtherTable) -> None:
    """Inserts, updates, deletes, and two writes that died before they completed: the one was taken back by a command in
    the logs, of the other only the timeline says that its blocks do not count."""
    table.write(rows_of(0, 12, 10, "a"), "insert")
    table.write(rows_of(2, 9, 11, "b"), "upsert")
    table.write(rows_of(3, 6, 12, "lost"), "upsert")
    interrupt(table)
    table.write(rows_of(4, 8, 13, "c"), "upsert", **BY_COMMANDS)
    table.write(rows_of(5, 10, 13, "lost, too"), "upsert")
    interrupt(table)
    table.write(rows_of(0, 2, 14, "x"), "delete")


def interrupt(table: OtherTable) -> str:
    """The newest write is as if its writer had died just before it completed. Returns its instant."""
    newest = max(completed(table.path, "deltacommit"))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    return newest.name.partition(".")[0]


def completed(path: Path, action: str) -> list[Path]:
    return list((path / ".hoodie").glob(f"2*.{action}"))


def main(folder: Path, scratch: Path) -> None:
    with OtherRelease(OLDEST_VERSION_OF_6, scratch) as release:
        table = release.table(scratch / "table", SHAPE)
        writes(table)
        instant = table.compaction("op => 'schedule'")
        table.write(rows_of(6, 11, 15, "d"), "upsert")
        rows = [json.loads(row) for row in table.snapshot(with_meta=True)]
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / "table.tar.xz", "w:xz") as archive:
        archive.add(table.path, ".", filter=lambda entry: None if entry.name.endswith(".crc") else entry)
    expected = {"instant": instant, "rows": sorted(rows, key=lambda row: str(row["_hoodie_record_key"]))}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
