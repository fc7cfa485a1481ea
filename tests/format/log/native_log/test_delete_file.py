"""Native logs of deletes: written, read as the deletes of a block, and in the rows of Hudi's first source."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.file_name import NativeLogKind
from lakeward.format.hfile.writer import HFileWriter
from lakeward.format.log.delete_block import DeletedKeys
from lakeward.format.log.log_writer import log_block_schema
from lakeward.format.log.native_log.delete_file import read_native_deletes
from lakeward.format.log.native_log.footer import NativeLogFooter, encode_footer
from lakeward.format.log.native_log.native_log_file import open_native_log
from lakeward.merge.rules.ordering_type import ordering_wrappers
from tests import native_log_judge as judge
from tests.format.log.native_log.native_files import FOOTER, INSTANT, TABLE, delete_file, native_name

TS = pa.schema([("ts", pa.int64())])
N = pa.schema([("n", pa.int32())])
BOTH = pa.schema([("ts", pa.int64()), ("n", pa.int32())])
NOTHING = pa.schema([])


def read(data: bytes, ordering: pa.Schema, **more: Any) -> list[DeletedKeys]:
    name = native_name(NativeLogKind.DELETES, **more)
    log = open_native_log(io.BytesIO(data), len(data), name, where="p/x.deletes.parquet")
    return list(read_native_deletes(io.BytesIO(data), log, ordering))


def values(found: DeletedKeys) -> list[tuple[str, Any, bool]]:
    ordering = [None] * len(found.keys) if found.ordering is None else found.ordering.to_pylist()
    return list(zip(found.keys.to_pylist(), ordering, found.is_default.tolist(), strict=True))


def structs(*pairs: tuple[int | None, int | None] | None) -> pa.Array:
    rows = [None if pair is None else {"ts": pair[0], "n": pair[1]} for pair in pairs]
    return pa.array(rows, pa.struct(list(BOTH)))


def parquet(columns: dict[str, pa.Array], footer: NativeLogFooter = FOOTER, **more: str) -> bytes:
    """A file as another writer might leave it."""
    table = pa.table(columns)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(encode_footer(footer) | more)
    return sink.getvalue()


def test_deletes_with_ordering_values_read_back() -> None:
    """Null is a delete that always wins, 0 of a long is a value. Keeps 1 of format/log/native_log/delete_file."""
    data = delete_file(["a", "b", "ü"], pa.array([7, None, 0], pa.int64()), ["ts"])
    (found,) = read(data, TS)
    assert values(found) == [("a", 7, False), ("b", None, True), ("ü", 0, False)]
    assert found.wrappers == ("LongWrapper",)
    schema = pq.read_schema(io.BytesIO(data))
    assert [(each.name, each.type, each.nullable) for each in schema] == [
        ("_hoodie_record_key", pa.string(), False),
        ("ts", pa.int64(), True),
    ]
    assert set(judge.footer(data)) == {"VERSION", "INSTANT_TIME", "SCHEMA"}
    assert judge.rows(data) == [
        {"_hoodie_record_key": "a", "ts": 7},
        {"_hoodie_record_key": "b", "ts": None},
        {"_hoodie_record_key": "ü", "ts": 0},
    ]


def test_by_commit_time_a_delete_is_its_key() -> None:
    """There is no other column; nor is one missed where the table is ordered since."""
    data = delete_file(["a", "b"], None, [])
    assert pq.read_schema(io.BytesIO(data)).names == ["_hoodie_record_key"]
    for ordering in (NOTHING, TS, BOTH):
        (found,) = read(data, ordering)
        assert values(found) == [("a", None, True), ("b", None, True)]
        assert (found.ordering, found.wrappers) == (None, ())


def test_zero_in_a_column_of_ints_is_stored_and_read_as_the_default() -> None:
    """In the file it differs from null; to Hudi's merge both are Integer 0, and so it is in delete blocks."""
    data = delete_file(["a", "b", "c"], pa.array([0, None, 3], pa.int32()), ["n"])
    assert [each["n"] for each in judge.rows(data)] == [0, None, 3]
    (found,) = read(data, N)
    assert values(found) == [("a", None, True), ("b", None, True), ("c", 3, False)]
    assert found.wrappers == ("IntWrapper",)
    (zeros,) = read(delete_file(["a"], pa.array([0], pa.int32()), ["n"]), N)
    assert (zeros.ordering, zeros.wrappers) == (None, ())


