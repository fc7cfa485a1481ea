"""Clean plans are written as Hudi writes them, and no name in one leads anywhere but into its partition."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.timeline.clean_plan import (
    _SCHEMA,
    CleanPlan,
    Retained,
    read_clean_plan,
    read_extra_metadata,
    write_clean_plan,
)

ROOT = "file:/data/t/.hoodie/metadata"
PLAN = CleanPlan(
    earliest_retained=Retained("20260101000000000", "deltacommit", "COMPLETED"),
    last_completed="20260101000010000",
    files={"files": ("files-0000-0_0-1-2_20260101000000000.hfile", ".files-0000-0_20260101000000000.log.1_0-1-2")},
    extra_metadata={"by": "us"},
)


def test_what_is_written_is_what_is_read():
    """Plans have an earliest instant or none, and files in a partition or at the root."""
    for plan in (
        PLAN,
        CleanPlan(None, "", {"": ("a",)}, policy="KEEP_LATEST_FILE_VERSIONS", partitions_deleted=("p",)),
    ):
        data = write_clean_plan(plan, root=ROOT)
        assert read_clean_plan(data, root=ROOT, file="f") == plan
        assert read_extra_metadata(data, file="f") == plan.extra_metadata


def test_files_are_named_by_whole_paths():
    """Hudi 1.2 names them so, and its cleaner deletes by these paths."""
    record = read_record(write_clean_plan(PLAN, root=ROOT), file="f")
    (first, _) = record["filePathsToBeDeletedPerPartition"]["files"]
    assert first == {"filePath": f"{ROOT}/files/{PLAN.files['files'][0]}", "isBootstrapBaseFile": False}
    assert (record["version"], record["filesToBeDeletedPerPartition"]) == (2, {})


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        f"{ROOT}/files/../../x",
        f"{ROOT}/files/sub/x",
        f"{ROOT}/files/",
        f"{ROOT}/files/..",
        f"{ROOT}/column_stats/x",
        "file:/data/other/files/x",
    ],
)
def test_a_path_elsewhere_is_refused(path: str):
    """These names are deleted."""
    with pytest.raises(UntrustedName, match="is not trusted"):
        read_clean_plan(with_files({"files": [{"filePath": path, "isBootstrapBaseFile": False}]}), root=ROOT, file="f")


def test_a_partition_elsewhere_is_refused():
    """It is refused even where its files seem to lie in it."""
    files = {"../x": [{"filePath": f"{ROOT}/../x/a", "isBootstrapBaseFile": False}]}
    with pytest.raises(UntrustedName):
        read_clean_plan(with_files(files), root=ROOT, file="f")


def test_an_older_version_is_refused_by_name():
    """Its files are in another field."""
    record = read_record(write_clean_plan(PLAN, root=ROOT), file="f") | {"version": 1}
    with pytest.raises(BrokenFile, match="version"):
        read_clean_plan(write_record(_SCHEMA, record), root=ROOT, file="f")


def with_files(files: dict[str, Any]) -> bytes:
    record = read_record(write_clean_plan(PLAN, root=ROOT), file="f")
    return write_record(_SCHEMA, record | {"filePathsToBeDeletedPerPartition": files})
