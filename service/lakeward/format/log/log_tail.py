"""The tail of a log: which keys the log may have, said behind the counted records of its last block (RFC-06).

    start        ten bytes that no reader takes for the beginning of a record
    own          a bloom filter of the log's keys; none where the cumulative one has no others
    list         the log's keys (`key_list`), where they are many, and in no column of the log's own
    cumulative   a bloom filter of the keys of this log and of the logs that it covers
    directory    JSON: ranges, the logs that are covered, bytes and CRC-32 of the parts above
    trailer      the file's size, its number of blocks, the bytes of the directory, the CRC-32 of all of these, a magic

One tail speaks for the whole file. It lies in the block that is written last (behind Parquet, whose end is its footer,
in an empty block of deletes), so that one read of the file's end brings directory and cumulative filter. Hudi's readers
read as many records as a block counts, and pass over what follows. The tail of a native log, which is a Parquet file as
it stands, is an entry of its footer in Base64, which other readers pass over; the size in it is that of what lies in
front of the footer, and the blocks are one.

A filter has Hudi's hash and errs about once in a hundred keys. The cumulative one has room for six times the keys of
the log that began it; where they are full, or `CLIQUE_LOGS_MAX` logs are in one, the next log begins a new one.

Touches: nothing; the log it is given, by seeking and reading.
Keeps:   1. a key that was added is neither ruled out by a range nor by a filter, and is in the list if there is one;
         2. a file of another size than its tail says has no tail, nor has one whose directory is torn;
         3. a part that has another CRC than its directory says rules nothing out;
         4. no length in a tail is used before it is known to lie inside of the file.
Memory:  writing, the keys of one run, and those of the others as they are compressed, 17 to 20 bytes a UUID; reading,
         the end of the file.
Source:  RFC-06 (bloom and range index of log files); `docs/formats/log-tail.md`
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.bloom_filter import BloomFilter, add_to_each
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, BloomRows
from lakeward.format.log.key_list import KeyListWriter, are_sorted, read_key_list
from lakeward.format.parquet.key_summary import java_order_of, key_range

CLIQUE_LOGS_MAX: Final = 10
"""So many logs share a cumulative filter at most."""
KEYS_LISTED_MIN: Final = 1_000
"""A log of fewer keys is read as fast as a list of them."""

TAIL_ENTRY: Final = "lakeward.log.tail"
"""The key of the entry in the footer of a native log."""
_ENTRY_BYTES_MAX: Final = 16 * 1024 * 1024
"""What readers of the log may have to read beside the rest of its footer: some 1.5 million keys."""

_START: Final = b"\xffLAKETAIL\n"
_MAGIC: Final = b"\nLAKETAIL"
_TRAILER: Final = struct.Struct(">QIII")
_BEHIND_TAIL: Final = 4 + 8
"""The end of a block: a footer of no entries, and the way back."""
_END_BYTES: Final = 64 * 1024
"""Read at once of a file's end."""
_FILTER_BITS_A_KEY: Final = -math.log(0.01) / math.log(2) ** 2
_ROOM_TIMES: Final = 6
_RUN_KEYS: Final = 65_536


@dataclass(frozen=True, slots=True)
class TailPart:
    """A part of a tail: where in the file it lies."""

    offset: int
    length: int
    crc32: int

    def read(self, file: BinaryIO) -> bytes | None:
        """None where it is not what was written."""
        file.seek(self.offset)
        data = file.read(self.length)
        return data if zlib.crc32(data) == self.crc32 else None