def test_values_of_several_fields_read_back() -> None:
    """A column each, in the table's order; structs to the merge."""
    data = delete_file(["a", "b"], structs((7, 0), (0, 3)), ["ts", "n"])
    assert pq.read_schema(io.BytesIO(data)).names == ["_hoodie_record_key", "ts", "n"]
    (found,) = read(data, BOTH)
    assert values(found) == [("a", {"ts": 7, "n": 0}, False), ("b", {"ts": 0, "n": 3}, False)]
    assert found.wrappers == ("LongWrapper", "IntWrapper")


@pytest.mark.parametrize("ordering", [None, structs(None), structs((1, None))])
def test_with_several_fields_all_values_are_written(ordering: pa.Array | None) -> None:
    """Hudi would read one without them as a delete of (0, 0). Keeps 3 of format/log/native_log/delete_file."""
    with pytest.raises(Unsupported, match="without values of ts, n"):
        delete_file(["a"], ordering, ["ts", "n"])


def test_with_several_fields_none_is_unconditional_and_some_is_refused() -> None:
    """What others wrote: the first was meant so by its writer, the second says nothing that can be compared."""
    keys = pa.array(["a", "b"])
    numbers = pa.array([1, 2], pa.int32())
    columns = {"_hoodie_record_key": keys, "ts": pa.array([None, 5], pa.int64()), "n": pa.array([None, 2], pa.int32())}
    (found,) = read(parquet(columns), BOTH)
    assert values(found) == [("a", None, True), ("b", {"ts": 5, "n": 2}, False)]
    with pytest.raises(Unsupported, match=r"Delete 0 of the native log .* lacks a value in at least one of"):
        read(parquet({**columns, "n": numbers}), BOTH)


def test_a_field_inside_of_another_orders_no_deletes() -> None:
    """Hudi throws on the first of them. Keeps 4 of format/log/native_log/delete_file."""
    with pytest.raises(Unsupported, match=r"The ordering field a\.b"):
        delete_file(["a"], None, ["a.b"])


def test_keys_out_of_order_stop_the_writer() -> None:
    """Keeps 2 of format/log/native_log/delete_file."""
    with pytest.raises(AssertionError, match="ascend"):
        delete_file(["b", "a"], None, [])


def test_positions_are_in_the_footer_of_deletes_too() -> None:
    """Each file of a flush has its own."""
    data = delete_file(["a", "b"], None, [], positions=[4, 300], positions_in="7")
    assert judge.positions(judge.footer(data)["RECORD_POSITIONS"]) == [4, 300]


TYPES: list[tuple[object, pa.DataType, Any]] = [
    ("boolean", pa.bool_(), True),
    ("int", pa.int32(), -5),
    ("long", pa.int64(), 2**40),
    ("float", pa.float32(), 1.5),
    ("double", pa.float64(), 1.1),
    ("string", pa.string(), "ü"),
    ({"type": "int", "logicalType": "date"}, pa.date32(), datetime.date(1970, 1, 1)),
    (
        {"type": "fixed", "name": "d", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2},
        pa.decimal128(18, 2),
        decimal.Decimal("-3.14"),
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        pa.timestamp("us", "UTC"),
        datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        pa.timestamp("us"),
        datetime.datetime(2026, 11, 22, 3, 4, 5, 6),
    ),
]


@pytest.mark.parametrize(("avro", "arrow", "value"), TYPES)
def test_a_value_has_the_type_of_its_column(avro: object, arrow: pa.DataType, value: Any) -> None:
    """Decimals keep their digits and moments their unit, and the merge knows the class that stands beside them."""
    schema = {**TABLE, "fields": [*TABLE["fields"], {"name": "o", "type": ["null", avro], "default": None}]}
    footer = NativeLogFooter(INSTANT, log_block_schema(json.dumps(schema)))
    data = delete_file(["a", "b"], pa.array([value, None], arrow), ["o"], footer)
    assert pq.read_schema(io.BytesIO(data)).field("o").type == arrow
    (found,) = read(data, pa.schema([("o", arrow)]))
    assert values(found) == [("a", value, False), ("b", None, True)]
    assert found.wrappers[0] in (ordering_wrappers(arrow) or ())


