"""The schema that a write leaves, and rows in its form."""

import json

import pyarrow as pa
import pytest

from lakeward.errors import Unsupported, UsageError
from lakeward.format.avro.schema import block_schema
from lakeward.format.avro.schema_text import schema_text
from lakeward.write.input.schema import conform, evolve

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
    """Keeps 3 of write/input/schema: in any order, coded or larger forms too."""
    batch = rows(s=pa.array([None], STRUCT), id=pa.array(["a"]).dictionary_encode())

    assert after(batch.select(["s", "n", "id"])) == (evolved := after(batch))
    assert (evolved.schema_json, evolved.changed) == (TABLE, False)
    assert conform(batch.select(["s", "id", "n"]), TABLE).to_pylist() == [{"id": "a", "n": 1, "s": None}]


def test_a_new_column_is_nullable_at_the_end():
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
                "fields": [
                    {"name": "y", "type": ["null", {"type": "array", "items": ["null", "int"]}], "default": None}
                ],
            },
        ],
        "default": None,
    }
    assert conform(batch, evolved.schema_json).to_pylist() == [
        {"id": "a", "n": 1, "s": {"x": 1, "l": [1]}, "m": {"y": [1]}}
    ]


def test_ints_become_long_where_either_is():
    """Keeps 1 of write/input/schema, and Keeps 2 of it: inside of others too."""
    wide = pa.struct([("l", pa.list_(pa.int64())), ("x", pa.int64()), ("z", pa.decimal128(5, 2))])
    batch = rows(n=pa.array([2**40]), s=pa.array([{"x": 2**40, "l": [2**40], "z": None}], wide))

    evolved = after(batch)

    assert types_after(batch)["n"] == pa.int64()
    assert [(field.name, field.type) for field in types_after(batch)["s"]] == [
        ("x", pa.int64()),
        ("l", pa.list_(pa.field("element", pa.int64()))),
        ("z", pa.decimal128(5, 2)),
    ]
    assert '"namespace":"hoodie.t.t_record.s.z"' in evolved.schema_json
    assert conform(batch, evolved.schema_json).to_pylist()[0]["s"] == {"x": 2**40, "l": [2**40], "z": None}
    assert evolve(evolved.schema_json, rows().schema, table_name="t", fill_missing=True).changed is False
    assert conform(rows(), evolved.schema_json).column("n").type == pa.int64()


@pytest.mark.parametrize(
    ("column", "array", "words"),
    [
        ("n", pa.array(["1"]), "The table has int32, the rows have string"),
        ("n", pa.array([1.0]), "The table has int32, the rows have double"),
        ("id", pa.array([1]), "The table has string, the rows have int64"),
        ("n", pa.array([1], pa.uint32()), "rows have uint32"),
        ("s", pa.array([[1]]), "column s of the rows"),
        ("s", pa.array([{"x": "1", "l": [1]}]), "column s.x of the rows"),
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
    with pytest.raises(UsageError, match="Row 12 has no value in the column id"):
        conform(pa.concat_batches([rows(), rows(id=pa.array([None], pa.string()))]), TABLE, rows_before=10)


def test_the_first_rows_make_the_schema():
    """It is named as Hudi names it, nulls are as in the batch, and Hudi's own columns are left out."""
    batch = rows().add_column(0, "_hoodie_commit_time", pa.array(["1"]))

    assert evolve(None, batch.schema, table_name="t").schema_json == schema_text(rows().schema, "t")


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two columns id"):
        evolve(TABLE, pa.schema([("id", pa.string()), ("id", pa.string())]), table_name="t")
