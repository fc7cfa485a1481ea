"""Tables whose schema has changed, written as a streaming ingest does, and what Hudi's own compaction makes of them.

    python -m tests.hudi.evolved_table FOLDER SCRATCH VERSION

makes tests/golden/evolved and tests/golden/defaulted (1.2.0): `table.tar.xz`, without Hadoop's checksum files, and
`expected.json`, the rows of Hudi's compaction of a copy by key, meta columns but for the file's name included.

    evolved     partition p0 has Avro log blocks, p1 Parquet ones: base file and logs from before the change, then logs
                from after it. Columns were added (null, with a default that is not null, within lists and maps), put
                between others, dropped, and got wider types.
    defaulted   the base file has all columns, and a log block of a writer that did not know some of them lies over it:
                text, bytes, lists and maps have a default in Avro blocks only.
    dropped     base files are without the partition column (`hoodie.datasource.write.drop.partition.columns`), logs are
                with it.

Touches: FOLDER, through another release's process.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.hudi.golden_version_8 import by_default
from tests.hudi.other_release import OtherRelease, OtherTable

AVRO, PARQUET = {"hoodie.logfile.data.block.format": "avro"}, {"hoodie.logfile.data.block.format": "parquet"}
SHAPE = by_default(
    **{
        "hoodie.metadata.enable": "false",
        "hoodie.bloom.index.filter.type": "SIMPLE",
        "hoodie.index.bloom.num_entries": "10",
        "hoodie.parquet.small.file.limit": "0",
    }
)
DROPPING = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}

NOT_IN_FILES = {"hoodie.datasource.write.drop.partition.columns": "true"}

_LONG = {"micros": "timestamp-micros", "millis": "timestamp-millis", "local": "local-timestamp-micros"}
MOMENTS = {name: {"type": "long", "logicalType": logical} for name, logical in _LONG.items()}
DAY = {"type": "int", "logicalType": "date"}

DECIMAL_BYTES = {"type": "bytes", "logicalType": "decimal", "scale": 2}


def _decimal(name: str, size: int, precision: int, scale: int) -> dict[str, Any]:
    fixed = {"type": "fixed", "name": name, "namespace": "hoodie.t.t_record", "size": size}
    return fixed | {"logicalType": "decimal", "precision": precision, "scale": scale}


# A column, its type before and after.
PROMOTED = {
    "int_long": ("int", "long"),
    "int_float": ("int", "float"),
    "int_double": ("int", "double"),
    "int_string": ("int", "string"),
    "long_float": ("long", "float"),
    "long_double": ("long", "double"),
    "long_string": ("long", "string"),
    "float_double": ("float", "double"),
    "string_bytes": ("string", "bytes"),
    "bytes_string": ("bytes", "string"),
    "day_string": (DAY, "string"),
    "wider": (_decimal("w", 5, 10, 2), _decimal("w", 6, 12, 2)),
    "scaled": (_decimal("c", 5, 10, 2), _decimal("c", 6, 12, 3)),
    "in_bytes": (DECIMAL_BYTES | {"precision": 10}, DECIMAL_BYTES | {"precision": 12}),
    "longs": ({"type": "array", "items": ["null", "int"]}, {"type": "array", "items": ["null", "long"]}),
    "doubles": ({"type": "map", "values": "float"}, {"type": "map", "values": "double"}),
}
ENUM = {"type": "enum", "name": "e", "namespace": "hoodie.t.t_record", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "f", "namespace": "hoodie.t.t_record", "size": 2}
KEPT = {"day": DAY, **MOMENTS, "raw": "bytes", "flag": "boolean", "enum": ENUM, "fixed": FIXED}
ADDED = {
    "new_flag": ("boolean", True),
    "new_int": ("int", 7),
    "new_long": ("long", 8),
    "new_float": ("float", 1.5),
    "new_double": ("double", 2.5),
    "new_day": (DAY, 3),
    "new_micros": (MOMENTS["micros"], 5),
}
DEFAULTED = {
    "text": ("string", "hé"),
    "raw": ("bytes", "\u0005"),
    "list": ({"type": "array", "items": "int"}, [3]),
    "map": ({"type": "map", "values": "int"}, {"w": 3}),
    "flag": ("boolean", True),
    "maybe": (["string", "null"], "yes"),
}


def schema(*fields: dict[str, Any]) -> str:
    head = (field("id", "string"), field("part", "string"), field("ts", "long"))
    return json.dumps({"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": [*head, *fields]})


def field(name: str, kind: Any, *default: Any) -> dict[str, Any]:
    return {"name": name, "type": kind} | ({"default": default[0]} if default else {})


def maybe(name: str, kind: Any) -> dict[str, Any]:
    return field(name, ["null", kind], None)


def _struct(name: str, *, is_new: bool) -> dict[str, Any]:
    fields = [maybe("x", "long" if is_new else "int")]
    if is_new:
        fields = [maybe("before", "string"), *fields, field("y", "int", 9)]
    return {"type": "record", "name": name, "namespace": "hoodie.t.t_record", "fields": fields}


def _nested(*, is_new: bool) -> list[dict[str, Any]]:
    return [
        maybe("struct", _struct("s", is_new=is_new)),
        maybe("list", {"type": "array", "items": ["null", _struct("l", is_new=is_new)]}),
        maybe("map", {"type": "map", "values": _struct("m", is_new=is_new)}),
    ]


OLD = schema(
    maybe("gone", "int"),
    *(maybe(name, before) for name, (before, _) in PROMOTED.items()),
    *(maybe(name, kind) for name, kind in KEPT.items()),
    *_nested(is_new=False),
)
NEW = schema(
    maybe("first", "string"),
    *reversed([maybe(name, after) for name, (_, after) in PROMOTED.items()]),
    *(field(name, kind, default) for name, (kind, default) in ADDED.items()),
    *(maybe(name, kind) for name, kind in KEPT.items()),
    *_nested(is_new=True),
)


def _row(key: int, part: str, ts: int, *, is_new: bool = False) -> dict[str, Any]:
    values: dict[str, object] = {"int": key, "long": key * 10_000_000_001, "float": key + 0.1, "double": key + 0.1}
    values |= {"string": f"ü{key}", "bytes": f"b{key}"}
    row: dict[str, Any] = {"id": f"k{key}", "part": part, "ts": ts}
    for name, kinds in PROMOTED.items():
        kind = kinds[is_new]
        others: dict[str, object] = {"longs": [key, 5], "doubles": {"k": key + 0.1}, "day_string": key}
        row[name] = values[kind] if isinstance(kind, str) else others.get(name, key + 0.25)
    inner = {"x": key, "y": 90} if is_new else {"x": key}
    row |= {"day": key, "micros": key, "millis": key, "local": key, "raw": f"r{key}", "flag": key % 2 == 0}
    row |= {"enum": "AB"[key % 2], "fixed": [key, 1]}
    row |= {"struct": inner, "list": [inner, inner], "map": {"k": inner}}
    if key % 4 == 3:  # nulls at every level
        row = {name: value if name in ("id", "part", "ts") else None for name, value in row.items()}
    if not is_new:
        row["gone"] = key
    else:
        row |= {"first": "f", "new_flag": False, "new_day": 1, "new_micros": 1}
        row |= dict.fromkeys(("new_int", "new_long", "new_float", "new_double"), 1)
    return row


NOT_IN_1_0 = frozenset({"local", "bytes_string", "float_double", "doubles"})
"""Columns that 1.0.2 writes as plain numbers, of which its compaction makes `java.nio.HeapByteBuffer[...]`, and whose
floats it widens to the nearest double in some places, where 1.2.0 always uses their digits."""
NOT_INDEXED = frozenset({"day_string", "bytes_string", "string_bytes"})
"""Columns whose statistics 1.2.0 fails to join: "Unable to convert string: class java.time.LocalDate" and the like."""


def write_evolved(table: OtherTable, *, but: Collection[str] = ()) -> None:
    old, new = _without(but, OLD), _without(but, NEW)
    parts = (("p0", 0, AVRO), ("p1", 4, PARQUET))
    _make(table)
    table.write_records(old, [_row(first + n, part, 1) for part, first, _ in parts for n in range(4)], "insert")
    for part, first, log in parts:
        table.write_records(old, [_row(first + n, part, 2) for n in (1, 3)], "upsert", **log)
    for part, first, log in parts:
        table.write_records(new, [_row(first + 2, part, 2, is_new=True)], "upsert", **log, **DROPPING)


def _without(columns: Collection[str], schema_json: str) -> str:
    found = json.loads(schema_json)
    return json.dumps({**found, "fields": [each for each in found["fields"] if each["name"] not in columns]})


def write_defaulted(table: OtherTable) -> None:
    whole = schema(*(field(name, kind, default) for name, (kind, default) in DEFAULTED.items()))
    values = {"text": "t", "raw": "r", "list": [1], "map": {"k": 1}, "flag": False, "maybe": "m"}
    rows = [{"id": f"k{n}", "part": "p0", "ts": 1, **values} for n in range(3)]
    _make(table)
    table.write_records(whole, rows, "insert")
    table.write_records(schema(), [{"id": "k1", "part": "p0", "ts": 2}], "upsert", **AVRO, **DROPPING)
    table.write_records(whole, [rows[2] | {"ts": 2, "text": "u"}], "upsert", **AVRO)


def write_dropped(table: OtherTable) -> None:
    """Base files without the column, logs of both kinds with it: so do Hudi's writers."""
    columns = "concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, cast(id + {ts} AS int) AS v"
    rows = f"SELECT {columns} FROM range({{ids}})"
    for ids, ts, operation, log in (
        ("0, 8", 1, "insert", AVRO),
        ("0, 3", 2, "upsert", AVRO),
        ("3, 5", 2, "upsert", PARQUET),
    ):
        table.write(rows.format(ids=ids, ts=ts), operation, **NOT_IN_FILES, **log)
    table.write(rows.format(ids="5, 6", ts=3), "delete", **NOT_IN_FILES)


