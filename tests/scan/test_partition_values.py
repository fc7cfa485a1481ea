"""What paths of partitions say of columns, and of which they say nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.format.parquet.row_groups import ValueRange
from lakeward.scan.partition_values import partition_ranges
from lakeward.table.table_config import TableConfig

SCHEMA = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("n", pa.int32()), ("day", pa.date32()), ("at", pa.timestamp("us"))]
)
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
CLASS = "hoodie.table.keygenerator.class"
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}


def ranges(path: str, fields: str, properties: dict[str, str]) -> dict[str, object]:
    """One value for each column of which the path says something."""
    config = TableConfig({"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": fields} | properties)
    found = partition_ranges(config, SCHEMA, path)
    assert all(each is not None and each.low == each.high for each in found.values())
    return {name: each.low for name, each in found.items() if isinstance(each, ValueRange)}


@pytest.mark.parametrize(
    ("path", "fields", "properties", "expected"),
    [
        ("lima", "city", {}, {"city": "lima"}),
        ("a/b", "city", {}, {"city": "a/b"}),
        ("city=lima", "city", HIVE, {"city": "lima"}),
        ("a%2Fb", "city", ENCODED, {"city": "a/b"}),
        ("a%2Fb", "city", {}, {"city": "a%2Fb"}),
        ("city=M%C3%BCnchen/n=-7", "city,n", HIVE | ENCODED, {"city": "München", "n": -7}),
        ("lima/3", "city,n", {"hoodie.table.keygenerator.type": "COMPLEX"}, {"city": "lima", "n": 3}),
        ("lima", "city", {CLASS: "org.apache.hudi.keygen.SimpleKeyGenerator"}, {"city": "lima"}),
    ],
)
def test_values(path: str, fields: str, properties: dict[str, str], expected: dict[str, object]) -> None:
    """Text and whole numbers, by the style that the table says."""
    assert ranges(path, fields, properties) == expected


@pytest.mark.parametrize(
    ("path", "fields", "properties"),
    [
        ("", "", {}),
        ("__HIVE_DEFAULT_PARTITION__", "city", {}),
        ("2026-01-31", "day", {}),
        ("007", "n", {}),
        ("lima/peru/3", "city,n", {}),
        ("city=lima", "city", {}),
        ("lima", "city", HIVE),
        ("2026", "city", {"hoodie.table.keygenerator.type": "TIMESTAMP"}),
        ("2026", "city", {CLASS: "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}),
        ("lima", "city:SIMPLE", {"hoodie.table.keygenerator.type": "CUSTOM"}),
        ("lima", "city", {CLASS: "com.example.Upside"}),
        ("2026/01/31", "city", {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}),
        (
            "2026/01/31",
            "city",
            {"hoodie.table.partition_extractor_class": "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor"},
        ),
    ],
)
def test_nothing_is_said_of_what_may_be_another_value(path: str, fields: str, properties: dict[str, str]) -> None:
    """Keeps of scan/partition_values: a query that believed it would miss rows."""
    assert ranges(path, fields, properties) == {}
