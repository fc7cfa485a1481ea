"""Projections: columns by name, promotions value by value, refusals of all others."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import block_schema, keeping_nested_floats
from lakeward.format.projection import project


def promoted(array: pa.Array, target: pa.DataType) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([array], names=["c"])
    found = project(batch, pa.schema([pa.field("c", target)])).column(0)
    found.validate(full=True)
    assert found.type == target
    return found.to_pylist()


def test_project_goes_by_name():
    """Columns come in the target's order; a missing one is null, one too many is dropped; so inside of structs."""
    batch = pa.RecordBatch.from_pylist([{"b": 1, "s": {"y": 2, "gone": 3}, "gone": 4}, {"b": 2, "s": None, "gone": 5}])
    struct_type = pa.struct([("x", pa.string()), ("y", pa.int64())])
    target = pa.schema([("a", pa.string()), ("s", struct_type), ("b", pa.int64())])

    assert project(batch, target).to_pylist() == [
        {"a": None, "s": {"x": None, "y": 2}, "b": 1},
        {"a": None, "s": None, "b": 2},
    ]


def filled(field: dict[str, Any], *, from_avro: bool) -> Any:
    """What a row holds in a column that it was written without."""
    schema = block_schema(json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", **field}]}), where="x")
    row = pa.RecordBatch.from_pylist([{"other": 1}])
    found = project(row, schema, from_avro=from_avro).column(0)
    found.validate(full=True)
    return found[0].as_py()


DAY = {"type": "int", "logicalType": "date"}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}
FIXED = {"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}
STRUCT = {"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}]}
EPOCH = datetime.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    ("avro", "default", "value", "zero"),
    [
        ("boolean", True, True, False),
        ("int", 7, 7, 0),
        ("long", 2**40, 2**40, 0),
        ("float", 1.5, 1.5, 0.0),
        ("double", 2, 2.0, 0.0),
        (DAY, 3, datetime.date(1970, 1, 4), datetime.date(1970, 1, 1)),
        (MOMENT, 5, EPOCH.replace(microsecond=5, tzinfo=datetime.UTC), EPOCH.replace(tzinfo=datetime.UTC)),
        (LOCAL, 5, EPOCH.replace(microsecond=5000), EPOCH),
        ("string", "hé", "hé", None),
        ("bytes", "\u0005\u00ff", b"\x05\xff", None),
        ({"type": "array", "items": "int"}, [3, 4], [3, 4], None),
        ({"type": "array", "items": "string"}, [], [], None),
        ({"type": "map", "values": "long"}, {"w": 3}, [("w", 3)], None),
        (FIXED, "\u0000\u0000\u0000\u0000\u0005", None, None),
        (STRUCT, {"x": 1}, None, None),
        ({"type": "fixed", "name": "f", "size": 1}, "\u0005", None, None),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "A", None, None),
        ("int", "seven", None, 0),
    ],
)
def test_missing_fields_are_filled_in_as_hudi_does(avro: Any, default: object, value: object, zero: object):
    """Keeps 2 of format/projection, by the table of its header: the default in Avro blocks, zero in Parquet; None here
    is where Hudi fails, and so do we. What may be null is null in Parquet whatever its default."""
    required = {"type": avro, "default": default}
    for from_avro, expected in ((True, value), (False, zero)):
        if expected is None:
            with pytest.raises(Unsupported, match="column c is not in"):
                filled(required, from_avro=from_avro)
        else:
            assert filled(required, from_avro=from_avro) == expected
    nullable = {"type": [avro, "null"], "default": default}
    assert filled(nullable, from_avro=False) is None
    if value is not None:
        assert filled(nullable, from_avro=True) == value
    for optional in ({"type": ["null", avro], "default": None}, {"type": ["null", avro]}):
        assert filled(optional, from_avro=True) is filled(optional, from_avro=False) is None
    with pytest.raises(Unsupported, match="column c is not in"):
        filled({"type": avro}, from_avro=True)


@pytest.mark.parametrize(("kind", "expected"), [("string", "hé"), (["null", "string"], None)])
def test_strings_become_dictionaries(kind: Any, expected: str | None):
    """Plain strings are encoded for a target of dictionaries, and missing fields filled in as others are."""
    field = {"name": "c", "type": kind, "default": expected}
    schema = block_schema(json.dumps({"type": "record", "name": "r", "fields": [field]}), where="x")
    target = pa.schema([schema.field("c").with_type(pa.dictionary(pa.int32(), pa.string()))])
    for row, value in (({"other": 1}, expected), ({"c": "x"}, "x")):
        found = project(pa.RecordBatch.from_pylist([row, row]), target, from_avro=True).column(0)
        found.validate(full=True)
        assert pa.types.is_dictionary(found.type)
        assert found.to_pylist() == [value, value]


