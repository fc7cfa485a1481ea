"""A run of logs, folded to the records that win their keys."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeMode, MergeRules
from lakeward.read.logs.log_run import LogMerge, LogRun, SliceLogs
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.local import LocalStorage
from tests.read.log_files import TABLE_SCHEMA, data_block, delete_block, row

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))


def make(folder: Path, *logs: bytes, names: tuple[str, ...] = (), **more: Any) -> LogRun:
    paths = list(names)
    for number, data in enumerate(logs):
        paths.append(f".fg_{100 * number + 100}.log.1_0-0-0")
        (folder / paths[-1]).write_bytes(data)
    given = {"instant": "999", "rules": EVENT, "schema": table_schema(json.dumps(TABLE_SCHEMA))} | more

    def of(kind: type) -> Any:
        return kind(**{each.name: given.pop(each.name) for each in fields(kind) if each.name in given})

    given |= {"base_path": str(folder), "files": paths}
    return LogRun(LocalStorage(), of(SliceLogs), of(LogMerge), **given)


def winners(run: LogRun) -> tuple[list[tuple[str, int, str]], list[tuple[str, int | None]]]:
    with closing(run):
        run.read()
        rows: list[tuple[str, int, str]] = []
        deletes: list[tuple[str, int | None]] = []
        for part in run.folded():
            if isinstance(part, pa.RecordBatch):
                rows += [(one["id"], one["ts"], one["_hoodie_commit_time"]) for one in part.to_pylist()]
                continue
            values = [None] * len(part.keys) if part.ordering is None else part.ordering.to_pylist()
            deletes += zip(part.keys.to_pylist(), values, strict=True)
    return rows, deletes


def test_winners_of_rows_and_deletes(tmp_path: Path):
    """Each key comes once, with the winner's commit time, or as a delete with its ordering value."""
    run = make(
        tmp_path,
        data_block("100", [row("a", 5, ""), row("b", 5, ""), row("c", 9, ""), row("d", 1, "")]),
        delete_block("200", [("a", 7), ("c", 8), ("d", None), ("e", 3)]),
        data_block("300", [row("b", 6, ""), row("a", 6, ""), row("f", 1, "")]),
    )
    assert winners(run) == (
        [("b", 6, "300"), ("c", 9, "100"), ("f", 1, "300")],
        [("a", 7), ("d", None), ("e", 3)],
    )


def test_a_log_of_another_partition_is_not_merged(tmp_path: Path):
    """Rows say which partition they are in; a slash before or behind it is nothing to Hudi, and null says nothing."""
    (tmp_path / "p").mkdir()
    name = "p/.fg_100.log.1_0-0-0"
    here = [row(key, 1, "") | {"_hoodie_partition_path": path} for key, path in (("a", "p"), ("b", "/p/"), ("c", None))]
    (tmp_path / name).write_bytes(data_block("100", here))
    assert len(winners(make(tmp_path, names=(name,)))[0]) == 3

    (tmp_path / name).write_bytes(data_block("100", [*here, row("d", 1, "") | {"_hoodie_partition_path": "q"}]))
    few = pa.schema([each for each in table_schema(json.dumps(TABLE_SCHEMA)) if each.name in (RECORD_KEY_FIELD, "ts")])
    for query in ({}, {"schema": few, "query": SliceQuery(few.names)}):  # also where nobody asks for the partition
        with pytest.raises(BrokenFile, match=r"byte 0 does not belong here.*partition 'q'.*in 'p'"):
            winners(make(tmp_path, names=(name,), **query))


def test_the_instants_that_an_output_stands_for(tmp_path: Path):
    """The instants whose blocks count are named, oldest first: an earlier output in place of its sources, not both."""
    compacted = {"COMPACTED_BLOCK_TIMES": "100,200"}
    logs = [
        data_block("100", [row("a", 1, "")]),
        data_block("200", [row("a", 2, "")]),
        data_block("300", [row("a", 3, "")]),
        data_block("400", [row("a", 2, "")], **compacted) + delete_block("400", [("b", 1)], **compacted),
    ]
    assert make(tmp_path, *logs).instants == ("400", "300")
    assert make(tmp_path, *logs[:3]).instants == ("100", "200", "300")


def test_the_type_of_the_newest_data_block(tmp_path: Path):
    """Deletes have none of their own."""
    assert make(tmp_path, delete_block("100", [("a", 1)])).newest_data_type is None
    run = make(tmp_path, data_block("100", [row("a", 1, "")]), delete_block("200", [("a", 1)]))
    assert run.newest_data_type is BlockType.AVRO_DATA


def test_a_log_that_is_not_in_the_slice_yet(tmp_path: Path):
    """It is read by its path, as if it were the newest log: here it takes the place of the two before it."""
    folder = tmp_path / "attempt"
    folder.mkdir()
    output = folder / ".fg_300.log.1_0-0-0"
    output.write_bytes(data_block("300", [row("a", 7, "")], COMPACTED_BLOCK_TIMES="100,200"))
    logs = (data_block("100", [row("a", 1, "")]), data_block("200", [row("a", 2, "")]))
    run = make(tmp_path, *logs, unpublished=(str(output),))
    assert run.instants == ("300",)
    assert winners(run) == ([("a", 7, "300")], [])


def test_names_are_not_trusted(tmp_path: Path):
    """A log outside of the table is never opened."""
    with pytest.raises(UntrustedName):
        make(tmp_path, names=("../.fg_100.log.1_0-0-0",))


def test_reading_again_reads_nothing(tmp_path: Path):
    """A caller that needs the number of keys first may read before the rows are asked for."""
    run = make(tmp_path, data_block("100", [row("a", 1, "")]))
    run.read()
    assert winners(run) == ([("a", 1, "100")], [])
    assert run.records.records == 1
