"""Read a bucket file: keys in, the codes of their entries out; or all entries, block by block.

    seek    the blocks that may have a key that is looked for, through the cache; neighbours are read at once
    scan    all blocks between the first and the last of those, read in long stretches and not kept

Both look into each block once, for all of its keys. The file's range and its filter leave blocks alone before that.

Touches: the file it is given, by reading. It may be a stretch of another one: in RFC-08's form the content of a
         block of a log.
Keeps:   1. a file whose entries are not as many as it says is refused, when it is opened or when it is read whole;
         2. an entry that names a place or an instant that the file has not is refused;
         3. memory is bounded by the index, the tables, one stretch of blocks, and the cache's bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import load_i32
from lakeward.base.errors import BrokenFile
from lakeward.base.kernel import BOOL_IN, I32, I64_IN, kernel, types
from lakeward.format.hfile.info import LAST_KEY
from lakeward.format.hfile.reader import HFileReader
from lakeward.index.location import LOCATIONS
from lakeward.index.record.block_cache import BlockCache
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.entry_codes import Codes, CodesLimits, decode_values
from lakeward.index.record.file_form import FILTER, INSTANTS, PLACES, FileHead, decode_texts
from lakeward.index.record.key_block import KeyBlock, Numbers, Probes, search
from lakeward.index.record.key_filter import Hashes, KeyFilter
from lakeward.index.record.key_scope import split_entry_keys
from lakeward.index.record.record_options import LookupMode

ABSENT: Final = -1
"""In the place of a location: the file has no entry of the key."""

STRETCH_BYTES: Final = 4 * 1024 * 1024
"""Blocks next to each other are read at once up to so many bytes."""

_FILTER_NUMBER = -1
_KEY_LENGTH_BYTES = 2


IsValid = Callable[[str], bool]
"""Whether what entries say since an instant of a file's table counts."""


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """The entries of a data block."""

    keys: KeyBlock
    locations: Codes
    instants: Codes | None
    nbytes: int
    addresses: tuple[int, int]
    """Codes of locations and of instants, 0 without."""

    @classmethod
    def of(cls, keys: KeyBlock, locations: Codes, instants: Codes | None) -> EntryBlock:
        size, addresses = keys.nbytes + locations.nbytes, (locations.ctypes.data, 0)
        if instants is not None:
            size, addresses = size + instants.nbytes, (addresses[0], instants.ctypes.data)
        return cls(keys, locations, instants, size, addresses)


@dataclass(frozen=True, slots=True)
class PrefixMatches:
    """Entries whose keys lie between two probes."""

    rows: Numbers
    """The number of the probe of each."""
    keys: pa.Array
    locations: Codes
    instants: Codes


class BucketFile:
    """The file is not closed; it must stay open as long as this is used."""

    def __init__(
        self,
        file: BinaryIO,
        *,
        length: int,
        name: str,
        offset: int = 0,
        instant: str | None = None,
        cache: BlockCache | None = None,
    ) -> None:
        """
        Args:
            length: of the HFile, which starts at `offset` of the file.
            name: the file's name in errors and, with its commit, in the cache.
            instant: of all its entries, where the file has no table of instants.
            cache: for decoded blocks; None: none is kept.
        """
        self.name = name if offset == 0 else f"{name}, from byte {offset}"
        self._hfile = HFileReader(file, offset=offset, length=length, name=name)
        self._cache = cache or BlockCache(0)
        # A block of a log that was rolled back may have given its place to that of another commit.
        self._held_as = f"{self.name}, {length} bytes since {instant}"
        try:
            self.head = FileHead.from_info(self._hfile.info)
            partitions, at = decode_texts(self._meta(PLACES))
            file_ids, end = decode_texts(self._meta(PLACES), at)
            if len(partitions) != len(file_ids) or end != len(self._meta(PLACES)):
                raise ValueError("its table of places contradicts itself")
            stored = self._hfile.meta_block(INSTANTS)
            instants = None if stored is None else decode_texts(stored)[0]
        except ValueError as error:
            raise self.broken(str(error)) from None
        if self.head.entries != self._hfile.entry_count:
            raise self.broken(
                f"its file info counts {self.head.entries} entries, and its trailer {self._hfile.entry_count}"
            )
        self._partitions, self._file_ids = partitions, file_ids
        self.has_instants = instants is not None
        self.instants: pa.Array = pa.array([instant], pa.string()) if instants is None else instants
        """The instants that entries are since; of a file of one commit that one, or null where it is not known."""
        self._limits = CodesLimits(len(partitions), None if instants is None else len(instants))
        self._blocks = self._hfile.data_blocks
        self._index = self._make_index()

    @property
    def scope(self) -> KeyScope:
        return self.head.scope

    @property
    def entry_count(self) -> int:
        return self.head.entries

    @property
    def key_range(self) -> tuple[bytes, bytes] | None:
        """The first and the last key; None without any."""
        return None if self._index is None else (self._index.keys[0].as_py(), self._index.keys[-1].as_py())

    @property
    def block_count(self) -> int:
        return len(self._blocks)

    @property
    def places(self) -> tuple[pa.Array, pa.Array]:
        """(partition paths, file ids); entry n - 1 of them is the location n."""
        return self._partitions, self._file_ids

    def find(
        self, probes: Probes, rows: Numbers, *, hashes: Callable[[], Hashes], mode: LookupMode
    ) -> tuple[Codes, Codes]:
        """(location or `ABSENT`, instant) of each of these probes. Raises `BrokenFile`.

        Args:
            rows: numbers of the probes that are looked for.
            hashes: gives those of all probes' record keys, and is asked where the filter is.
            mode: SEEK or SCAN.
        """
        locations = np.full(len(rows), ABSENT, dtype=np.int32)
        instants = np.zeros(len(rows), dtype=np.int32)
        if self._index is None or len(rows) == 0:
            return locations, instants
        numbers = self._block_numbers(self._index, probes, rows)
        wanted = np.flatnonzero(numbers >= 0)
        if mode is LookupMode.SEEK:
            wanted = wanted[self._worth_a_look(numbers[wanted], rows[wanted], hashes)]
        for blocks, slots, items in self._visit(numbers[wanted], mode):
            items = wanted[items]
            places, is_there = search([block.keys for block in blocks], probes, rows[items], slots)
            addresses = np.array([block.addresses for block in blocks], dtype=np.int64).reshape(-1)
            _take_codes(addresses, slots, places, is_there, items, locations, instants)
        return locations, instants

    def find_between(
        self, low: Probes, high: Probes, rows: Numbers, *, hashes: Callable[[], Hashes], mode: LookupMode
    ) -> list[PrefixMatches]:
        """The entries from a key of `low` on to before that of `high`, for each of these numbers of both."""
        if self._index is None or len(rows) == 0:
            return []
        if mode is LookupMode.SEEK:
            rows = rows[self._filter().may_have(hashes()[rows])]
        firsts = self._block_numbers(self._index, low, rows, clip=True)
        zeros = np.zeros(len(rows), dtype=np.int64)
        lasts = np.minimum(search([self._index], high, rows, zeros)[0], len(self._blocks)) - 1
        counts = np.maximum(lasts - firsts + 1, 0)
        pair_rows = np.repeat(rows, counts)
        pair_blocks = (
            np.repeat(firsts, counts) + np.arange(len(pair_rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        )
        matches = []
        for blocks, slots, items in self._visit(pair_blocks, mode):
            keys = [block.keys for block in blocks]
            starts, _ = search(keys, low, pair_rows[items], slots)
            ends, _ = search(keys, high, pair_rows[items], slots)
            for slot, block in enumerate(blocks):
                here = np.flatnonzero((slots == slot) & (ends > starts))
                lengths = ends[here] - starts[here]
                at = np.repeat(starts[here] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
                matches.append(
                    PrefixMatches(
                        np.repeat(pair_rows[items][here], lengths),
                        block.keys.keys.take(pa.array(at)),
                        block.locations[at],
                        np.zeros(len(at), dtype=np.int32) if block.instants is None else block.instants[at],
                    )
                )
        return matches

    def blocks(self) -> Iterator[EntryBlock]:
        """All entries, block by block. Raises `BrokenFile`, also where they are not as many as the file says."""
        count = 0
        for first, end in self._stretches(np.arange(len(self._blocks))):
            for block in self._read(first, end):
                count += len(block.locations)
                yield block
        if count != self.entry_count:
            raise self.broken(f"it counts {self.entry_count} entries, and its blocks hold {count}")

    def locations(self) -> Iterator[pa.RecordBatch]:
        """All entries in `LOCATIONS`, in the order of their keys, those that say that a key is gone without a place."""
        for block in self.blocks():
            keys = block.keys.keys
            yield self.to_locations(keys, block.locations, block.instants)

    def to_locations(self, keys: pa.Array, locations: Codes, instants: Codes | None) -> pa.RecordBatch:
        """Entries in `LOCATIONS`."""
        columns = [*self.columns_of(locations, instants)]
        if self.scope is KeyScope.GLOBAL:
            return pa.RecordBatch.from_arrays([keys.view(pa.string()), *columns], schema=LOCATIONS)
        record_keys, paths = split_entry_keys(keys, self.scope)
        return pa.RecordBatch.from_arrays([record_keys, paths, *columns[1:]], schema=LOCATIONS)

    def columns_of(self, locations: Codes, instants: Codes | None) -> tuple[pa.Array, pa.Array, pa.Array]:
        """(partition path, file id, instant) of entries; null where one says that its key is gone."""
        places = pa.array(locations.astype(np.int64) - 1, mask=locations <= 0)
        if not self.has_instants or instants is None:
            since = pa.repeat(self.instants[0], len(locations))
        else:
            since = self.instants.take(pa.array(instants.astype(np.int64) - 1, mask=instants <= 0))
        return self._partitions.take(places), self._file_ids.take(places), since

    def _make_index(self) -> KeyBlock | None:
        """The first keys of the blocks, and the last key of all."""
        if not self._blocks:
            return None
        last = self._hfile.info.get(LAST_KEY, b"")
        length = int.from_bytes(last[:_KEY_LENGTH_BYTES], "big")
        keys = [entry.key for entry in self._blocks]
        return KeyBlock.of(pa.array([*keys, last[_KEY_LENGTH_BYTES : _KEY_LENGTH_BYTES + length]], pa.binary()))

    def _block_numbers(self, index: KeyBlock, probes: Probes, rows: Numbers, *, clip: bool = False) -> Numbers:
        """The block that may have each probe, -1 where none may.

        Args:
            clip: a probe before the first key has block 0.
        """
        places, is_there = search([index], probes, rows, np.zeros(len(rows), dtype=np.int64))
        last = len(self._blocks)
        numbers = np.where(is_there, np.minimum(places, last - 1), places - 1)
        if clip:
            return np.clip(numbers, 0, last)
        numbers[numbers >= last] = -1
        return numbers

    def _worth_a_look(self, numbers: Numbers, rows: Numbers, hashes: Callable[[], Hashes]) -> npt.NDArray[np.bool_]:
        """Which of these probes are looked for: those whose block is at hand, where looking costs no more than asking
        the filter, and those that the filter does not rule out."""
        at_hand = np.zeros(len(self._blocks), dtype=np.bool_)
        distinct = np.flatnonzero(np.bincount(numbers, minlength=1))
        at_hand[distinct] = self._cache.has(self._held_as, distinct.tolist())
        worth: npt.NDArray[np.bool_] = at_hand[numbers]
        unsure = np.flatnonzero(~worth)
        if len(unsure):
            worth[unsure] = self._filter().may_have(hashes()[rows[unsure]])
        return worth

    def _visit(self, numbers: Numbers, mode: LookupMode) -> Iterator[tuple[list[EntryBlock], Numbers, Numbers]]:
        """(blocks, which of them an item is for, the items): the items of all these blocks' numbers."""
        if len(numbers) == 0:
            return
        short = numbers.astype(np.uint16) if len(self._blocks) < 2**16 else numbers
        order = np.argsort(short, kind="stable")  # of short numbers by their digits, many times as fast
        ordered = numbers[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        distinct = ordered[starts]
        ends = np.append(starts[1:], len(ordered))
        if mode is LookupMode.SCAN:
            spread = np.arange(distinct[0], distinct[-1] + 1)
            for first, end in self._stretches(spread):
                chosen = slice(*np.searchsorted(distinct, (first, end)))
                if chosen.start < chosen.stop:
                    items = slice(starts[chosen.start], ends[chosen.stop - 1])
                    yield list(self._read(first, end)), ordered[items] - first, order[items]
            return
        at = 0
        while at < len(distinct):
            begin, blocks = at, self._some_blocks(distinct[at:].tolist())
            at += len(blocks)
            items = slice(starts[begin], ends[at - 1])
            slots = np.repeat(np.arange(len(blocks)), ends[begin:at] - starts[begin:at])
            yield blocks, slots, order[items]

    def _some_blocks(self, numbers: list[int]) -> list[EntryBlock]:
        """The first of these blocks, those that are not at hand up to a bound: which follow each other are read at
        once."""
        blocks: list[EntryBlock] = []
        held, size = self._cache.get_all(self._held_as, numbers), 0
        while len(blocks) < len(numbers) and size < STRETCH_BYTES * 8:
            at = len(blocks)
            block = held[at]
            if block is not None:
                assert isinstance(block, EntryBlock)
                blocks.append(block)
                continue
            first = end = numbers[at]
            stored = 0
            while at < len(numbers) and numbers[at] == end and held[at] is None and stored < STRETCH_BYTES:
                stored += self._blocks[end].size
                at, end = at + 1, end + 1
            for number, found in enumerate(self._read(first, end), first):
                self._cache.put(self._held_as, number, found)
                blocks.append(found)
                size += found.nbytes
        return blocks

    def _stretches(self, numbers: Numbers) -> Iterator[tuple[int, int]]:
        """(first, end) of blocks that are read at once, all of these numbers, which follow each other."""
        first = size = 0
        for place, number in enumerate(numbers):
            size += self._blocks[number].size
            if size >= STRETCH_BYTES or place == len(numbers) - 1:
                yield int(numbers[first]), int(number) + 1
                first, size = place + 1, 0

    def _read(self, first: int, end: int) -> Iterator[EntryBlock]:
        for number, entries in enumerate(self._hfile.read_data(first, end), first):
            decoded = decode_values(entries.values, self._limits)
            if isinstance(decoded, int) or len(entries.keys) == 0:
                raise self.broken(f"entry {decoded} of its data block {number} names what the file has not")
            yield EntryBlock.of(KeyBlock.of(entries.keys), *decoded)

    def _filter(self) -> KeyFilter:
        held = self._cache.get(self._held_as, _FILTER_NUMBER)
        if held is None:
            try:
                held = KeyFilter.from_bytes(self._meta(FILTER))
            except ValueError as error:
                raise self.broken(str(error)) from None
            self._cache.put(self._held_as, _FILTER_NUMBER, held)
        assert isinstance(held, KeyFilter)
        return held

    def _meta(self, name: str) -> bytes:
        found = self._hfile.meta_block(name)
        if found is None:
            raise ValueError(f"it has no meta block {name}")
        return found

    def broken(self, why: str) -> BrokenFile:
        """The error that says so of this file."""
        return BrokenFile(
            f"The index file {self.name} is broken.",
            why=f"{why[0].upper()}{why[1:]}.",
            remedy="Restore the file, or build the index again: it is made of the table alone.",
        )


@kernel(types.void(I64_IN, I64_IN, I64_IN, BOOL_IN, I64_IN, I32, I32))
def _take_codes(
    addresses: Any, slots: Any, places: Any, is_there: Any, items: Any, locations: Any, instants: Any
) -> None:
    """Put the codes of the entries at these places of their blocks where their items are."""
    for item in range(len(items)):
        if is_there[item]:
            at, of_instants = addresses[2 * slots[item]], addresses[2 * slots[item] + 1]
            locations[items[item]] = np.int32(load_i32(at + 4 * places[item]))
            if of_instants != 0:
                instants[items[item]] = np.int32(load_i32(of_instants + 4 * places[item]))


def invalid_codes(file: BucketFile, is_valid: IsValid) -> npt.NDArray[np.bool_] | None:
    """Which codes of instants are not valid; None: all are."""
    if not file.has_instants:
        return None
    invalid = np.array([False, *(not is_valid(instant) for instant in file.instants.to_pylist())])
    return invalid if invalid.any() else None
