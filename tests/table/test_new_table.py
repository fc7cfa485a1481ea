"""What a new table says about itself is what Hudi's writers give one, and what they would refuse is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, Unsupported, UsageError
from lakeward.format.java_properties import parse_properties
from lakeward.table.new_keys import KeyGeneratorKind, NewTimestamps, TimestampType
from lakeward.table.new_table import COPY_ON_WRITE, NewIndex, NewIndexes, NewTable
from lakeward.table.table_config import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, SLASHES_IN_DATES, TableConfig
from tests.golden_tables import copy_golden

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "golden_record",
        "fields": [
            *({"name": name, "type": ["null", "string"], "default": None} for name in ("id", "part", "name")),
            {"name": "ts", "type": "long"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)
RECORD_INDEX = NewIndexes(NewIndex.METADATA)
TIMEZONE = "hoodie.table.timeline.timezone"


def new(**given: Any) -> NewTable:
    fields: dict[str, Any] = {"name": "golden", "schema": SCHEMA, "record_key_fields": ("id",)}
    return NewTable(**{**fields, **given})


@pytest.mark.parametrize(
    "golden, name, has_metadata_table",
    [("v9", "golden", False), ("v9_metadata", "golden", True), ("v8", "t", True), ("v8_metadata", "t", True)],
)
def test_its_properties_are_those_that_hudi_gave(
    golden: str, name: str, has_metadata_table: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Golden tables say what Hudi gave; from version 9 on Lakeward's are in UTC. Keeps 1 of table/new_table."""
    of_hudi = parse_properties(
        (copy_golden(golden, tmp_path_factory.mktemp("golden") / "table") / ".hoodie/hoodie.properties").read_bytes()
    )
    table = new(
        name=name,
        partition_fields=("part",),
        ordering_fields=("ts",),
        version=int(golden[1]),
        has_metadata_table=has_metadata_table,
        indexes=NewIndexes(NewIndex.METADATA, bloom_filters=True) if has_metadata_table else NewIndexes(),
    )
    own, asked = table.properties, new(indexes=table.indexes, version=table.version).asked_of_writers
    assert own.pop("hoodie.table.create.schema") == SCHEMA
    assert asked.items() <= own.items()
    assert (of_hudi.pop(TIMEZONE), own.pop(TIMEZONE)) == ("LOCAL", "LOCAL" if table.version == 8 else "UTC")
    assert {key: value for key, value in own.items() if key not in asked} == of_hudi


def test_version_10_says_which_meta_columns_have_values() -> None:
    """All else is as in version 9, its metadata table's properties, too. Keeps 1 of table/new_table."""
    of_9, of_10 = (new(partition_fields=("part",), version=version) for version in (9, 10))
    changed = {"hoodie.table.version": "10", "hoodie.table.initial.version": "10"}
    assert of_10.properties == {**of_9.properties, **changed, "hoodie.meta.fields.mode": "ALL"}
    assert of_9.metadata_table is not None and of_10.metadata_table is not None
    assert of_10.metadata_table.properties == {
        **of_9.metadata_table.properties,
        **changed,
        "hoodie.meta.fields.mode": "NONE",
    }


@pytest.mark.parametrize(
    "version, indexes, asked",
    [
        (9, NewIndexes(), {}),
        (9, NewIndexes(NewIndex.SIMPLE), {"hoodie.index.type": "SIMPLE"}),
        (
            9,
            NewIndexes(NewIndex.BUCKET, buckets=8),
            {
                "hoodie.index.type": "BUCKET",
                "hoodie.bucket.index.num.buckets": "8",
                "hoodie.bucket.index.hash.field": "id",
                "hoodie.datasource.write.recordkey.field": "id",
            },
        ),
        (
            9,
            RECORD_INDEX,
            {
                "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
                "hoodie.metadata.global.record.level.index.enable": "true",
            },
        ),
        (8, RECORD_INDEX, {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}),
        (9, NewIndexes(bloom_filters=True), {"hoodie.metadata.index.bloom.filter.enable": "true"}),
    ],
)
def test_what_is_asked_of_writers(version: int, indexes: NewIndexes, asked: dict[str, str]) -> None:
    """The names are those that the oldest release of the version knows, and our own writers read them back."""
    table = new(version=version, indexes=indexes)
    assert table.asked_of_writers == asked
    config = TableConfig(table.properties)
    assert (config.index_type, config.buckets) == (asked.get("hoodie.index.type"), indexes.buckets)
    assert ("record_index" in config.built_metadata_partitions) == (indexes == RECORD_INDEX)
    assert ("bloom_filters" in config.built_metadata_partitions) == indexes.bloom_filters


@pytest.mark.parametrize(
    "keys, partitions, kind, extractor",
    [
        (("id",), (), "NON_PARTITION", "NonPartitionedExtractor"),
        (("id", "name"), (), "NON_PARTITION", "NonPartitionedExtractor"),
        (("id",), ("part",), "SIMPLE", "SinglePartPartitionValueExtractor"),
        (("id", "name"), ("part",), "COMPLEX", "SinglePartPartitionValueExtractor"),
        (("id",), ("part", "name"), "COMPLEX", "MultiPartKeysValueExtractor"),
    ],
)
def test_the_key_generator_follows_from_the_fields(
    keys: tuple[str, ...], partitions: tuple[str, ...], kind: str, extractor: str
) -> None:
    properties = new(record_key_fields=keys, partition_fields=partitions).properties
    assert properties["hoodie.table.keygenerator.type"] == kind
    assert properties["hoodie.table.partition_extractor_class"].endswith(f".{extractor}")