def test_values_come_in_the_tables_type_of_today() -> None:
    """An int of before the column was a long: what was a 0 is a value then, as it is to Hudi's reader of `lsm_tree`."""
    data = delete_file(["a", "b", "c"], pa.array([0, None, 3], pa.int32()), ["n"])
    (found,) = read(data, pa.schema([("n", pa.int64())]))
    assert values(found) == [("a", 0, False), ("b", None, True), ("c", 3, False)]
    with pytest.raises(Unsupported, match="column ts of"):
        read(delete_file(["a"], pa.array([1], pa.int64()), ["ts"]), pa.schema([("ts", pa.int32())]))


def test_a_file_without_keys_is_broken() -> None:
    """Neither the column nor one of its values may be missing."""
    with pytest.raises(BrokenFile, match="has no column _hoodie_record_key"):
        read(parquet({"key": pa.array(["a"])}), NOTHING)
    with pytest.raises(BrokenFile, match="has no key"):
        read(parquet({"_hoodie_record_key": pa.array(["a", None])}), NOTHING)


WRAPPED = {"type": "record", "name": "LongWrapper", "fields": [{"name": "value", "type": "long"}]}
INT = {"type": "record", "name": "IntWrapper", "fields": [{"name": "value", "type": "int"}]}
BOOLEAN = {"type": "record", "name": "BooleanWrapper", "fields": [{"name": "value", "type": "boolean"}]}
UNION = fastavro.parse_schema(["null", BOOLEAN, INT, WRAPPED])


def early(*wrapped: tuple[str, int] | None) -> list[bytes | None]:
    found: list[bytes | None] = []
    for each in wrapped:
        sink = io.BytesIO()
        if each is not None:
            fastavro.schemaless_writer(sink, UNION, (each[0], {"value": each[1]}))
        found.append(sink.getvalue() if each is not None else None)
    return found


def early_file(keys: list[str], ordering: list[bytes | None]) -> bytes:
    columns = {
        "record_key": pa.array(keys),
        "partition_path": pa.nulls(len(keys), pa.string()),
        "ordering_val": pa.array(ordering, pa.binary()),
    }
    return parquet(columns, **{"hudi.log.block_type": "delete"})


def test_rows_of_the_first_source_are_read() -> None:
    """Bytes are values of the class that is named in them, not text to be compared. In either name of the file."""
    data = early_file(["a", "b", "c"], early(("LongWrapper", 300), None, ("LongWrapper", -1)))
    for is_early in (False, True):
        (found,) = read(data, TS, is_early=is_early)
        assert values(found) == [("a", 300, False), ("b", None, True), ("c", -1, False)]
        assert found.wrappers == ("LongWrapper",)
    assert read(early_file([], []), TS) == []


@pytest.mark.parametrize("end", [b"", b"\0", b"\2\2c\0\0", b"\2\2\2c\0\0", b"\2"])
@pytest.mark.parametrize("place", [0, 1])
def test_bytes_that_are_no_value_are_refused(end: bytes, place: int) -> None:
    """None, or with more behind, which could stand for another delete."""
    value = early(("LongWrapper", 3))[0]
    ordering = [value, value]
    ordering[place] = b"" if not end else (value or b"") + end
    with pytest.raises(BrokenFile):
        read(early_file(["a", "b"], ordering), TS)


def test_values_of_two_classes_are_refused() -> None:
    """A delete block with them is refused, too."""
    with pytest.raises(Unsupported, match="mix ordering values"):
        read(early_file(["a", "b"], early(("LongWrapper", 3), ("IntWrapper", 3))), TS)


def test_deletes_of_a_metadata_table_are_keys() -> None:
    """No writer is known to make them; whatever the values say, a record of that key is gone."""
    sink = io.BytesIO()
    writer = HFileWriter(sink)
    for key in (b"a", "ü".encode()):
        writer.add(key, b"any")
    writer.finish({key: value.encode() for key, value in encode_footer(FOOTER).items()})
    (found,) = read(sink.getvalue(), TS, format="hfile")
    assert values(found) == [("a", None, True), ("ü", None, True)]
