"""The schema that a write leaves, and rows in its form."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, Unsupported, UsageError
from lakeward.format.avro.schema import block_schema
from lakeward.format.avro.schema_text import schema_text
from lakeward.write.input.input_schema import conform, evolve

TABLE = schema_text(
    pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("n", pa.int32()),
            pa.field("s", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int32()))])),
        ]
    ),
    "t",
)
STRUCT = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int32()))])


def rows(**columns):
    given = {"id": pa.array(["a"]), "n": pa.array([1], pa.int32()), "s": pa.array([{"x": 1, "l": [1]}], STRUCT)}
    return pa.record_batch({name: array for name, array in {**given, **columns}.items() if array is not None})


def after(batch, **options):
    return evolve(TABLE, batch.schema, table_name="t", **options)


def types_after(batch):
    return {field.name: field.type for field in block_schema(after(batch).schema_json, where="it")}


def test_the_same_columns_leave_the_text_as_it_is():
    """Keeps 3 of write/input/input_schema: in any order, coded or larger forms too."""
    batch = rows(s=pa.array([None], STRUCT), id=pa.array(["a"]).dictionary_encode())

    assert after(batch.select(["s", "n", "id"])) == (evolved := after(batch))
    assert (evolved.schema_json, evolved.changed) == (TABLE, False)
    assert conform(batch.select(["s", "id", "n"]), TABLE).to_pylist() == [{"id": "a", "n": 1, "s": None}]


def test_a_new_column_is_nullable_at_the_end():
    """What is inside of it is as it comes."""
    new = pa.field("m", pa.struct([pa.field("y", pa.list_(pa.field("e", pa.int8(), nullable=False)), nullable=False)]))
    batch = rows()
    batch = batch.add_column(0, new.with_nullable(False), pa.array([{"y": [1]}], new.type))

    evolved = after(batch)

    assert evolved.changed
    assert json.loads(evolved.schema_json)["fields"][3] == {
        "name": "m",
        "type": [
            "null",
            {
                "type": "record",
                "name": "m",
                "namespace": "hoodie.t.t_record",
                "fields": [{"name": "y", "type": {"type": "array", "items": "int"}}],
            },
        ],
        "default": None,
    }
    assert conform(batch, evolved.schema_json).to_pylist() == [
        {"id": "a", "n": 1, "s": {"x": 1, "l": [1]}, "m": {"y": [1]}}
    ]


def test_an_int_becomes_long():
    """Keeps 1 of write/input/input_schema, and Keeps 2 of it."""
    batch = rows(n=pa.array([2**40]))

    evolved = after(batch)

    assert types_after(batch) == {**types_after(rows()), "n": pa.int64()}
    assert conform(batch, evolved.schema_json).to_pylist()[0]["n"] == 2**40
    assert evolve(evolved.schema_json, rows().schema, table_name="t").changed is False
    assert conform(rows(), evolved.schema_json).column("n").type == pa.int64()


def test_a_struct_gets_fields():
    wide = pa.struct([("l", pa.list_(pa.int16())), ("z", pa.decimal128(5, 2)), ("x", pa.int32())])
    batch = rows(s=pa.array([{"x": 1, "l": [2], "z": None}], wide))

    evolved = after(batch)

    assert [(field.name, field.type) for field in types_after(batch)["s"]] == [
        ("x", pa.int32()),
        ("l", pa.list_(pa.field("element", pa.int32()))),
        ("z", pa.decimal128(5, 2)),
    ]
    assert '"namespace":"hoodie.t.t_record.s.z"' in evolved.schema_json
    assert conform(batch, evolved.schema_json).to_pylist()[0]["s"] == {"x": 1, "l": [2], "z": None}
    assert evolve(evolved.schema_json, rows().schema, table_name="t", fill_missing=True).changed is False


def test_values_that_a_type_has_room_for():
    wide = schema_text(pa.schema([("d", pa.float64()), ("p", pa.decimal128(8, 3)), ("t", pa.timestamp("us"))]), "t")
    moment = datetime.datetime(2024, 3, 4)
    batch = pa.record_batch(
        {"d": pa.array([5], pa.int16()), "p": [Decimal("1.5")], "t": pa.array([moment], pa.timestamp("s"))}
    )

    assert evolve(wide, batch.schema, table_name="t").changed is False
    assert conform(batch, wide).to_pylist() == [{"d": 5.0, "p": Decimal("1.500"), "t": moment}]
    for wrong in ({"d": [5]}, {"p": [Decimal("123456.5")]}, {"t": pa.array([1], pa.timestamp("ns"))}):
        with pytest.raises(Unsupported, match="does not fit"):
            conform(pa.record_batch(wrong), wide)


@pytest.mark.parametrize(
    ("column", "array", "words"),
    [
        ("n", pa.array(["1"]), "The table has int32, the rows have string"),
        ("n", pa.array([1.0]), "The table has int32, the rows have double"),
        ("id", pa.array([1]), "The table has string, the rows have int64"),
        ("n", pa.array([1], pa.uint32()), "rows have uint32"),
        ("s", pa.array([[1]]), "column s of the rows"),
        ("s", pa.array([{"x": 1, "l": [1]}], pa.struct([("x", pa.int64()), STRUCT.field("l")])), r"column s\.x of"),
        ("s", pa.array([{"x": 1, "l": [1]}], pa.struct([STRUCT.field("x"), ("l", pa.list_(pa.int64()))])), "s.l of"),
        ("s", pa.array([{"x": "1", "l": [1]}]), r"column s\.x of the rows"),
        ("new", pa.array([1], pa.uint64()), "column new has a type"),
    ],
)
def test_other_types_are_refused(column, array, words):
    with pytest.raises(Unsupported, match=words):
        after(rows(**{column: array}))


def test_a_missing_column_is_refused_or_null():
    with pytest.raises(UsageError, match="no column n, which the table has"):
        after(rows(n=None))
    with pytest.raises(UsageError, match=r"no column s\.l"):
        after(rows(s=pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))))
    with pytest.raises(UsageError, match=r"no column id.*may not be null"):
        after(rows(id=None), fill_missing=True)
    assert after(rows(n=None), fill_missing=True).changed is False
    assert conform(rows(n=None), TABLE).to_pylist()[0]["n"] is None


def test_a_null_where_none_may_be_is_refused():
    """At any depth, with the row that has it."""
    batch = pa.concat_batches([rows(), rows(id=pa.array([None], pa.string()))])
    with pytest.raises(UsageError, match="Row 12 has no value in id"):
        conform(batch, TABLE, rows_before=10)

    number = pa.field("e", pa.int32(), nullable=False)
    inner = pa.struct([pa.field("l", pa.list_(number)), pa.field("m", pa.map_(pa.string(), number))])
    table = schema_text(pa.schema([("s", inner)]), "t")
    loose = pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32()))])
    good = [None, {"l": None, "m": None}, {"l": [], "m": []}, {"l": [1, 2], "m": [("a", 1), ("b", 2)]}]
    for path, bad in (("s.l.element", {"l": [1, None], "m": []}), ("s.m.value", {"l": [], "m": [("a", None)]})):
        batch = pa.record_batch({"s": pa.array([*good, *good, bad], loose)})
        assert conform(batch.slice(1, 7), table).column("s").to_pylist() == [*good, *good][1:]
        with pytest.raises(UsageError, match=f"Row 8 has no value in {path}"):
            conform(batch.slice(1), table)


def test_the_first_rows_make_the_schema():
    """It is named as Hudi names it, nulls are as in the batch, and Hudi's own columns are left out."""
    batch = rows().add_column(0, "_hoodie_commit_time", pa.array(["1"]))

    assert evolve(None, batch.schema, table_name="t").schema_json == schema_text(rows().schema, "t")


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two columns id"):
        evolve(TABLE, pa.schema([("id", pa.string()), ("id", pa.string())]), table_name="t")


