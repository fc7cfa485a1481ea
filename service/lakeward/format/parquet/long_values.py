"""Ranges of long values, which the library leaves out of a footer: made from the rows, and put where they belong.

The library says nothing of an end of more than 4 KiB, and has no option for that. A reader that joins the ranges of all
row groups to that of the file, as Hudi does where it builds `column_stats` again, then has a range without the rows of
this one, and looks for none of them in the file. So both ends are put there, cut where they are long, and said to be:

    rows      "a", "zz…" of 5,000 bytes
    library   no greatest value
    footer    from "a", exact, to 255 times "z" and "{", not exact

Touches: nothing.
Keeps:   1. each value of a column of text or bytes lies within the range of its row group, in the order of its bytes;
         2. what the library says itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.parquet.footer import TAIL_BYTES, footer_bytes
from lakeward.format.parquet.thrift_tree import BINARY, FALSE, TRUE, Struct, read_struct, write_struct
from lakeward.format.stats.column_range import cut, range_of
from lakeward.format.stats.stats_value import StatsValue

LIBRARY_BYTES_MAX: Final = 4096
"""The longest end that the library puts into a footer."""


@dataclass(frozen=True, slots=True)
class LongRange:
    """The range of a column, in the bytes that a footer has."""

    low: bytes
    high: bytes
    low_is_exact: bool
    high_is_exact: bool


Ranges = Mapping[int, LongRange]
"""Ranges of columns, by their places among the column chunks of a row group."""

# Fields of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and Statistics, as parquet.thrift numbers them.
_GROUPS, _CHUNKS, _FACTS, _STATISTICS = 4, 1, 3, 12
_MAX, _MIN, _MAX_IS_EXACT, _MIN_IS_EXACT = 5, 6, 7, 8


def find_long(table: pa.Table) -> dict[int, LongRange]:
    """The ranges of those columns of a row group that have a long value. Text that is none has no range."""
    leaves = (leaf for column in table.columns for leaf in _leaves(column))
    found = ((place, _range(values)) for place, values in enumerate(leaves) if _has_long(values))
    return {place: each for place, each in found if each is not None}


def add_ranges(ending: bytes, found: Sequence[Ranges], *, file_name: str) -> bytes:
    """What ends a file, with the ranges that are missing.

    Args:
        ending: as the library ends it.
        found: for each row group.
    """
    length = footer_bytes(ending[-TAIL_BYTES:], file=file_name)
    footer, _ = read_struct(ending[-TAIL_BYTES - length : -TAIL_BYTES], bytes_max=None)
    for group, ranges in zip(footer.get(_GROUPS).values, found, strict=True):
        chunks = group.get(_CHUNKS).values
        for place, each in ranges.items():
            facts = chunks[place].get(_FACTS)
            statistics = _with_range(facts.get(_STATISTICS), each)
            chunks[place] = chunks[place].replace({_FACTS: facts.replace({_STATISTICS: statistics})})
    data = write_struct(footer)
    return ending[: -TAIL_BYTES - length] + data + len(data).to_bytes(4, "little") + ending[-4:]


def _with_range(statistics: Struct, found: LongRange) -> Struct:
    fields = dict(statistics.fields)
    for end, value, exact, is_exact in (
        (_MIN, found.low, _MIN_IS_EXACT, found.low_is_exact),
        (_MAX, found.high, _MAX_IS_EXACT, found.high_is_exact),
    ):
        if end not in fields:
            fields |= {end: (BINARY, value), exact: (TRUE if is_exact else FALSE, None)}
    return Struct(dict(sorted(fields.items())))


def _range(values: Any) -> LongRange | None:
    try:
        whole = range_of(values)
    except UnicodeDecodeError:
        return None
    # Readers take as many bytes as values of one length have.
    short = whole if pa.types.is_fixed_size_binary(values.type) else cut(whole)
    return LongRange(
        _encoded(short.min_value),
        _encoded(short.max_value),
        low_is_exact=short.min_value == whole.min_value,
        high_is_exact=short.max_value == whole.max_value,
    )


def _encoded(end: StatsValue | None) -> bytes:
    assert isinstance(end, str | bytes), end
    return end.encode() if isinstance(end, str) else end


def _leaves(values: Any) -> Iterator[Any]:
    """What a column is stored as, from the first to the last of its chunks."""
    kind = values.type
    if not pa.types.is_nested(kind):
        yield values
    elif pa.types.is_struct(kind):
        for field in values.flatten():
            yield from _leaves(field)
    else:
        if pa.types.is_map(kind):
            values = values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        yield from _leaves(pc.list_flatten(values))


def _has_long(values: Any) -> bool:
    kind = values.type
    if pa.types.is_dictionary(kind):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        return any(_has_long(chunk.dictionary) for chunk in chunks)
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        return False
    return (pc.max(pc.binary_length(values)).as_py() or 0) > LIBRARY_BYTES_MAX
