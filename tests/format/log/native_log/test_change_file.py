"""Native logs of changes, in each mode."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.file_name import NativeLogKind
from lakeward.format.log.change_log import ChangeLogWriter, read_changes
from lakeward.format.log.native_log.change_file import NativeChangeWriter, read_native_changes
from lakeward.format.supplemental_logging import SupplementalLogging
from tests import native_log_judge as judge
from tests.format.log.native_log.native_files import native_name
from tests.format.log.test_change_log import CHANGES, INSTANTS, SCHEMA_JSON, changed

NAME = native_name(NativeLogKind.CHANGES)


def write(mode: SupplementalLogging) -> bytes:
    sink = io.BytesIO()
    writer = NativeChangeWriter(sink, mode=mode, instant=INSTANTS[mode], table_schema_json=SCHEMA_JSON)
    for each in CHANGES:
        writer.write(changed(*each))
    stats = writer.close()
    assert (stats.rows, stats.size_bytes) == (len(CHANGES), len(sink.getvalue()))
    return sink.getvalue()


def read(data: bytes, mode: SupplementalLogging) -> list[dict[str, Any]]:
    batches = read_native_changes(
        io.BytesIO(data), len(data), NAME, mode=mode, table_schema_json=SCHEMA_JSON, where="p/x.cdc.parquet"
    )
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("mode", SupplementalLogging)
def test_changes_are_those_of_an_inline_log(mode: SupplementalLogging) -> None:
    """The same records in the same order. Keeps 1 of format/log/native_log/change_file."""
    sink = io.BytesIO()
    inline = ChangeLogWriter(sink, mode=mode, instant=INSTANTS[mode], table_schema_json=SCHEMA_JSON, block_bytes=10**6)
    for each in CHANGES:
        inline.write(changed(*each))
    inline.close()
    due = [row for batch in read_changes(sink, len(sink.getvalue()), name="x") for row in batch.to_pylist()]

    data = write(mode)
    assert read(data, mode) == judge.rows(data) == due
    assert judge.footer(data) == {} == dict(pq.read_metadata(io.BytesIO(data)).metadata or {})


def test_a_file_of_another_mode_is_refused() -> None:
    """Columns that are not there would be changes from nothing."""
    with pytest.raises(BrokenFile, match="has no column record_key"):
        read(write(SupplementalLogging.DATA_BEFORE_AFTER), SupplementalLogging.DATA_BEFORE)
    with pytest.raises(BrokenFile, match="has no column ts_ms and none before and none after"):
        read(write(SupplementalLogging.OP_KEY_ONLY), SupplementalLogging.DATA_BEFORE_AFTER)


def test_another_format_is_refused_by_its_name() -> None:
    """Nothing of the file is read."""
    found = read_native_changes(
        io.BytesIO(),
        0,
        native_name(NativeLogKind.CHANGES, format="lance"),
        mode=SupplementalLogging.DATA_BEFORE,
        table_schema_json=SCHEMA_JSON,
        where="x",
    )
    with pytest.raises(Unsupported, match="of the format lance"):
        list(found)
