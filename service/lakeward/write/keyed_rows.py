"""The form in which rows travel through a write: keys and partition in front, then the table's columns.

    _hoodie_record_key, _hoodie_partition_path    text, as the key generator made them
    the table's columns                           in the order and the types of the schema that is written; none for
                                                  a delete
    ORDER                                         int64: the place in the input; of two rows with one ordering value
                                                  the later one wins. LEAVES in a row without columns, which says that
                                                  its key leaves the file group for another partition
    PLACE                                         after tagging; text: the file id of the group that has the key, or the
                                                  eight digits of its bucket; null: a new key
    IS_NEW                                        boolean, after placing: the key is a new one
    TARGET                                        int32, after placing: the index of a `WriteTarget`

Touches: nothing.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakeward.index.location import PARTITION_PATH as PARTITION_PATH
from lakeward.index.location import RECORD_KEY as RECORD_KEY

ORDER: Final = "_lakeward_order"
PLACE: Final = "_lakeward_place"
IS_NEW: Final = "_lakeward_is_new"
TARGET: Final = "_lakeward_target"

LEAVES: Final = -1


_KEYS = (pa.field(RECORD_KEY, pa.string()), pa.field(PARTITION_PATH, pa.string()))


def keyed_schema(columns: pa.Schema) -> pa.Schema:
    """That of keyed rows with these columns of the table's."""
    return pa.schema([*_KEYS, *columns, pa.field(ORDER, pa.int64())])


def tagged_schema(columns: pa.Schema) -> pa.Schema:
    return keyed_schema(columns).append(pa.field(PLACE, pa.string()))


def handled_schema(columns: pa.Schema) -> pa.Schema:
    """That of the rows which a target gets."""
    return keyed_schema(columns).append(pa.field(IS_NEW, pa.bool_()))


def placed_schema(columns: pa.Schema) -> pa.Schema:
    return handled_schema(columns).append(pa.field(TARGET, pa.int32()))
