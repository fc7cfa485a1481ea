"""The index of a write: asked for, said by the table, or shown by it."""

from __future__ import annotations

import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.index.index_type import IndexType
from lakeward.table.table_config import TableConfig
from lakeward.write.index_choice import IndexChoice, choose_index

BUCKETS_OF_TABLE = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


@pytest.mark.parametrize(
    ("properties", "asked", "buckets", "chosen"),
    [
        ({}, None, None, IndexChoice(IndexType.SIMPLE)),
        ({}, None, 4, IndexChoice(IndexType.BUCKET, 4)),
        ({}, IndexType.METADATA, None, IndexChoice(IndexType.METADATA)),
        ({"hoodie.table.metadata.partitions": "files,record_index"}, None, None, IndexChoice(IndexType.METADATA)),
        (BUCKETS_OF_TABLE, None, None, IndexChoice(IndexType.BUCKET, 4)),
        (BUCKETS_OF_TABLE, IndexType.BUCKET, 4, IndexChoice(IndexType.BUCKET, 4)),
        ({"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}, None, None, IndexChoice(IndexType.METADATA)),
        ({"hoodie.index.type": "GLOBAL_SIMPLE"}, None, None, IndexChoice(IndexType.GLOBAL_SIMPLE, moves_rows=True)),
        ({"hoodie.index.type": "GLOBAL_BLOOM"}, None, None, IndexChoice(IndexType.GLOBAL_BLOOM, moves_rows=True)),
        ({"hoodie.index.type": "BLOOM"}, IndexType.BLOOM, None, IndexChoice(IndexType.BLOOM)),
    ],
)
def test_it_is_chosen(
    properties: dict[str, str], asked: IndexType | None, buckets: int | None, chosen: IndexChoice
) -> None:
    """What is asked, then what the table says, then what it has."""
    assert choose_index(TableConfig(properties), asked, buckets, ()) == chosen


@pytest.mark.parametrize(
    ("asked", "buckets"), [(IndexType.SIMPLE, None), (IndexType.METADATA, None), (None, 5), (IndexType.BUCKET, 3)]
)
def test_the_table_has_the_last_word(asked: IndexType | None, buckets: int | None) -> None:
    """Another index, or number of buckets, would not find its keys. Keeps 1 of write/index_choice."""
    with pytest.raises(UsageError, match="conflicts with the table's own") as raised:
        choose_index(TableConfig(BUCKETS_OF_TABLE), asked, buckets, ())
    says, was = ("4", str(buckets)) if buckets else ("bucket", str(asked))
    assert raised.value.why.startswith(f"The table says {says}, the request {was}:")


def test_an_index_that_is_not_own_is_refused() -> None:
    """The error names it."""
    with pytest.raises(Refused, match="INMEMORY"):
        choose_index(TableConfig({"hoodie.index.type": "INMEMORY"}), None, None, ())


SIMPLE, BLOOM, RECORD = (f"hoodie.{name}.index.update.partition.path" for name in ("simple", "bloom", "record"))


@pytest.mark.parametrize(
    ("kind", "properties", "asked", "moves"),
    [
        (IndexType.GLOBAL_SIMPLE, {}, None, True),
        (IndexType.GLOBAL_SIMPLE, {RECORD: "false"}, None, True),
        (IndexType.GLOBAL_SIMPLE, {SIMPLE: "false"}, None, False),
        (IndexType.GLOBAL_SIMPLE, {}, False, False),
        (IndexType.GLOBAL_BLOOM, {SIMPLE: "false"}, None, True),
        (IndexType.GLOBAL_BLOOM, {BLOOM: "false"}, None, False),
        (IndexType.GLOBAL_BLOOM, {}, False, False),
        (IndexType.METADATA, {}, None, False),
        (IndexType.METADATA, {RECORD: "true", SIMPLE: "false"}, None, True),
        (IndexType.METADATA, {RECORD: "true"}, True, True),
        (IndexType.METADATA, {}, True, True),
        (IndexType.RECORD, {}, None, False),
        (IndexType.RECORD, {RECORD: "true"}, None, True),
        (IndexType.POSTGRES, {}, None, False),
        (IndexType.POSTGRES, {RECORD: "true"}, None, True),
        (IndexType.SIMPLE, {SIMPLE: "true"}, None, False),
        (IndexType.BLOOM, {BLOOM: "true"}, None, False),
    ],
)
def test_whether_rows_move(kind: IndexType, properties: dict[str, str], asked: bool | None, moves: bool) -> None:
    """Each global index has its own property and default."""
    assert choose_index(TableConfig(properties), kind, None, (), asked) == IndexChoice(kind, moves_rows=moves)


def test_the_table_says_whether_rows_move() -> None:
    """Another answer is refused, and any where a key is one in its partition. Keeps 2 of write/index_choice."""
    for name, kind in (
        (SIMPLE, IndexType.GLOBAL_SIMPLE),
        (BLOOM, IndexType.GLOBAL_BLOOM),
        (RECORD, IndexType.METADATA),
    ):
        for said in (True, False):
            with pytest.raises(UsageError, match=f"requested {name}") as raised:
                choose_index(TableConfig({name: str(said).lower()}), kind, None, (), not said)
            assert raised.value.why.startswith(f"The table says {said}, the request {not said}:")
    for kind in (IndexType.SIMPLE, IndexType.BLOOM, IndexType.BUCKET):
        with pytest.raises(UsageError, match=f"the index is {kind}"):
            choose_index(TableConfig({}), kind, 4 if kind is IndexType.BUCKET else None, (), True)