def _make(table: OtherTable) -> None:
    """The client makes no table. What Spark wrote for it is deleted again, by a file group's partition."""
    table.write("SELECT 'k' AS id, 'gone' AS part, 1L AS ts", "insert")
    table.write("SELECT 'k' AS id, 'gone' AS part, 1L AS ts", "delete_partition")


WRITERS = {"evolved": write_evolved, "defaulted": write_defaulted, "dropped": write_dropped}


def compacted_rows(path: Path, instant: str) -> list[dict[str, Any]]:
    """The rows of the base files of a compaction, by key."""
    files = sorted(path.glob(f"p*/*_{instant}.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON can have them, without the file's name."""
    text: str = json.dumps([{k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in rows], default=str)
    found: list[dict[str, Any]] = json.loads(text)
    return found


def main(folder: Path, scratch: Path, version: str) -> None:
    with OtherRelease(version, scratch) as release:
        for name, write in WRITERS.items():
            table = release.table(scratch / name, SHAPE)
            write(table)
            shutil.copytree(table.path, scratch / f"{name}_twin")
            instant = table.at(scratch / f"{name}_twin").compaction("op => 'scheduleAndExecute'")
            expected = comparable(compacted_rows(scratch / f"{name}_twin", instant))
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
            with tarfile.open(folder / name / "table.tar.xz", "w:xz") as archive:
                archive.add(table.path, ".", filter=lambda entry: None if entry.name.endswith(".crc") else entry)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
