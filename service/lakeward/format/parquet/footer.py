"""A Parquet footer, read without a Parquet library: is the file encrypted, or would the library end the process?

An encrypted footer shows in the magic (`PARE`). With a plain footer and encrypted columns only field 8 of the
footer's Thrift structure says so (`encryption_algorithm`), and pyarrow 26 does not raise but ends the process when
it meets the metadata of such a column. So the structure is walked here, skipping all but its field numbers. It
ends the process too where a damaged footer has histograms of levels that a column does not have, or fewer columns than
the schema.

    ... | footer: FileMetaData, Thrift compact protocol | length, 4 bytes little-endian | PAR1 or PARE

The bloom filter of a base file is text in its footer, eight bytes for each row, and the library holds it four times.
What reads rows and looks for no key opens the file without it.

Touches: nothing; the digests of the last footers are remembered in the process.
Keeps:   1. without its bloom filter a footer says all else that it said; one that cannot be taken apart stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from lakeward.base.errors import BrokenFile
from lakeward.format.parquet.thrift_compact import CompactReader
from lakeward.format.parquet.thrift_tree import read_struct

TAIL_BYTES = 8
"""Length and magic."""

PLAIN = b"PAR1"
_ENCRYPTED_FOOTER = b"PARE"
_ENCRYPTION_ALGORITHM = 8
FOOTER_BYTES_MAX = 64 * 1024 * 1024
_FOOTERS_REMEMBERED = 1024
_plain_footers: set[bytes] = set()
"""Digests of footers of which it is known that nothing is encrypted."""

# Fields of FileMetaData, SchemaElement, RowGroup, ColumnChunk, ColumnMetaData and SizeStatistics.
_SCHEMA, _GROUPS = 2, 4
_REPETITION, _CHILDREN = 3, 5
_REQUIRED, _REPEATED = 0, 2
_CHUNKS, _FACTS, _TYPE, _CODEC, _SIZES = 1, 3, 1, 4, 16
_CODEC_MAX = 7
_UNENCODED, _REPETITIONS, _DEFINITIONS = 1, 2, 3
_BYTE_ARRAY = 6

_BLOOM_KEY = b"org.apache.hudi.bloomfilter"
_BLOOM_ENTRY = b"\x18" + bytes([len(_BLOOM_KEY)]) + _BLOOM_KEY + b"\x18"
"""The beginning of a KeyValue: its first field, a string, and the header of its second."""
_SMALL_BLOOM_BYTES = 64 * 1024


def footer_bytes(tail: bytes, *, file: str) -> int:
    """The length of the footer by the file's last eight bytes. Raises `BrokenFile` where they end no Parquet file."""
    if len(tail) != TAIL_BYTES or tail[4:] not in (PLAIN, _ENCRYPTED_FOOTER):
        raise BrokenFile(
            f"{file} is not a Parquet file.",
            why="It does not end with PAR1 or PARE.",
            remedy="Restore the file from a copy.",
        )
    length = int.from_bytes(tail[:4], "little")
    if length > FOOTER_BYTES_MAX:
        raise BrokenFile(
            f"{file} has a footer that no file needs.",
            why=f"It claims {length} bytes of footer, and at most {FOOTER_BYTES_MAX} are read.",
            remedy="Restore the file from a copy.",
        )
    return length


def read_ending(source: BinaryIO, size: int, *, file: str) -> tuple[bytes, bytes]:
    """The last eight bytes of a file of this size, and the footer before them. Raises `BrokenFile`."""
    source.seek(max(0, size - TAIL_BYTES))
    tail = source.read(TAIL_BYTES)
    length = footer_bytes(tail, file=file)
    if length > size - TAIL_BYTES:
        raise BrokenFile(f"{file} is shorter than its footer says.")
    source.seek(size - TAIL_BYTES - length)
    return tail, source.read(length)


