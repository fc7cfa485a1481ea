"""Read an HFile by Hudi's own writer (1.1 and newer) or by HBase's (Hudi 0.14 to 1.0), also inside of another file.

    data blocks, HBase's leaf indexes among them | meta blocks, intermediate indexes |
    load on open: root data index, root meta index, file info | trailer

Opening reads the end of the file only; a lookup reads the data blocks that may hold its keys and the indexes above
them, each once for all of its keys.

The two orders in which keys may lie in an HFile.

HBase's writer takes keys in the order of their bytes. Hudi's own writer takes them as they come, and Hudi sorts Java
strings, by their UTF-16 units: there U+E000 to U+FFFF come after what lies beyond U+FFFF. The orders differ only
between keys whose first difference is of these two kinds, an emoji against a full-width letter for example; Hudi's own
lookups, which use bytes, can miss such a key. For every other key both orders find the same place in either file.

Touches: the file it is given, by seeking and reading inside of the range.
Keeps:   1. keys are found whichever of the two orders (`format/hfile/reader.py`) the file is in;
         2. a scan yields as many entries as the trailer says or ends in an error, so a loss is never silent;
         3. no block is read twice in a pass, so an index that leads in circles is an error and not an endless read;
         4. memory is bounded by one data block, one block of each index level and what a lookup finds.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import BinaryIO

import pyarrow as pa

from lakeward.format.hfile.block import HFileBlockType, read_block
from lakeward.format.hfile.entries import HFileEntries, decode_entries
from lakeward.format.hfile.index import IndexEntry, decode_inner_index, decode_root_index
from lakeward.format.hfile.info import decode_file_info
from lakeward.format.hfile.range import HFileRange
from lakeward.format.hfile.trailer import TRAILER_BYTES, read_trailer

# The first bytes in UTF-8: 0xEE and 0xEF for U+E000 to U+FFFF, 0xF0 to 0xF4 for what lies beyond.
_LEADS = re.compile(rb"[\xee-\xf4]")
_AS_UTF_16 = bytes.maketrans(b"\xf0\xf1\xf2\xf3\xf4\xee\xef", b"\xee\xef\xf0\xf1\xf2\xf3\xf4")


class KeyOrder(Enum):
    BYTES = "bytes"
    UTF_16 = "UTF-16"

    def rank(self, key: bytes) -> bytes:
        """Bytes that compare as the keys do in this order."""
        return key if self is KeyOrder.BYTES else key.translate(_AS_UTF_16)


def depends_on_order(key: bytes) -> bool:
    """Whether the key may have different places in the two orders."""
    return _LEADS.search(key) is not None


Entry = tuple[bytes, bytes]
"""Key and value."""

_Visited = tuple[HFileEntries, list[bytes]]
"""A data block and the probes that it may hold."""


class HFileReader:
    """The file is not closed; it must stay open as long as the reader is used."""

    def __init__(self, file: BinaryIO, *, length: int, name: str, offset: int = 0) -> None:
        """
        Args:
            length: of the HFile, which starts at `offset` of the file.
            name: how errors call the file.
        """
        self._source = HFileRange(file, offset=offset, length=length, name=name)
        self._trailer = read_trailer(self._source)
        at = self._trailer.load_on_open_offset
        loaded = []
        for kind in (HFileBlockType.ROOT_INDEX, HFileBlockType.ROOT_INDEX, HFileBlockType.FILE_INFO):
            loaded.append(read_block(self._source, at, kind, self._trailer.codec))
            at += loaded[-1].size
        if at > length - TRAILER_BYTES:
            raise self._source.broken(loaded[-1].offset, "the file info reaches into the trailer")
        self._root = decode_root_index(
            self._source, loaded[0], self._trailer.index_count, of_data=True, above_others=self._trailer.levels > 1
        )
        metas = decode_root_index(self._source, loaded[1], self._trailer.meta_count, of_data=False)
        self._metas = {entry.key.decode("utf-8", "replace"): entry for entry in metas}
        self._info = decode_file_info(self._source, loaded[2])

    @property
    def entry_count(self) -> int:
        """The number of entries that the trailer says; a scan proves it."""
        return self._trailer.entry_count

    @property
    def info(self) -> Mapping[str, bytes]:
        """The file info, what the writer of the format adds itself included."""
        return MappingProxyType(self._info)

    def meta_block(self, name: str) -> bytes | None:
        """What the meta block of this name holds; None without one."""
        entry = self._metas.get(name)
        if entry is None:
            return None
        return read_block(self._source, entry.offset, HFileBlockType.META, self._trailer.codec, size=entry.size).payload

    def scan(self) -> Iterator[HFileEntries]:
        """Every entry in file order, one data block after the other."""
        count = 0
        for entries, _ in self._visit(None, KeyOrder.BYTES):
            count += len(entries.keys)
            yield entries
        if count != self._trailer.entry_count:
            raise self._source.broken(
                self._source.length - TRAILER_BYTES,
                f"the trailer counts {self._trailer.entry_count} entries, and the data blocks hold {count}",
            )

    @property
    def data_blocks(self) -> Sequence[IndexEntry]:
        """The places of the data blocks, each with its first key. Raises `Unsupported` where the index has several
        levels, as no file of Lakeward has."""
        if self._trailer.levels != 1:
            raise self._source.unsupported(self._trailer.load_on_open_offset, "its index has several levels")
        return self._root

    def read_data(self, first: int, end: int) -> Iterator[HFileEntries]:
        """The entries of the data blocks from number `first` to before `end`, one block after the other, of which the
        bytes are read at once."""
        blocks = self.data_blocks[first:end]
        start, last = blocks[0].offset, blocks[-1]
        self._source.read_ahead(start, last.offset + last.size - start, f"data blocks {first} to {end - 1}")
        for each in blocks:
            block = read_block(self._source, each.offset, HFileBlockType.DATA, self._trailer.codec, size=each.size)
            yield decode_entries(self._source, block)

    def entries(self) -> Iterator[Entry]:
        """Every entry in file order."""
        for entries in self.scan():
            yield from zip(entries.keys.to_pylist(), entries.values.to_pylist(), strict=True)

    def lookup(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that are there; the first one where a key is there twice."""
        wanted = set(keys)
        found = self._lookup(sorted(wanted), KeyOrder.BYTES)
        left = [key for key in wanted if key not in found and depends_on_order(key)]
        if left:
            found |= self._lookup(sorted(left, key=KeyOrder.UTF_16.rank), KeyOrder.UTF_16)
        return found

    def with_prefixes(self, prefixes: Iterable[bytes]) -> Iterator[Entry]:
        """Every entry whose key starts with one of the prefixes, once."""
        wanted = _without_covered(prefixes)
        yield from self._with_prefixes([p for p in wanted if not depends_on_order(p)], KeyOrder.BYTES)
        exotic = [prefix for prefix in wanted if depends_on_order(prefix)]
        if exotic:
            found = list(self._with_prefixes(exotic, KeyOrder.BYTES))
            exotic.sort(key=KeyOrder.UTF_16.rank)
            other = list(self._with_prefixes(exotic, KeyOrder.UTF_16))
            # In the order of the file all are found, in the other one perhaps some.
            yield from max(found, other, key=len)

    def _lookup(self, keys: list[bytes], order: KeyOrder) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for entries, wanted in self._visit(keys, order):
            present = entries.keys.to_pylist()
            places = {key: _place(present, key, order) for key in wanted}
            hits = {key: place for key, place in places.items() if present[place : place + 1] == [key]}
            # All values at once: one by one they cost ten times as much.
            values = entries.values.take(pa.array(hits.values(), type=pa.int64())).to_pylist()
            found.update(zip(hits, values, strict=True))
        return found

    def _with_prefixes(self, prefixes: list[bytes], order: KeyOrder) -> Iterator[Entry]:
        for entries, wanted in self._visit(prefixes, order, as_prefixes=True):
            present = entries.keys.to_pylist()
            for prefix in wanted:
                first = end = _place(present, prefix, order)
                while end < len(present) and present[end].startswith(prefix):
                    end += 1
                yield from zip(present[first:end], entries.values[first:end].to_pylist(), strict=True)

    def _visit(self, probes: list[bytes] | None, order: KeyOrder, *, as_prefixes: bool = False) -> Iterator[_Visited]:
        """The data blocks that may hold the probes, which are sorted, each with its probes. None means every block."""
        read_up_to = [0] * self._trailer.levels

        def visit(index: list[IndexEntry], level: int, probes: list[bytes] | None) -> Iterator[_Visited]:
            for entry, wanted in _choose(index, probes, order, as_prefixes=as_prefixes):
                kind = _KINDS.get(level, HFileBlockType.INTERMEDIATE_INDEX)
                if entry.offset < read_up_to[level]:
                    raise self._source.broken(entry.offset, f"an index leads back to the block {kind.value.decode()}")
                block = read_block(self._source, entry.offset, kind, self._trailer.codec, size=entry.size)
                read_up_to[level] = block.offset + block.size
                if level:
                    yield from visit(decode_inner_index(self._source, block), level - 1, wanted)
                else:
                    yield decode_entries(self._source, block), wanted or []

        return visit(self._root, self._trailer.levels - 1, probes)


