"""The index of a write: asked for, said by the table, or shown by it."""

from __future__ import annotations

import pytest

from lakeward.errors import Refused, UsageError
from lakeward.table.table_config import TableConfig
from lakeward.write.index_choice import IndexChoice, choose_index
from lakeward.write.request import IndexKind

BUCKETS_OF_TABLE = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


@pytest.mark.parametrize(
    ("properties", "asked", "buckets", "chosen"),
    [
        ({}, None, None, IndexChoice(IndexKind.SIMPLE)),
        ({}, None, 4, IndexChoice(IndexKind.BUCKET, 4)),
        ({}, IndexKind.RECORD, None, IndexChoice(IndexKind.RECORD)),
        ({"hoodie.table.metadata.partitions": "files,record_index"}, None, None, IndexChoice(IndexKind.RECORD)),
        (BUCKETS_OF_TABLE, None, None, IndexChoice(IndexKind.BUCKET, 4)),
        (BUCKETS_OF_TABLE, IndexKind.BUCKET, 4, IndexChoice(IndexKind.BUCKET, 4)),
        ({"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}, None, None, IndexChoice(IndexKind.RECORD)),
    ],
)
def test_it_is_chosen(
    properties: dict[str, str], asked: IndexKind | None, buckets: int | None, chosen: IndexChoice
) -> None:
    """What is asked, then what the table says, then what it has."""
    assert choose_index(TableConfig(properties), asked, buckets, ()) == chosen


@pytest.mark.parametrize(
    ("asked", "buckets"), [(IndexKind.SIMPLE, None), (IndexKind.RECORD, None), (None, 5), (IndexKind.BUCKET, 3)]
)
def test_the_table_has_the_last_word(asked: IndexKind | None, buckets: int | None) -> None:
    """Another index, or number of buckets, would not find its keys. Keeps 1 of write/index_choice."""
    with pytest.raises(UsageError, match="The table says another"):
        choose_index(TableConfig(BUCKETS_OF_TABLE), asked, buckets, ())


def test_an_index_that_is_not_ours_is_refused() -> None:
    """The error names it."""
    with pytest.raises(Refused, match="GLOBAL_BLOOM"):
        choose_index(TableConfig({"hoodie.index.type": "GLOBAL_BLOOM"}), None, None, ())


def test_rows_that_move_are_refused() -> None:
    """The record index is refused, asked for or shown, and no other one. Keeps 2 of write/index_choice."""
    moves = {"hoodie.record.index.update.partition.path": "true"}
    shown = {"hoodie.table.metadata.partitions": "files,record_index"}
    for properties, asked in ((moves | shown, None), (moves, IndexKind.RECORD)):
        with pytest.raises(Refused, match=r"hoodie\.record\.index\.update\.partition\.path is true"):
            choose_index(TableConfig(properties), asked, None, ())
    assert choose_index(TableConfig(moves), None, None, ()).kind is IndexKind.SIMPLE
    assert choose_index(TableConfig(shown | dict.fromkeys(moves, "false")), None, None, ()).kind is IndexKind.RECORD
