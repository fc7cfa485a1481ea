"""Run in a process of its own, since a process has one Hudi: HBase's reader and writer of HFiles, by Hudi 1.0.2.

    python -m tests.hudi.hbase_hfiles FOLDER SCRATCH

Reads FOLDER/own/*.hfile and leaves beside each what a scan found (.scanned) and what it answered for each key of the
file's .keys (.answers). Writes each FOLDER/hudis/*.entries as an .hfile; the name says how: NAME,block bytes,codec,
index bytes,checksum. Writes FOLDER/table, and what HBase finds in each HFile of its metadata table as
FOLDER/metadata/N.scanned.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.hudi.hfile_java import hfiles_below, java_hfiles
from tests.hudi.metadata_table import write_table_with_metadata
from tests.hudi.spark import HudiMissing, start_spark

HBASE_VERSION = "1.0.2"
"""The newest release whose files are HBase's unless it is asked otherwise."""

MISSING = 3
"""Exit code: the bundle cannot be had."""


def main(folder: Path, scratch: Path) -> None:
    try:
        spark = start_spark(scratch=scratch, version=HBASE_VERSION)
    except HudiMissing as missing:
        print(missing, file=sys.stderr)
        sys.exit(MISSING)
    java = java_hfiles(spark, "HBaseHFiles")
    for own in sorted((folder / "own").glob("*.hfile")):
        java.scan(str(own), str(own.with_suffix(".scanned")))
        java.seek(str(own), str(own.with_suffix(".keys")), str(own.with_suffix(".answers")))
    for entries in sorted((folder / "hudis").glob("*.entries")):
        _, block_bytes, codec, index_bytes, checksum = entries.stem.split(",")
        hfile = str(entries.with_suffix(".hfile"))
        java.write(str(entries), hfile, int(block_bytes), codec, int(index_bytes), checksum)
    metadata = write_table_with_metadata(spark, folder / "table")
    found = folder / "metadata"
    found.mkdir()
    for number, place in enumerate(hfiles_below(metadata)):
        alone = found / f"{number}.hfile"
        alone.write_bytes(place.read())
        java.scan(str(alone), str(found / f"{number}.scanned"))
    spark.stop()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
