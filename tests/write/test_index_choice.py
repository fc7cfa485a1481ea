"""The index of a write: asked for, said by the table, or shown by it."""

from __future__ import annotations

import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.table.table_config import TableConfig
from lakeward.write.index_choice import IndexChoice, choose_index
from lakeward.write.request import IndexKind

BUCKETS_OF_TABLE = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


@pytest.mark.parametrize(
    ("properties", "asked", "buckets", "chosen"),
    [
        ({}, None, None, IndexChoice(IndexKind.SIMPLE)),
        ({}, None, 4, IndexChoice(IndexKind.BUCKET, 4)),
        ({}, IndexKind.METADATA, None, IndexChoice(IndexKind.METADATA)),
        ({"hoodie.table.metadata.partitions": "files,record_index"}, None, None, IndexChoice(IndexKind.METADATA)),
        (BUCKETS_OF_TABLE, None, None, IndexChoice(IndexKind.BUCKET, 4)),
        (BUCKETS_OF_TABLE, IndexKind.BUCKET, 4, IndexChoice(IndexKind.BUCKET, 4)),
        ({"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}, None, None, IndexChoice(IndexKind.METADATA)),
        ({"hoodie.index.type": "GLOBAL_SIMPLE"}, None, None, IndexChoice(IndexKind.GLOBAL_SIMPLE, moves_rows=True)),
        ({"hoodie.index.type": "GLOBAL_BLOOM"}, None, None, IndexChoice(IndexKind.GLOBAL_BLOOM, moves_rows=True)),
        ({"hoodie.index.type": "BLOOM"}, IndexKind.BLOOM, None, IndexChoice(IndexKind.BLOOM)),
    ],
)
def test_it_is_chosen(
    properties: dict[str, str], asked: IndexKind | None, buckets: int | None, chosen: IndexChoice
) -> None:
    """What is asked, then what the table says, then what it has."""
    assert choose_index(TableConfig(properties), asked, buckets, ()) == chosen


@pytest.mark.parametrize(
    ("asked", "buckets"), [(IndexKind.SIMPLE, None), (IndexKind.METADATA, None), (None, 5), (IndexKind.BUCKET, 3)]
)
def test_the_table_has_the_last_word(asked: IndexKind | None, buckets: int | None) -> None:
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
        (IndexKind.GLOBAL_SIMPLE, {}, None, True),
        (IndexKind.GLOBAL_SIMPLE, {RECORD: "false"}, None, True),
        (IndexKind.GLOBAL_SIMPLE, {SIMPLE: "false"}, None, False),
        (IndexKind.GLOBAL_SIMPLE, {}, False, False),
        (IndexKind.GLOBAL_BLOOM, {SIMPLE: "false"}, None, True),
        (IndexKind.GLOBAL_BLOOM, {BLOOM: "false"}, None, False),
        (IndexKind.GLOBAL_BLOOM, {}, False, False),
        (IndexKind.METADATA, {}, None, False),
        (IndexKind.METADATA, {RECORD: "true", SIMPLE: "false"}, None, True),
        (IndexKind.METADATA, {RECORD: "true"}, True, True),
        (IndexKind.METADATA, {}, True, True),
        (IndexKind.RECORD, {}, None, False),
        (IndexKind.RECORD, {RECORD: "true"}, None, True),
        (IndexKind.POSTGRES, {}, None, False),
        (IndexKind.POSTGRES, {RECORD: "true"}, None, True),
        (IndexKind.SIMPLE, {SIMPLE: "true"}, None, False),
        (IndexKind.BLOOM, {BLOOM: "true"}, None, False),
    ],
)
def test_whether_rows_move(kind: IndexKind, properties: dict[str, str], asked: bool | None, moves: bool) -> None:
    """Each global index has its own property and default."""
    assert choose_index(TableConfig(properties), kind, None, (), asked) == IndexChoice(kind, moves_rows=moves)


def test_the_table_says_whether_rows_move() -> None:
    """Another answer is refused, and any where a key is one in its partition. Keeps 2 of write/index_choice."""
    for name, kind in (
        (SIMPLE, IndexKind.GLOBAL_SIMPLE),
        (BLOOM, IndexKind.GLOBAL_BLOOM),
        (RECORD, IndexKind.METADATA),
    ):
        for said in (True, False):
            with pytest.raises(UsageError, match=f"requested {name}") as raised:
                choose_index(TableConfig({name: str(said).lower()}), kind, None, (), not said)
            assert raised.value.why.startswith(f"The table says {said}, the request {not said}:")
    for kind in (IndexKind.SIMPLE, IndexKind.BLOOM, IndexKind.BUCKET):
        with pytest.raises(UsageError, match=f"the index is {kind}"):
            choose_index(TableConfig({}), kind, 4 if kind is IndexKind.BUCKET else None, (), True)
