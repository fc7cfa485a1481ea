"""Savepoints are written as Hudi writes them, and no name in one leads anywhere but into its partition."""

from __future__ import annotations

import pytest

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.timeline.savepoint_metadata import (
    _SCHEMA,
    SavepointMetadata,
    read_savepoint_metadata,
    write_savepoint_metadata,
)

SAVEPOINT = SavepointMetadata("ann", "before the load", {"p=1": ("a.parquet", ".a.log.1_0-1-2"), "": ("b",)}, 17)


def test_what_is_written_is_what_is_read():
    """Keeps 1: files in a partition, or at the root of a table without any."""
    assert read_savepoint_metadata(write_savepoint_metadata(SAVEPOINT), file="f") == SAVEPOINT


def test_the_record_is_hudis():
    """Keeps 3: each partition says its path a second time."""
    assert read_record(write_savepoint_metadata(SAVEPOINT), file="f") == {
        "savepointedBy": "ann",
        "savepointedAt": 17,
        "comments": "before the load",
        "partitionMetadata": {
            "p=1": {"partitionPath": "p=1", "savepointDataFile": ["a.parquet", ".a.log.1_0-1-2"]},
            "": {"partitionPath": "", "savepointDataFile": ["b"]},
        },
        "version": 1,
    }


@pytest.mark.parametrize(("path", "name"), [("../p", "a"), ("p", "../a"), ("p", ""), ("p", "x/a")])
def test_a_name_elsewhere_is_refused(path: str, name: str):
    """Keeps 2: a cleaner compares by these names."""
    record = read_record(write_savepoint_metadata(SAVEPOINT), file="f")
    record["partitionMetadata"] = {path: {"partitionPath": path, "savepointDataFile": [name]}}
    with pytest.raises(UntrustedName):
        read_savepoint_metadata(write_record(_SCHEMA, record), file="f")


def test_a_torn_file_is_broken():
    """It is never a savepoint that keeps nothing."""
    for data in (b"", write_savepoint_metadata(SAVEPOINT)[:-5]):
        with pytest.raises(BrokenFile):
            read_savepoint_metadata(data, file="f")
