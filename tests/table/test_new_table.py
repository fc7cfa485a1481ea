"""What a new table says about itself is what Hudi's writers give one, and what they would refuse is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.errors import BrokenFile, UsageError
from lakeward.format.java_properties import parse_properties
from lakeward.table.new_table import COPY_ON_WRITE, NewTable
from lakeward.table.table_config import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING
from tests.golden_tables import copy_golden

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "golden_record",
        "fields": [
            *({"name": name, "type": ["null", "string"], "default": None} for name in ("id", "part", "name")),
            {"name": "ts", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)
OF_METADATA_TABLE = (
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.index.defs.path",
)


def new(**given: Any) -> NewTable:
    fields: dict[str, Any] = {"name": "golden", "schema": SCHEMA, "record_key_fields": ("id",)}
    return NewTable(**{**fields, **given})


@pytest.mark.parametrize("golden, name", [("v9", "golden"), ("v8", "t")])
def test_its_properties_are_those_that_hudi_gave(
    golden: str, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Golden tables say what Hudi gave. Keeps 1 of table/new_table."""
    of_hudi = parse_properties(
        (copy_golden(golden, tmp_path_factory.mktemp("golden") / "table") / ".hoodie/hoodie.properties").read_bytes()
    )
    table = new(name=name, partition_fields=("part",), ordering_fields=("ts",), version=int(golden[1:]))
    ours = table.properties
    assert ours.pop("hoodie.table.create.schema") == SCHEMA
    assert ours == {key: value for key, value in of_hudi.items() if key not in OF_METADATA_TABLE}


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


def test_without_ordering_field_the_newest_write_wins() -> None:
    assert new().mode == COMMIT_TIME_ORDERING
    assert new(ordering_fields=("ts",)).mode == EVENT_TIME_ORDERING
    assert new(ordering_fields=("ts",), merge_mode=COMMIT_TIME_ORDERING).mode == COMMIT_TIME_ORDERING
    assert new(table_type=COPY_ON_WRITE).properties["hoodie.table.type"] == "COPY_ON_WRITE"


@pytest.mark.parametrize(
    "given, told",
    [
        ({"name": "a-b"}, "is no name of a table"),
        ({"record_key_fields": ()}, "needs a record key"),
        ({"record_key_fields": ("no",)}, "no cannot be a record key field"),
        ({"record_key_fields": ("id", "id")}, "named twice"),
        ({"partition_fields": ("tags",)}, "a column of type array"),
        ({"ordering_fields": ("Ts",)}, "Ts cannot be an ordering field"),
        ({"ordering_fields": ("ts", "name"), "version": 8}, "several ordering fields in version 8"),
        ({"merge_mode": EVENT_TIME_ORDERING}, "nothing to order rows of a key by"),
        ({"schema": SCHEMA.replace('"tags"', '"_hoodie_record_key"')}, "has the column _hoodie_record_key"),
    ],
)
def test_what_would_be_refused_later_is_refused(given: dict[str, Any], told: str) -> None:
    """The error comes before anything is written. Keeps 2 of table/new_table."""
    with pytest.raises(UsageError, match=told):
        new(**given)


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(BrokenFile) as refused:
        new(schema='{"type": "record", "name": "r", "fields": [{"type": "int"}]}')
    assert refused.value.remedy == "Mend the schema that was given; nothing was written."