def test_rows_that_are_only_found_have_a_part_of_the_schema():
    """A delete brings keys: of the table's types, whose numbers may come in wider ones."""
    part = schema_text(pa.schema([("n", pa.int32())]), "t")

    assert conform(pa.record_batch({"n": [5], "x": [1]}), part).schema.field("n").type == pa.int32()
    with pytest.raises(UsageError, match="Row 2 has a number in n that is no int"):
        conform(pa.record_batch({"n": [5, 2**31]}), part)
    for wrong in (pa.array(["5"]), pa.array([5.0])):
        with pytest.raises(Unsupported, match="column n of the rows does not fit"):
            conform(pa.record_batch({"n": wrong}), part)


BAD = pa.struct([("a b", pa.int32())])


@pytest.mark.parametrize(
    ("name", "of", "path"),
    [
        ("order id", pa.string(), "order id"),
        ("", pa.string(), ""),
        ("N", pa.string(), "N"),
        ("_hoodie_operation", pa.string(), "_hoodie_operation"),
        ("_tmp_metadata_row_index", pa.int64(), "_tmp_metadata_row_index"),
        ("m", BAD, "m.a b"),
        ("m", pa.list_(BAD), "m.a b"),
        ("m", pa.map_(pa.string(), BAD), "m.a b"),
        ("s", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int32())), ("X", pa.int32())]), "s.X"),
    ],
)
def test_names_that_a_table_cannot_have_are_refused(name, of, path):
    """New columns are looked at on every level, in a table with columns or without. Keeps 4 of
    write/input/input_schema."""
    batch = rows(**{name: pa.nulls(1, of)})
    for table in (TABLE, None):
        with pytest.raises(UsageError) as raised:
            evolve(table, batch.schema, table_name="t")
        assert raised.value.what == f"The rows have a column that the table cannot have: {path!r}."
        assert raised.value.remedy == "Give the column another name in the input, or leave it out."


def test_names_that_the_table_has_already():
    """What differs in case alone stays as it is, since a reader may tell the two apart; what Hudi cannot load is not
    written to."""
    has_both = TABLE.replace('"name":"n"', '"name":"ID"')
    batch = rows(n=None, ID=pa.array([1], pa.int32()))
    assert not evolve(has_both, batch.schema, table_name="t").changed
    with pytest.raises(Refused) as raised:
        evolve(TABLE.replace('"name":"n"', '"name":"1"'), rows(n=None, **{"1": batch["ID"]}).schema, table_name="t")
    assert raised.value.what == "The table has a column '1', and Hudi cannot load it."


def test_a_mark_of_deletion_is_a_boolean():
    """A value of another type would delete nothing."""
    text = pa.array(["true"])
    with pytest.raises(UsageError, match="new column _hoodie_is_deleted has the type string"):
        after(rows(_hoodie_is_deleted=text))
    assert after(rows(_hoodie_is_deleted=pa.array([True]))).changed


@pytest.mark.parametrize("name", ["_lakeward_order", "_lakeward_place", "_lakeward_target"])
def test_columns_that_lakeward_keeps_beside_rows_are_refused(name):
    """Such rows ended in a KeyError."""
    with pytest.raises(UsageError, match=f"The rows have a column {name}."):
        after(rows(**{name: pa.array([1])}))