def without_bloom(footer: bytes) -> bytes:
    """The footer with an empty bloom filter, if it has a large one."""
    at = footer.rfind(_BLOOM_ENTRY)
    if at < 0:
        return footer
    reader = CompactReader(footer, at)
    try:
        entry = reader.struct_fields()
        end = reader.position - 1
        # Other entries, and the fields behind them: as bytes these are one more structure.
        while reader.position < len(footer):
            reader.struct_fields()
    except ValueError:
        return footer
    value = at + len(_BLOOM_ENTRY)
    if entry != {1, 2} or end - value < _SMALL_BLOOM_BYTES:
        return footer
    return footer[:value] + b"\0" + footer[end:]


def is_encrypted(tail: bytes, footer: bytes, *, file: str) -> bool:
    """True when the footer or any column is encrypted."""
    if tail[4:] == _ENCRYPTED_FOOTER:
        return True
    # A log that is merged is opened for its keys, for its size and for its rows, and the walk takes as long as a page.
    digest = hashlib.sha256(without_bloom(footer)).digest()
    if digest in _plain_footers:
        return False
    try:
        if _ENCRYPTION_ALGORITHM in CompactReader(footer).struct_fields():
            return True
        if len(_plain_footers) >= _FOOTERS_REMEMBERED:
            _plain_footers.clear()
        _plain_footers.add(digest)
        return False
    except ValueError as error:
        raise BrokenFile(
            f"The footer of {file} cannot be read.", why=f"{error}.", remedy="Restore the file from a copy."
        ) from error


def check_library_can_open(footer: bytes) -> None:
    """`ValueError` for what the library does not refuse but ends the process at.

    What cannot be read as Thrift, or takes too much memory as a tree, is left to the library.
    """
    try:
        tree, _ = read_struct(footer, only_read=True)
    except ValueError:
        return
    try:
        levels = list(_leaf_levels(iter(tree.get(_SCHEMA).values)))
        groups = [group.get(_CHUNKS).values for group in tree.get(_GROUPS).values]
        for chunks in groups:
            if len(chunks) != len(levels):
                raise ValueError(f"a row group has {len(chunks)} columns, and the schema {len(levels)}")
            for number, (chunk, of_leaf) in enumerate(zip(chunks, levels, strict=True)):
                facts = chunk.get(_FACTS)
                if not 0 <= facts.get(_CODEC) <= _CODEC_MAX:
                    raise ValueError(f"column {number} has the compression {facts.get(_CODEC)}, which there is not")
                _check_sizes(facts, number, *of_leaf)
    except (AttributeError, TypeError, StopIteration, RuntimeError, RecursionError) as error:
        raise ValueError("its structures are not those of a Parquet footer") from error


def _leaf_levels(elements: Iterator[Any]) -> Iterator[tuple[int, int]]:
    """The greatest repetition and definition level of each column, in the order of their chunks."""
    root = next(elements)
    pending = [(int(root.get(_CHILDREN, 0)), 0, 0)]
    while pending:
        left, repetition, definition = pending.pop()
        if left <= 0:
            continue
        pending.append((left - 1, repetition, definition))
        element = next(elements)
        kind = element.get(_REPETITION, _REQUIRED)
        if not _REQUIRED <= kind <= _REPEATED:
            raise ValueError(f"a column of its schema has the repetition {kind}, which there is not")
        levels = repetition + (kind == _REPEATED), definition + (kind != _REQUIRED)
        if children := element.get(_CHILDREN, 0):
            pending.append((children, *levels))
        else:
            yield levels


def _check_sizes(facts: Any, column: int, repetition_max: int, definition_max: int) -> None:
    sizes = facts.get(_SIZES)
    if sizes is None:
        return
    for field, level_max in ((_REPETITIONS, repetition_max), (_DEFINITIONS, definition_max)):
        histogram = sizes.get(field)
        if histogram is not None and len(histogram.values) not in (0, level_max + 1):
            raise ValueError(f"column {column} has a histogram of {len(histogram.values)} levels, not {level_max + 1}")
    if sizes.get(_UNENCODED) is not None and facts.get(_TYPE) != _BYTE_ARRAY:
        raise ValueError(f"column {column} has a size of texts, and is of none")