_KINDS = {0: HFileBlockType.DATA, 1: HFileBlockType.LEAF_INDEX}
"""What an index entry leads to, by the number of index levels below it."""


def _choose(
    index: list[IndexEntry], probes: list[bytes] | None, order: KeyOrder, *, as_prefixes: bool
) -> Iterator[tuple[IndexEntry, list[bytes] | None]]:
    """The entries, in file order, whose blocks may hold probes, and which ones."""
    if probes is None:
        yield from ((entry, None) for entry in index)
        return
    ranks = [order.rank(entry.key) for entry in index]
    wanted: dict[int, list[bytes]] = {}
    for probe in probes:
        last = bisect_right(ranks, order.rank(probe)) - 1
        if last >= 0:
            wanted.setdefault(last, []).append(probe)
        while as_prefixes and last + 1 < len(index) and index[last + 1].key.startswith(probe):
            last += 1
            wanted.setdefault(last, []).append(probe)
    # In a file of the other order the search may have jumped back and forth.
    yield from ((index[place], wanted[place]) for place in sorted(wanted))


def _place(keys: list[bytes], probe: bytes, order: KeyOrder) -> int:
    """The place of the first key that is not before the probe."""
    if order is KeyOrder.BYTES:
        return bisect_left(keys, probe)
    return bisect_left(keys, order.rank(probe), key=order.rank)


def _without_covered(prefixes: Iterable[bytes]) -> list[bytes]:
    """Sorted, without those that start with another one."""
    kept: list[bytes] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept
