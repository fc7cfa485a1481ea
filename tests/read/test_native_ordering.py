"""Ordering values of every type in native logs: they decide as those of inline logs do."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.format.avro.schema import table_schema
from lakeward.format.file_name import LogFileName, NativeLogKind
from lakeward.format.log.block import BlockType
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.delete_file import NativeDeleteWriter
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.parquet.base_file import SORTED_BY_KEY
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeMode, MergeRules
from lakeward.read.file_slice import open_slice
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage
from tests.format.log.native_log.native_files import FILE_ID
from tests.format.log.native_log.native_files import native_name as name_of

UTC = datetime.UTC
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "int": ("int", [-1, 0, 1, 2]),
    "long": ("long", [-1, 0, 1, 2]),
    "float": ("float", [-1.5, 0.0, 1.5, 2.5]),
    "double": ("double", [-1.5, 0.0, 1.5, 2.5]),
    "boolean": ("boolean", [False, True]),
    "string": ("string", ["", "B", "a", "ü"]),
    "date": ({"type": "int", "logicalType": "date"}, [datetime.date(1969, 1, 1), datetime.date(2026, 11, 23)]),
    "timestamp-micros": (
        {"type": "long", "logicalType": "timestamp-micros"},
        [datetime.datetime(2026, 11, 23, second=second, tzinfo=UTC) for second in (1, 2, 3)],
    ),
    "timestamp-millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        [datetime.datetime(2026, 11, 23, second=second, tzinfo=UTC) for second in (1, 2, 3)],
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")],
    ),
}


Value = tuple[Any, ...]


class Table:
    """Rows of a key, ordering fields of these types, and `at`, which says where a row came from."""

    def __init__(self, kinds: list[str]) -> None:
        self.fields = [f"o{number}" for number in range(len(kinds))]
        text = [{"name": name, "type": ["null", "string"], "default": None} for name in ("id", "at")]
        ordering = [
            {"name": field, "type": ["null", KINDS[kind][0]], "default": None}
            for field, kind in zip(self.fields, kinds, strict=True)
        ]
        self.schema_json = json.dumps({"type": "record", "name": "t_record", "fields": [*text, *ordering]})
        self.schema = table_schema(self.schema_json)
        self.block_schema = log_block_schema(self.schema_json)

    def rows(self, instant: str, values: dict[str, Value]) -> pa.RecordBatch:
        meta = {"_hoodie_commit_time": instant, "_hoodie_partition_path": "p", "_hoodie_file_name": FILE_ID}
        found = [
            {**meta, RECORD_KEY_FIELD: key, "id": key, "at": instant, **dict(zip(self.fields, value, strict=True))}
            for key, value in sorted(values.items())
        ]
        return pa.RecordBatch.from_pylist(found, self.schema)

    def deletes(self, values: dict[str, Value | None]) -> tuple[pa.Array, pa.Array]:
        keys = sorted(values)
        parts = [
            pa.array([None if (value := values[key]) is None else value[number] for key in keys], kind)
            for number, kind in enumerate(self.schema.field(field).type for field in self.fields)
        ]
        return pa.array(keys, pa.string()), parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(
            parts, self.fields
        )

    def inline(self, deletes: dict[str, Value | None], later: dict[str, Value]) -> dict[str, bytes]:
        files = {}
        for instant in ("200", "300"):
            sink = io.BytesIO()
            writer = LogFileWriter(
                sink, self.schema, instant=instant, schema_json=self.block_schema, block_type=BlockType.AVRO_DATA
            )
            if instant == "200":
                writer.write_deletes(*self.deletes(deletes), partition_path="p")
            else:
                writer.write(self.rows(instant, later))
            writer.close()
            files[LogFileName(FILE_ID, instant, 1, "0-15-11").text] = sink.getvalue()
        return files

    def native(self, deletes: dict[str, Value | None], later: dict[str, Value]) -> dict[str, bytes]:
        gone, came = io.BytesIO(), io.BytesIO()
        footer = NativeLogFooter("200", self.block_schema)
        with NativeDeleteWriter(gone, footer=footer, ordering_fields=self.fields) as of_deletes:
            of_deletes.write(*self.deletes(deletes))
            of_deletes.close()
        footer = NativeLogFooter("300", self.block_schema)
        with NativeDataWriter(came, self.schema, file_id=FILE_ID, footer=footer) as of_rows:
            of_rows.write(self.rows("300", later))
            of_rows.close()
        return {
            name_of(NativeLogKind.DELETES, instant="200").text: gone.getvalue(),
            name_of(instant="300").text: came.getvalue(),
        }

    def merged(self, folder: Path, base: dict[str, Value], logs: dict[str, bytes]) -> dict[str, str]:
        """From where the row of each key is."""
        (folder / "p").mkdir(parents=True)
        base_file = f"p/{FILE_ID}_0-0-0_100.parquet"
        table = pa.Table.from_batches([self.rows("100", base)])
        pq.write_table(table.replace_schema_metadata({SORTED_BY_KEY: RECORD_KEY_FIELD}), folder / base_file)
        for name, data in logs.items():
            (folder / "p" / name).write_bytes(data)
        given = SliceInput(
            partition_path="p",
            file_id=FILE_ID,
            base_file=base_file,
            log_files=tuple(f"p/{name}" for name in logs),
            base_path=str(folder),
            instant="999",
            schema=self.schema_json,
            rules=MergeRules(MergeMode.EVENT_TIME_ORDERING, tuple(self.fields)),
        )
        with open_slice(LocalStorage(), given) as merged:
            return {row["id"]: row["at"] for batch in merged.batches() for row in batch.to_pylist()}


@pytest.mark.parametrize("kinds", [*([kind] for kind in KINDS), ["long", "string"], ["date", "decimal"]], ids=" ".join)
def test_values_decide_as_in_inline_logs(tmp_path: Path, kinds: list[str]) -> None:
    """Every value in a base row meets every value in a delete, and a delete without one, and for half of the keys a row
    comes behind."""
    table = Table(kinds)
    values: list[Value] = list(product(*(KINDS[kind][1] for kind in kinds)))
    of_deletes = [*values, *([None] if len(kinds) == 1 else [])]  # with several fields each delete has its values
    base: dict[str, Value] = {}
    deletes: dict[str, Value | None] = {}
    for number, (value, deleted, half) in enumerate(product(values, of_deletes, "ab")):
        base[f"{half}{number}"], deletes[f"{half}{number}"] = value, deleted
    later = {key: values[len(values) // 2] for key in base if key.startswith("b")}
    found = table.merged(tmp_path / "native", base, table.native(deletes, later))
    assert found == table.merged(tmp_path / "inline", base, table.inline(deletes, later))
    assert 0 < len(found) < len(base) and set(found.values()) == {"100", "300"}
