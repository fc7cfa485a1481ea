"""What the footer of a base file says of all of its record keys: Hudi's bloom filter and range of keys, and our seal.

    lakeward.seal    1 <digest of filter, range and of what each row group is> <CRC-32 of its bytes> <CRC-32> ...

    lakeward.filter.rows    1 <CRC-32 of the filter and of where row groups are> <first row>+<number> ...

Where the rows of a filter are those of several files, this says which of them have the keys of each row group. It holds
for that filter and those row groups alone.

The seal is there for the next compaction of the file group. Where it holds, the row groups are those that were written
when their keys went into the filter and the range, in ascending order, and they can be copied without being decoded.
Another writer may keep all entries of a footer and change the rows: then row groups have other places, sizes, numbers
of rows or ranges, and the seal does not hold. Where it holds and bytes of a row group have another CRC, the file is
damaged.

Touches: nothing.
Keeps:   1. filter and range cover every key that was added, and those of row groups that are taken over;
         2. they come from the keys themselves, never from Parquet statistics, which may be cut short; what is known of
            row groups that are taken over from a filter and exact statistics on which a seal holds;
         3. a seal holds for the filter, the range and the row groups that it was made of, and no others; so do rows of
            the filter that are those of row groups.
See:     docs/decisions/0040-a-seal-on-the-keys.md
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE, BloomRows
from lakeward.format.bloom_size import NOTABLE_RATE, ROW_BYTES_MAX, size_for
from lakeward.format.murmur import key_buffers

BLOOM_KEY = "org.apache.hudi.bloomfilter"
BLOOM_TYPE_KEY = "hoodie_bloom_filter_type_code"
MIN_KEY = "hoodie_min_record_key"
MAX_KEY = "hoodie_max_record_key"
SEAL_KEY = "lakeward.seal"
"""The entry has the seal. Hudi passes over entries that it does not know."""

FILTER_ROWS_KEY = "lakeward.filter.rows"

_VERSION = "1"
_LARGER_MAX = 1.5
"""A joined filter may have so many times the size of one that is made for all keys."""
_SEALED_ENTRIES = (BLOOM_KEY, BLOOM_TYPE_KEY, MIN_KEY, MAX_KEY)
# From here on the order of UTF-8 bytes is not that of UTF-16 units: a lead byte of 0xEE is U+E000 or greater.
_ORDERS_DIFFER_FROM = 0xEE


@dataclass(frozen=True, slots=True)
class Extent:
    """A row group as a seal knows it."""

    start: int
    """The place of its first byte in the file; so that behind its last."""
    end: int
    rows: int
    min_key: bytes
    max_key: bytes


@dataclass(frozen=True, slots=True)
class SealedKeys:
    """What a footer says of all keys where its seal holds."""

    bloom: BloomFilter
    min_key: str
    max_key: str
    checksums: tuple[int, ...]
    """The CRC-32 of the bytes of each row group."""


class KeySummary:
    """Filter and range of the keys of a file that is being written."""

    def __init__(self, *, keys_expected: int | None, bloom_type: str, bloom_bytes_max: int = ROW_BYTES_MAX) -> None:
        """
        Args:
            keys_expected: sizes the filter; without it all keys are held in memory until `entries`.
            bloom_bytes_max: what its bits may take.
        """
        self._bloom_bytes_max = bloom_bytes_max
        self._bloom_type = bloom_type
        self._bloom: BloomFilter | None = None
        if keys_expected is not None:
            self._bloom = BloomFilter(keys_expected, bloom_type, bytes_max=bloom_bytes_max)
        self._held: list[pa.Array] = []
        self._rows = 0
        self.min_key: str | None = None
        self.max_key: str | None = None
        self.bloom_error_rate: float | None = None
        """How often the filter errs, where it has more keys than it has room for; once there are `entries`."""
        self._before: SealedKeys | None = None

    def add(self, keys: pa.StringArray) -> None:
        """Add the keys of rows; none of them is null."""
        assert keys.null_count == 0, "a row without a record key"
        if self._bloom is not None:
            self._bloom.add(keys)
        else:
            self._held.append(keys)
        self._rows += len(keys)
        self._widen(*key_range(keys))

    def begin_with(self, before: SealedKeys) -> None:
        """Go on with the filter of the file from which row groups are taken over; called before the first key."""
        assert not self._rows
        self._before = before
        self._bloom = before.bloom

    def take_over(self, extent_min: bytes, extent_max: bytes, *, rows: int) -> None:
        """Add a row group of that file. Its keys are in the filter.

        Args:
            extent_min: its smallest key in the order of bytes; so the greatest.
        """
        assert self._before is not None and self._bloom is not None
        self._bloom.count(rows)
        self._rows += rows
        if max(extent_min + extent_max) < _ORDERS_DIFFER_FROM:
            # A key between two such keys is between them in Java's order, too: where it first differs from one of
            # them, that one has a character on which both orders agree.
            self._widen(extent_min.decode(), extent_max.decode())
        else:
            self._widen(self._before.min_key, self._before.max_key)

    def entries(self) -> dict[str, str]:
        """What goes into the footer."""
        bloom = self._bloom
        if bloom is None:
            bloom = BloomFilter(self._rows, self._bloom_type, bytes_max=self._bloom_bytes_max)
            for keys in self._held:
                bloom.add(keys)
        if bloom.error_rate > NOTABLE_RATE:
            self.bloom_error_rate = bloom.error_rate
        entries = {BLOOM_KEY: bloom.to_base64()}
        if self._bloom_type != SIMPLE_TYPE_CODE:  # which is what Hudi takes a filter for that has no type beside it
            entries[BLOOM_TYPE_KEY] = self._bloom_type
        if self.min_key is not None and self.max_key is not None:
            entries |= {MIN_KEY: self.min_key, MAX_KEY: self.max_key}
        return entries

    def _widen(self, smallest: str, largest: str) -> None:
        if self.min_key is None or java_order_of(smallest) < java_order_of(self.min_key):
            self.min_key = smallest
        if self.max_key is None or java_order_of(largest) > java_order_of(self.max_key):
            self.max_key = largest


@dataclass(frozen=True, slots=True)
class JoinedKeys:
    """What the footers of several files say of keys, as one."""

    entries: Mapping[str, str]
    rows: tuple[range, ...]
    """The rows of the filter that are those of each file."""


def join_keys(footers: Sequence[Mapping[str, str]], *, keys: int, bloom_bytes_max: int) -> JoinedKeys | None:
    """None where a new filter of all keys is needed.

    The filter has the rows of all their filters, and so errs as often as they do together: a key that is looked for is
    found in no more files than before.

    Args:
        keys: how many they have together. Many small filters would take much more than one of them all.
        bloom_bytes_max: what the bits may take.
    """
    try:
        blooms = [BloomRows.of_base64(each[BLOOM_KEY].encode(), each[BLOOM_TYPE_KEY]) for each in footers]
        smallest, largest = [each[MIN_KEY] for each in footers], [each[MAX_KEY] for each in footers]
    except (KeyError, ValueError):
        return None
    size = sum(each.count * each.bits // 8 for each in blooms)
    if size > min(bloom_bytes_max, _LARGER_MAX * size_for(max(1, keys), bloom_bytes_max)[0] // 8):
        return None
    joined = BloomRows.joined(blooms)
    if joined is None:
        return None
    entries = {
        BLOOM_KEY: base64.b64encode(joined).decode("ascii"),
        BLOOM_TYPE_KEY: TYPE_CODE,
        MIN_KEY: min(smallest, key=java_order_of),
        MAX_KEY: max(largest, key=java_order_of),
    }
    ends = list(accumulate(each.count for each in blooms))
    return JoinedKeys(entries, tuple(range(end - each.count, end) for each, end in zip(blooms, ends, strict=True)))


def filter_rows(bloom: str, extents: Sequence[Extent], rows: Sequence[range]) -> str:
    """The entry that says which rows of the filter have the keys of each row group."""
    return " ".join([_VERSION, _checksum(bloom, extents), *(f"{of.start}+{len(of)}" for of in rows)])


def read_filter_rows(said: str, bloom: str, extents: Sequence[Extent], *, count: int) -> list[range] | None:
    """None where it is not said of this filter, which has so many rows, and these row groups."""
    words = said.split(" ")
    if words[:2] != [_VERSION, _checksum(bloom, extents)] or len(words) != 2 + len(extents):
        return None
    try:
        pairs = [(int(first), int(number)) for first, number in (word.split("+") for word in words[2:])]
    except ValueError:
        return None
    rows = [range(first, first + number) for first, number in pairs]
    return rows if all(0 <= each.start < each.stop <= count for each in rows) else None


def _checksum(bloom: str, extents: Sequence[Extent]) -> str:
    places = b"".join(struct.pack(">QQQ", each.start, each.end, each.rows) for each in extents)
    return f"{crc32(places, crc32(bloom.encode())):08x}"


def seal(entries: Mapping[str, str], extents: Sequence[Extent], checksums: Sequence[int]) -> str:
    """The seal of a file with these entries, whose row groups are these."""
    digest = hashlib.sha256()
    for name in _SEALED_ENTRIES:
        _add(digest, entries.get(name, "").encode())
    for extent, checksum in zip(extents, checksums, strict=True):
        digest.update(struct.pack(">QQQI", extent.start, extent.end, extent.rows, checksum))
        _add(digest, extent.min_key)
        _add(digest, extent.max_key)
    return " ".join([_VERSION, digest.hexdigest(), *(f"{checksum:08x}" for checksum in checksums)])


def read_sealed_keys(entries: Mapping[str, str], extents: Sequence[Extent]) -> SealedKeys | None:
    """What a footer with these entries says of all keys of these row groups; None where no seal holds on it."""
    said = entries.get(SEAL_KEY, "")
    try:
        checksums = tuple(int(checksum, 16) for checksum in said.split(" ")[2:])
        if len(checksums) != len(extents) or seal(entries, extents, checksums) != said:
            return None
        # A filter without a type beside it is a simple one.
        bloom = BloomFilter.from_base64(entries[BLOOM_KEY].encode(), entries.get(BLOOM_TYPE_KEY, SIMPLE_TYPE_CODE))
        return SealedKeys(bloom, entries[MIN_KEY], entries[MAX_KEY], checksums)
    except (KeyError, ValueError, struct.error):
        return None


def key_range(keys: pa.StringArray, *, is_sorted: bool = False) -> tuple[str, str]:
    """The smallest and the largest key as Java compares strings, which is how Hudi's index reads the two.

    Args:
        is_sorted: the keys are known to come in the order of their bytes.
    """
    offsets, data = key_buffers(keys)
    text = data[offsets[0] : offsets[-1]]
    if not len(text) or int(text.max()) < _ORDERS_DIFFER_FROM:
        if is_sorted:
            return keys[0].as_py(), keys[-1].as_py()
        found = pc.min_max(keys).as_py()
        return found["min"], found["max"]
    values = keys.to_pylist()
    return min(values, key=java_order_of), max(values, key=java_order_of)


def java_order_of(key: str) -> bytes:
    """Bytes whose order is that of Java's strings."""
    return key.encode("utf-16-be", "surrogatepass")


def _add(digest: hashlib._Hash, value: bytes) -> None:
    digest.update(struct.pack(">Q", len(value)))
    digest.update(value)