def test_missing_fields_inside_of_lists_and_maps_are_filled_in():
    """At every level, but not in structs that are null themselves."""
    new = {
        "type": "record",
        "name": "n",
        "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 9}],
    }
    fields = [
        {"name": "s", "type": ["null", new]},
        {"name": "l", "type": {"type": "array", "items": ["null", "n"]}},
        {"name": "m", "type": {"type": "map", "values": "n"}},
    ]
    schema = block_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), where="x")
    old = pa.struct([("x", pa.int32())])
    columns = [
        pa.array([None, {"x": 1}], old),
        pa.array([[{"x": 2}, None], []], pa.list_(old)),
        pa.array([[("k", {"x": 3})], []], pa.map_(pa.string(), old)),
    ]
    rows = pa.RecordBatch.from_arrays(columns, ["s", "l", "m"])

    for from_avro, y in ((True, 9), (False, 0)):
        assert project(rows, schema, from_avro=from_avro).to_pylist() == [
            {"s": None, "l": [{"x": 2, "y": y}, None], "m": [("k", {"x": 3, "y": y})]},
            {"s": {"x": 1, "y": y}, "l": [], "m": []},
        ]
    nothing = rows.slice(0, 0)
    text = pa.schema(
        [
            block_schema(
                json.dumps({"type": "record", "name": "r", "fields": [{"name": "t", "type": "string"}]}), where="x"
            ).field(0)
        ]
    )
    assert project(nothing, text).num_rows == 0  # no row that would have to hold it


def test_promotions():
    """The changes of type that Hudi makes while reading, value by value as Hudi makes them."""
    ints = pa.array([-5, None, 2**31 - 1], pa.int32())
    assert promoted(ints, pa.int64()) == [-5, None, 2**31 - 1]
    assert promoted(ints, pa.float64()) == [-5.0, None, 2147483647.0]
    assert promoted(ints, pa.float32()) == [-5.0, None, 2147483648.0]
    assert promoted(ints, pa.string()) == ["-5", None, "2147483647"]
    assert promoted(pa.array([2**63 - 1, -1]), pa.float64()) == [9.223372036854775807e18, -1.0]
    some = [1.1, None, -0.1, 0.0, 3.4028235e38, 4e7, 1.23e-9, float("inf"), float("-inf")]
    assert promoted(pa.array(some, pa.float32()), pa.float64()) == some
    assert str(promoted(pa.array([float("nan")], pa.float32()), pa.float64())) == "[nan]"
    assert promoted(pa.array([b"\xc3\xbc", None]), pa.string()) == ["ü", None]
    assert promoted(pa.array(["ü", None]), pa.binary()) == [b"\xc3\xbc", None]
    money = pa.array([decimal.Decimal("1.25"), None], pa.decimal128(5, 2))
    assert promoted(money, pa.decimal128(12, 3)) == [decimal.Decimal("1.250"), None]
    assert promoted(ints, pa.decimal128(20, 2)) == [decimal.Decimal(-5), None, decimal.Decimal(2**31 - 1)]
    assert promoted(pa.array([b"ab", None], pa.binary(2)), pa.binary()) == [b"ab", None]
    days = pa.array([-141427, None, 0, 2932896], pa.int32()).cast(pa.date32())
    assert promoted(days, pa.string()) == ["1582-10-15", None, "1970-01-01", "9999-12-31"]
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)
    assert promoted(pa.array([moment], pa.timestamp("ms")), pa.timestamp("us")) == [moment]


# What Java 17 and, behind it, Java 19 write.
FLOATS = {
    "33554448": (33554448.0, 3.355445e7),
    "a thousandth more": (1.08492431e10, 1.0849243e10),
    "negative": (-3.19893593e14, -3.198936e14),
    "the smallest": (1.4e-45, 1e-45),
    "a power of two": (3.6379788e-12, 3.637979e-12),
}


@pytest.mark.parametrize("texts", FLOATS.values(), ids=FLOATS)
def test_floats_of_which_releases_of_java_make_other_doubles(texts: tuple[float, float]):
    """Hudi uses the digits that Java writes, so what its readers show depends on them: these are refused."""
    older, newer = (np.float32(text) for text in texts)
    assert older == newer and texts[0] != texts[1]
    with pytest.raises(Unsupported, match="different digits"):
        promoted(pa.array([1.5, older], pa.float32()), pa.float64())


