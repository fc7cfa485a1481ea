"""The files of the archived timeline: names, manifests as Hudi prints them, and rows."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.timeline import history_file
from lakeward.format.timeline.history import (
    HistoryFile,
    HistoryRow,
    dump_manifest,
    parse_history_file,
    parse_manifest,
    parse_manifest_name,
    plan_file,
)
from lakeward.format.timeline.history_file import decode_rows, encode_rows
from lakeward.format.timeline.instant import Instant, parse_instant

A, B = "20261122212246448", "20261122212324161"
FILES = {HistoryFile(A, B, 1): 7582, HistoryFile(B, B, 0): 2908}
PRINTED_BY_HUDI = b"""{
  "files" : [ {
    "fileName" : "20261122212246448_20261122212324161_1.parquet",
    "fileLen" : 7582
  }, {
    "fileName" : "20261122212324161_20261122212324161_0.parquet",
    "fileLen" : 2908
  } ]
}"""
ROWS = [
    HistoryRow(A, B, "deltacommit", b"\x00json" * 1000, None),
    HistoryRow(B, None, "clean", None, b"plan"),
]


def decoded(content: bytes) -> list[HistoryRow]:
    return list(decode_rows(io.BytesIO(content), path="f"))


def test_names() -> None:
    """A level is one digit, and a name is given back."""
    file = parse_history_file(f"{A}_{B}_3.parquet")
    assert file == HistoryFile(A, B, 3) and file.name == f"{A}_{B}_3.parquet"
    for name in (f"{A}_{B}_10.parquet", f"{A}_0.parquet", f".{A}_{B}_0.parquet.crc", f"../{A}_{B}_0.parquet"):
        assert parse_history_file(name) is None
    assert parse_manifest_name("manifest_12") == 12
    assert parse_manifest_name(".manifest_12.crc") is None


def test_manifests_are_printed_as_hudi_does() -> None:
    """Byte for byte."""
    assert dump_manifest(FILES) == PRINTED_BY_HUDI
    assert parse_manifest(PRINTED_BY_HUDI, path="m") == FILES
    assert parse_manifest(dump_manifest({}), path="m") == parse_manifest(b"", path="m") == {}
    with pytest.raises(BrokenFile, match="no history file"):
        parse_manifest(PRINTED_BY_HUDI.replace(b"_1.parquet", b"_1.txt"), path="m")


@pytest.mark.parametrize("bytes_a_group", [1, 10_000_000])
def test_rows_come_back(bytes_a_group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, over row groups, with the footer that Hudi's reader asks for."""
    monkeypatch.setattr(history_file, "_ROW_GROUP_BYTES", bytes_a_group)
    content = encode_rows(ROWS)
    assert decoded(content) == ROWS
    file = pq.ParquetFile(io.BytesIO(content))
    assert file.metadata.num_row_groups == (2 if bytes_a_group == 1 else 1)
    assert b'"name":"HoodieLSMTimelineInstant"' in file.metadata.metadata[b"parquet.avro.schema"]
    assert len(content) < 3000


def test_rows_that_are_not_known() -> None:
    """Another version, another column, and no Parquet."""
    table = pq.read_table(io.BytesIO(encode_rows(ROWS)))

    def changed(index: int, name: str, column: Any) -> bytes:
        sink = io.BytesIO()
        pq.write_table(table.set_column(index, name, column), sink)
        return sink.getvalue()

    with pytest.raises(Unsupported, match="version 2"):
        decoded(changed(5, "version", pa.array([1, 2], pa.int32())))
    with pytest.raises(Unsupported, match="columns"):
        decoded(changed(5, "revision", pa.array([1, 1], pa.int32())))
    with pytest.raises(BrokenFile):
        decoded(b"no parquet")


@pytest.mark.parametrize(
    ("names", "planned"),
    [
        (["1.deltacommit.requested", "1.deltacommit.inflight", "1_2.deltacommit"], []),
        (["1.compaction.requested", "1.compaction.inflight", "1_2.commit"], ["1.compaction.requested"]),
        (["1.logcompaction.requested", "1.logcompaction.inflight", "1_2.deltacommit"], ["1.logcompaction.requested"]),
        (["1.clean.requested", "1.clean.inflight", "1_2.clean"], ["1.clean.requested"]),
        (
            ["1.replacecommit.requested", "1.replacecommit.inflight", "1_2.replacecommit"],
            ["1.replacecommit.inflight", "1.replacecommit.requested"],
        ),
        (
            ["1.clustering.requested", "1.clustering.inflight", "1_2.replacecommit"],
            ["1.clustering.inflight", "1.clustering.requested"],
        ),
        (["1.rollback.requested", "1.rollback.inflight", "1_2.rollback"], []),
        (["1_2.clean"], []),
    ],
)
def test_where_a_plan_is(names: list[str], planned: list[str]) -> None:
    """Hudi's rule by pending action."""
    states: list[Instant] = [each for name in names if (each := parse_instant(name, 2)) is not None]
    assert [each.file_name for each in plan_file(states)] == planned