@dataclass(frozen=True, slots=True)
class TailKeys:
    """Keys that there may be: none lies outside of the range, in Java's order, and the filter has all of them."""

    low: str
    high: str
    count: int
    filter: TailPart | None

    def read_filter(self, file: BinaryIO) -> BloomRows | None:
        """None where there is none that can be used."""
        data = None if self.filter is None else self.filter.read(file)
        try:
            return None if data is None else BloomRows.of_bytes(data, SIMPLE_TYPE_CODE)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class CoveredLog:
    """A log whose keys are among those of another one's cumulative filter."""

    name: str
    size: int
    tail_crc: int | None
    """The CRC-32 of its own tail; None where it has none."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """What the tail of a log says."""

    crc32: int
    """The checksum of directory and trailer, by which other tails name this one."""
    blocks: int
    own: TailKeys
    cumulative: TailKeys
    room: int
    """The keys that the cumulative filter is made for."""
    logs: int
    """The logs whose keys were added to the cumulative filter one by one, this one among them."""
    covers: tuple[CoveredLog, ...]
    """Beside this log."""
    under: str | None
    """The pending compaction under which the log was written: once its base file is there, the logs that are covered
    are of the slice before."""
    key_list: TailPart | None

    @property
    def holds_all_that_it_covers(self) -> bool:
        """No log that is covered has a key that this one has not: it was merged of them, or there is none."""
        return self.own.filter is None

    def filter_to_go_on_with(self, file: BinaryIO) -> BloomFilter | None:
        """The cumulative filter; None where it cannot be used."""
        rows = self.cumulative.read_filter(file)
        return None if rows is None else BloomFilter.from_rows(rows)


@dataclass(frozen=True, slots=True)
class Clique:
    """What the tail of the next log goes on with."""

    tail: LogTail
    filter: BloomFilter
    covers: tuple[CoveredLog, ...]


@dataclass(frozen=True, slots=True)
class TailPlace:
    """The place of a new log among others."""

    goes_on: Clique | None = None
    merged: tuple[CoveredLog, ...] = ()
    """The logs that this one was merged of: it has all of their keys."""
    under: str | None = None


NO_OTHERS: Final = TailPlace()


class LogTailBuilder:
    """Collects the keys of a log, and makes its tail."""

    def __init__(self, place: TailPlace = TailPlace(), *, lists_keys: bool = True) -> None:
        """
        Args:
            lists_keys: False where the log has them in a column of their own.
        """
        self.place = place
        """Until `close` it may become another one."""
        self._lists_keys = lists_keys
        self._list: KeyListWriter | None = None
        """None while all keys wait in memory."""
        self._waiting: list[pa.Array] = []
        self._waiting_keys = 0
        self._keys = 0
        self._ends: tuple[str, str] | None = None
        self._entry: Mapping[str, str] = {}
        self._bytes_before = 0

    def add(self, keys: pa.Array) -> None:
        """Add the keys of rows or deletes; none of them is null."""
        if not len(keys):
            return
        if not pa.types.is_string(keys.type):
            keys = keys.cast(pa.string())
        self._keys += len(keys)
        self._waiting.append(keys)
        self._waiting_keys += len(keys)
        while self._waiting_keys > _RUN_KEYS:
            self._write_run(*self._next_run(_RUN_KEYS))

    def close(self, *, file_bytes: int, blocks: int) -> bytes:
        """The tail; nothing for a log without keys.

        Args:
            file_bytes: what the file takes without it.
        """
        return self._tail(lambda length: file_bytes + length, blocks)

    def close_as_entry(self, *, bytes_before: int) -> Mapping[str, str]:
        """The tail of a native log as an entry of its footer; nothing for a log without keys, and where the entry would
        be larger than `_ENTRY_BYTES_MAX`.

        Args:
            bytes_before: what lies in front of the footer.
        """
        entry = b64encode(self._tail(lambda _: bytes_before, 1)).decode()
        self._bytes_before = bytes_before
        self._entry = {TAIL_ENTRY: entry} if 0 < len(entry) <= _ENTRY_BYTES_MAX else {}
        return self._entry

    def place_of_next(self, name: str, size: int) -> TailPlace:
        """The place of a log behind this native one, by what its tail says; called when it was written.

        Args:
            name: of this log.
            size: of this log.
        """
        found = read_entry_tail(
            {key.encode(): value.encode() for key, value in self._entry.items()}, bytes_before=self._bytes_before
        )
        filter_ = None if found is None else found[0].filter_to_go_on_with(found[1])
        if found is None or filter_ is None:
            return TailPlace(under=self.place.under)
        covers = (*found[0].covers, CoveredLog(name, size, found[0].crc32))
        return TailPlace(Clique(found[0], filter_, covers), under=self.place.under)

    def _tail(self, size_of: Callable[[int], int], blocks: int) -> bytes:
        """
        Args:
            size_of: what the trailer says of the file, by the length of the tail.
        """
        if not self._keys:
            return b""
        last, is_sorted = self._next_run(self._waiting_keys)
        assert self._ends is not None, "a run was taken"
        is_alone = self._list is None
        is_listed = self._lists_keys and self._keys >= KEYS_LISTED_MIN
        if is_listed or not is_alone:
            self._write_run(last, is_sorted)
        key_list = b"" if self._list is None else self._list.close()
        runs = (last,) if is_alone else read_key_list(key_list)

        own = TailKeys(*self._ends, self._keys, None)
        goes_on = self.place.goes_on
        if goes_on is not None and _has_room(goes_on.tail, self._keys):
            of_own, cumulative, covers = _new_filter(self._keys), goes_on.filter, goes_on.covers
            filters = [of_own, cumulative]
            before = goes_on.tail
            ends = _widest(self._ends, (before.cumulative.low, before.cumulative.high))
            every = TailKeys(*ends, before.cumulative.count + self._keys, None)
            room, logs = before.room, before.logs + 1
        else:
            room = self._keys * _ROOM_TIMES
            of_own, cumulative, covers = None, _new_filter(room), self.place.merged
            filters = [cumulative]
            every, logs = own, 1
        for run in runs:
            add_to_each(filters, run)
        filter_bytes = b"" if of_own is None else of_own.to_bytes()
        parts = [filter_bytes, key_list if is_listed else b"", cumulative.to_bytes()]
        directory = {
            "version": 1,
            "own": {"low": own.low, "high": own.high, "keys": own.count},
            "cumulative": {"low": every.low, "high": every.high, "keys": every.count, "room": room, "logs": logs},
            "covers": [[each.name, each.size, each.tail_crc] for each in covers],
            "under": self.place.under,
            "parts": [[len(part), zlib.crc32(part)] for part in parts],
        }
        text = json.dumps(directory, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        length = len(_START) + sum(map(len, parts)) + len(text) + _TRAILER.size + len(_MAGIC)
        size = size_of(length)
        trailer = _TRAILER.pack(size, blocks, len(text), _crc(text, size, blocks))
        return b"".join((_START, *parts, text, trailer, _MAGIC))

    def _next_run(self, keys: int) -> tuple[pa.StringArray, bool]:
        """The first of the keys that wait, which are so many at least, and whether they come in the order of their
        bytes; no others wait then but the rest."""
        waiting = self._waiting[0]
        if len(self._waiting) > 1:
            waiting = pa.chunked_array(self._waiting, pa.string()).combine_chunks()
        rest = waiting.slice(keys)
        self._waiting, self._waiting_keys = ([rest] if len(rest) else []), len(rest)
        run = waiting.slice(0, keys)
        # Rows of a write come in the order of their keys, and so do deletes.
        is_sorted = are_sorted(run)
        self._ends = _widest(self._ends, key_range(run, is_sorted=is_sorted))
        return run, is_sorted

    def _write_run(self, run: pa.StringArray, is_sorted: bool) -> None:
        if self._list is None:
            self._list = KeyListWriter()
        self._list.add(run, is_sorted=is_sorted)


def read_log_tail(file: BinaryIO, size: int) -> LogTail | None:
    """The tail of a log of `size` bytes; None where it has none."""
    return _read_tail(file, size, says=size, behind_tail=_BEHIND_TAIL)


def read_entry_tail(entries: Mapping[bytes, bytes], *, bytes_before: int) -> tuple[LogTail, BinaryIO] | None:
    """The tail of a native log, and the file that its parts are read of; None where it has none.

    Args:
        entries: of the footer.
        bytes_before: what lies in front of the footer.
    """
    try:
        data = b64decode(entries.get(TAIL_ENTRY.encode(), b""), validate=True)
    except ValueError:
        return None
    tail = _read_tail(BytesIO(data), len(data), says=bytes_before, behind_tail=0)
    return None if tail is None else (tail, BytesIO(data))


def _read_tail(file: BinaryIO, size: int, *, says: int, behind_tail: int) -> LogTail | None:
    """
    Args:
        size: of the file that the tail lies in.
        says: what its trailer must say of the size of the log.
        behind_tail: bytes of the file behind the tail.
    """
    data = _read_end(file, size, _END_BYTES)
    behind = len(data) - behind_tail - len(_MAGIC)
    if behind < _TRAILER.size or data[behind : behind + len(_MAGIC)] != _MAGIC:
        return None
    said, blocks, length, crc32 = _TRAILER.unpack_from(data, behind - _TRAILER.size)
    before = size - behind_tail - len(_MAGIC) - _TRAILER.size
    if said != says or length > before:
        return None
    if length > behind - _TRAILER.size:
        data = _read_end(file, size, length + _TRAILER.size + len(_MAGIC) + behind_tail)
        behind = len(data) - behind_tail - len(_MAGIC)
    text = data[behind - _TRAILER.size - length : behind - _TRAILER.size]
    if _crc(text, said, blocks) != crc32:
        return None
    try:
        return _tail_of(json.loads(text.decode("utf-8", "surrogatepass")), before - length, crc32, blocks)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def find_listed(key_list: bytes, keys: pa.StringArray) -> npt.NDArray[np.bool_] | None:
    """For each key whether it is in the list; None where that cannot be read."""
    found = np.zeros(len(keys), dtype=np.bool_)
    try:
        for listed in read_key_list(key_list):
            found |= pc.is_in(keys, value_set=listed).to_numpy(zero_copy_only=False)
    except ValueError:
        return None
    return found


def _tail_of(said: Mapping[str, Any], end: int, crc32: int, blocks: int) -> LogTail:
    """
    Args:
        end: of the parts, in the file.
    """
    if said["version"] != 1:
        raise ValueError("another version")
    lengths = [int(length) for length, _ in said["parts"]]
    start = end - sum(lengths)
    if len(lengths) != 3 or min(lengths) < 0 or start < 0:
        raise ValueError("its parts are not inside of the file")
    extents = []
    for length, checksum in said["parts"]:
        extents.append(TailPart(start, length, int(checksum)) if length else None)
        start += length
    of_own, listed, of_every = extents
    own, every = said["own"], said["cumulative"]
    under = said["under"]
    return LogTail(
        crc32=crc32,
        blocks=blocks,
        own=_keys_of(own, of_own),
        cumulative=_keys_of(every, of_every),
        room=int(every["room"]),
        logs=int(every["logs"]),
        covers=tuple(
            CoveredLog(_text(name), int(size), None if crc is None else int(crc)) for name, size, crc in said["covers"]
        ),
        under=None if under is None else _text(under),
        key_list=listed,
    )


def _keys_of(said: Mapping[str, Any], filter_: TailPart | None) -> TailKeys:
    return TailKeys(_text(said["low"]), _text(said["high"]), int(said["keys"]), filter_)


def _text(said: Any) -> str:
    if not isinstance(said, str):
        raise ValueError("no text")
    return said


def _read_end(file: BinaryIO, size: int, length: int) -> bytes:
    start = max(0, size - length)
    file.seek(start)
    return file.read(size - start)


def _crc(directory: bytes, size: int, blocks: int) -> int:
    return zlib.crc32(directory, zlib.crc32(struct.pack(">QI", size, blocks)))


def _new_filter(keys: int) -> BloomFilter:
    return BloomFilter(keys, SIMPLE_TYPE_CODE, bytes_max=math.ceil(keys * _FILTER_BITS_A_KEY / 8))


def _has_room(before: LogTail, keys: int) -> bool:
    return before.logs < CLIQUE_LOGS_MAX and before.cumulative.count + keys <= before.room


def _widest(one: tuple[str, str] | None, other: tuple[str, str]) -> tuple[str, str]:
    if one is None:
        return other
    return min(one[0], other[0], key=java_order_of), max(one[1], other[1], key=java_order_of)