@given(st.data())
def test_any_changes_of_columns_at_once(data: st.DataObject):
    """Columns added, dropped, moved and widened, at both levels, are what doing it value by value gives."""
    widths = {"a": (pa.int32(), pa.int64()), "b": (pa.float32(), pa.float64()), "c": (pa.string(), pa.binary())}
    before, after = (data.draw(st.lists(st.sampled_from("abcs"), unique=True, min_size=1)) for _ in range(2))
    inner, outer = (data.draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1)) for _ in range(2))
    values = {"a": st.integers(-(2**31), 2**31 - 1), "b": st.sampled_from([0.5, -2.0]), "c": st.text(max_size=3)}

    def type_of(name: str, is_new: bool) -> pa.DataType:
        if name != "s":
            return widths[name][is_new]
        return pa.struct([(each, widths[each][is_new]) for each in (outer if is_new else inner)])

    def row(columns: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        below = st.fixed_dictionaries({each: st.none() | values[each] for each in inner})
        return st.fixed_dictionaries({name: st.none() | (below if name == "s" else values[name]) for name in columns})

    def expected(name: str, value: Any) -> Any:
        if name == "s" and value is not None:
            return {each: expected(each, value.get(each)) for each in outer}
        return value.encode() if name == "c" and value is not None else value

    rows = data.draw(st.lists(row(before), min_size=1, max_size=4))
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([(name, type_of(name, False)) for name in before]))

    found = project(batch, pa.schema([(name, type_of(name, True)) for name in after]))

    found.validate(full=True)
    assert found.to_pylist() == [{name: expected(name, each.get(name)) for name in after} for each in rows]


def test_promotions_below_lists_structs_and_maps():
    """Promotions reach every level, and slices of nested arrays keep their rows."""
    element = pa.field("array", pa.struct([("v", pa.int32())]), nullable=False)
    source = pa.array(
        [[{"v": 1}], None, [], [{"v": None}, {"v": 3}], [{"v": 4}]],
        pa.list_(element),
    )
    target = pa.list_(pa.field("element", pa.struct([("new", pa.string()), ("v", pa.float64())])))
    rows = [
        [{"new": None, "v": 1.0}],
        None,
        [],
        [{"new": None, "v": None}, {"new": None, "v": 3.0}],
        [{"new": None, "v": 4.0}],
    ]
    assert promoted(source, target) == rows
    assert promoted(source.slice(1, 3), target) == rows[1:4]
    maps = pa.array([[("a", 1)], None, [("b", None), ("c", 2)], []], pa.map_(pa.string(), pa.int32()))
    assert promoted(maps.slice(1), pa.map_(pa.string(), pa.int64())) == [None, [("b", None), ("c", 2)], []]
    structs = pa.array([{"x": 1}, None, {"x": None}, {"x": 4}], pa.struct([("x", pa.int32())]))
    assert promoted(structs.slice(1, 3), pa.struct([("x", pa.int64())])) == [None, {"x": None}, {"x": 4}]


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([1], pa.int64()), pa.int32()),
        (pa.array([1.5]), pa.float32()),
        (pa.array([1.5]), pa.string()),
        (pa.array([1.5], pa.float32()), pa.string()),
        (pa.array([1.5]), pa.int64()),
        (pa.array(["1"]), pa.int64()),
        (pa.array([True]), pa.string()),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([1], pa.int64()), pa.timestamp("us")),
        (pa.array([b"\xff"]), pa.string()),
        (pa.array([-141428], pa.int32()).cast(pa.date32()), pa.string()),
        (pa.array([2932897], pa.int32()).cast(pa.date32()), pa.string()),
        (pa.array([decimal.Decimal("1.25")]), pa.decimal128(5, 1)),
        (pa.array([decimal.Decimal("99.25")]), pa.decimal128(3, 2)),
        (pa.array([12345], pa.int32()), pa.decimal128(5, 2)),
        (pa.array([[1]]), pa.int64()),
        (pa.array([{"a": 1}]), pa.list_(pa.int64())),
    ],
)
def test_other_changes_of_type_are_refused(array: pa.Array, target: pa.DataType):
    """A change of type that is not proven, or a value that does not fit, is refused by the column's name."""
    with pytest.raises(Unsupported, match="column c of"):
        promoted(array, target)


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        (pa.list_(pa.float32()), pa.list_(pa.float64()), [0.1]),
        (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64()), [("k", 0.1)]),
        (
            pa.list_(pa.struct([("x", pa.float32())])),
            pa.list_(pa.struct([("x", pa.float64())])),
            [{"x": 0.1}],
        ),
    ],
)
def test_floats_in_lists_and_maps_of_version_8(source: pa.DataType, target: pa.DataType, value: object):
    """Hudi 1.0's readers make other doubles of them where they lie in Parquet, so there they are refused; elsewhere,
    and for 1.2's readers, they use their digits."""
    rows = pa.RecordBatch.from_arrays([pa.array([value], source), pa.array([0.1], pa.float32())], names=["c", "top"])
    schema = pa.schema([("c", target), ("top", pa.float64())])
    kept = keeping_nested_floats(schema)
    for to, from_avro in ((schema, False), (schema, True), (kept, True)):
        assert project(rows, to, from_avro=from_avro).to_pylist() == [{"c": value, "top": 0.1}]
    with pytest.raises(Unsupported, match="column c"):
        project(rows, kept)
    assert project(rows.select(["top"]), pa.schema([kept.field("top")])).to_pylist() == [{"top": 0.1}]