def test_paths_of_moments_are_shown_with_their_zone() -> None:
    """Hudi would take that of each writer's process."""
    table = new(
        partition_fields=("ts",),
        key_generator_kind=KeyGeneratorKind.TIMESTAMP,
        timestamps=NewTimestamps(TimestampType.MILLISECONDS, "yyyy/MM/dd"),
    )
    assert table.properties["hoodie.table.keygenerator.type"] == "TIMESTAMP"
    assert {key: value for key, value in table.properties.items() if key.startswith("hoodie.keygen.")} == {
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }


def test_dates_with_slashes_are_asked_of_writers_too() -> None:
    """Hudi's own tables have but the extractor, by which no writer goes."""
    properties = new(partition_fields=("part",), slash_dates=True).properties
    assert properties[SLASHES_IN_DATES] == "true"
    assert properties["hoodie.table.partition_extractor_class"].endswith(".SlashEncodedDayPartitionValueExtractor")


def test_without_ordering_field_the_newest_write_wins() -> None:
    assert new().mode == COMMIT_TIME_ORDERING
    assert new(ordering_fields=("ts",)).mode == EVENT_TIME_ORDERING
    assert new(ordering_fields=("ts",), merge_mode=COMMIT_TIME_ORDERING).mode == COMMIT_TIME_ORDERING
    assert new(table_type=COPY_ON_WRITE).properties["hoodie.table.type"] == "COPY_ON_WRITE"


def moments(column: str, kind: TimestampType, **given: str) -> dict[str, Any]:
    timestamps = NewTimestamps(kind, "yyyy", **given)
    return {
        "key_generator_kind": KeyGeneratorKind.TIMESTAMP,
        "partition_fields": (column,),
        "timestamps": timestamps,
    }


@pytest.mark.parametrize(
    "given, shown",
    [
        ({"name": "a-b"}, "is no name of a table"),
        ({"record_key_fields": ()}, "needs a record key"),
        ({"record_key_fields": ("no",)}, "no cannot be a record key field"),
        ({"record_key_fields": ("id", "id")}, "named twice"),
        ({"partition_fields": ("tags",)}, "a column of type array"),
        ({"ordering_fields": ("Ts",)}, "Ts cannot be an ordering field"),
        ({"ordering_fields": ("at.x",), "version": 10}, "at.x cannot be an ordering field"),
        ({"ordering_fields": ("ts", "name"), "version": 8}, "several ordering fields in version 8"),
        ({"merge_mode": EVENT_TIME_ORDERING}, "nothing to order rows of a key by"),
        ({"key_generator_kind": KeyGeneratorKind.SIMPLE}, "SIMPLE does not go with these fields"),
        ({"key_generator_kind": KeyGeneratorKind.COMPLEX}, "COMPLEX does not go with these fields"),
        (
            {"key_generator_kind": KeyGeneratorKind.NON_PARTITION, "partition_fields": ("part",)},
            "NON_PARTITION does not go with these fields",
        ),
        ({"key_generator_kind": KeyGeneratorKind.TIMESTAMP, "partition_fields": ("ts",)}, "go together"),
        (
            {"timestamps": NewTimestamps(TimestampType.SECONDS, "yyyy"), "partition_fields": ("ts",)},
            "options go together",
        ),
        (moments("day", TimestampType.MILLISECONDS), "day does not go with the timestamps EPOCHMILLISECONDS"),
        (moments("part", TimestampType.SECONDS), "part does not go with the timestamps UNIX_TIMESTAMP"),
        (moments("part", TimestampType.TEXT), "DATE_STRING is text"),
        (moments("ts", TimestampType.SECONDS, input_format="yyyy"), "does not go with the type UNIX_TIMESTAMP"),
        (moments("ts", TimestampType.SCALAR), "--timestamp-unit and the type SCALAR"),
        ({"slash_dates": True, "partition_fields": ("part",), "version": 8}, "cannot be dates with slashes"),
        ({"slash_dates": True, "partition_fields": ("part",), "hive_style": True}, "cannot be dates with slashes"),
        ({"slash_dates": True, "partition_fields": ("day",)}, "cannot be dates with slashes"),
        ({"slash_dates": True}, "cannot be dates with slashes"),
        ({"indexes": RECORD_INDEX, "has_metadata_table": False}, "index record without a metadata table"),
        ({"schema": SCHEMA.replace('"tags"', '"_hoodie_record_key"')}, "has the column _hoodie_record_key"),
        ({"schema": SCHEMA.replace('"tags"', '"a b"')}, "has a column that a table cannot have: 'a b'. In Hudi's"),
        ({"schema": SCHEMA.replace('"tags"', '"TS"')}, "has a column that a table cannot have: 'TS'. There is ts, too"),
        ({"schema": SCHEMA.replace('"tags"', '"_hoodie_operation"')}, "cannot have: '_hoodie_operation'"),
    ],
)
def test_what_would_be_refused_later_is_refused(given: dict[str, Any], shown: str) -> None:
    """The error comes before anything is written. Keeps 2 of table/new_table, and Keeps of table/new_keys."""
    with pytest.raises(UsageError, match=shown):
        new(**given)


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(BrokenFile) as refused:
        new(schema='{"type": "record", "name": "r", "fields": [{"type": "int"}]}')
    assert refused.value.remedy == "Mend the schema that was given; nothing was written."


def test_a_generator_of_several_kinds_is_refused_by_its_name() -> None:
    with pytest.raises(Unsupported, match="CUSTOM cannot be created"):
        new(partition_fields=("part",), key_generator_kind=KeyGeneratorKind.CUSTOM)


@pytest.mark.parametrize("buckets", [0, 100_000_000])
def test_the_number_of_a_bucket_has_eight_digits(buckets: int) -> None:
    with pytest.raises(UsageError, match=f"cannot have {buckets} buckets"):
        NewIndexes(NewIndex.BUCKET, buckets=buckets)
