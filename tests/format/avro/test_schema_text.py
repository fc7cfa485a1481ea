"""The schema that a table is given, as Hudi's Spark writer spells it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import parse_schema
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from tests.golden_tables import copy_golden

OF_HUDI = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("part", pa.string()),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("v", pa.large_string(), nullable=False),
        pa.field("truth", pa.bool_()),
        pa.field("small", pa.int8(), nullable=False),
        pa.field("half", pa.float32()),
        pa.field("real", pa.float64()),
        pa.field("raw", pa.binary(), nullable=False),
        pa.field("price", pa.decimal128(15, 6)),
        pa.field("nothing", pa.dictionary(pa.int32(), pa.string())),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)


def test_it_is_what_hudi_wrote(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The commits of a golden table carry the same text. Keeps 2 of format/avro/schema_text."""
    table = copy_golden("v8", tmp_path_factory.mktemp("golden") / "table")
    file = max((table / ".hoodie" / "timeline").glob("*_*.deltacommit"))
    commit = read_commit_metadata(file.read_bytes(), file=file.name, layout=2)
    assert schema_text(OF_HUDI, "t") == commit.extra_metadata["schema"]


def test_what_is_read_of_it_is_the_schema() -> None:
    """Columns inside of others come back, too. Keeps 1 of format/avro/schema_text."""
    inner = pa.struct([pa.field("a", pa.int32()), pa.field("d", pa.decimal128(38, 0))])
    schema = pa.schema(
        [
            pa.field("s", inner),
            pa.field("list", pa.list_(pa.field("element", inner))),
            pa.field("map", pa.map_(pa.string(), pa.field("value", inner))),
            pa.field("local", pa.timestamp("us")),
            *(pa.field(f"d{digits}", pa.decimal128(digits, digits // 2)) for digits in range(1, 39)),
        ]
    )
    columns = parse_schema(schema_text(schema, "t"), where="the text")
    assert [(column.name, column.type.arrow) for column in columns] == [(field.name, field.type) for field in schema]
    names = [each["namespace"] for each in json.loads(schema_text(schema, "t"))["fields"][0]["type"][1:]]
    assert names == ["hoodie.t.t_record"]


@pytest.mark.parametrize("digits, size", [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (9, 4), (18, 8), (19, 9), (38, 16)])
def test_a_decimal_has_as_few_bytes_as_hold_it(digits: int, size: int) -> None:
    text = schema_text(pa.schema([pa.field("d", pa.decimal128(digits))]), "t")
    assert json.loads(text)["fields"][0]["type"][1]["size"] == size


@pytest.mark.parametrize(
    "kind",
    [pa.uint32(), pa.timestamp("ns"), pa.time64("us"), pa.null(), pa.map_(pa.int32(), pa.int32()), pa.struct([])],
)
def test_other_types_are_refused_by_the_column(kind: pa.DataType) -> None:
    """The error says where it is. Keeps 3 of format/avro/schema_text."""
    with pytest.raises(Unsupported, match=r"The column a\.b\.element has a type"):
        schema_text(pa.schema([pa.field("a", pa.struct([pa.field("b", pa.list_(kind))]))]), "t")
