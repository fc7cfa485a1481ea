"""The tails of a slice's logs (RFC-06): what the next log goes on with, and which keys its logs may have.

    the newest log's tail   rules keys out for itself and for the logs that it covers, as far as they are in the slice
    a key that it leaves    is asked of the own filter and the key list of each log that is covered
    a log without a tail    may have every key

A log that is listed and not in the slice is passed over: a rollback took it, or it is of another slice. One of another
size is another file, and asked by itself; so is one whose tail has another checksum, which is seen where the log is
opened for some key. A tail that was written under a compaction that has completed since says nothing of other logs:
they are of the slice before.

Touches: logs: the end of each, and of some the parts of their tails.
Keeps:   1. a key that a log has is never ruled out;
         2. a log that one read brings whole, or whose tail says few blocks, has no tail where it has another number of
            blocks.
Source:  RFC-06; `format/log/log_tail`
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.base.paths import join
from lakeward.format.file_name import PARQUET, parse_native_log
from lakeward.format.log.block import BlockType, count_blocks_from_end, scan_blocks
from lakeward.format.log.data_block import read_parquet_footer
from lakeward.format.log.log_tail import (
    Clique,
    CoveredLog,
    LogTail,
    TailKeys,
    TailPlace,
    find_listed,
    read_entry_tail,
    read_log_tail,
)
from lakeward.format.log.native_log.native_log_file import file_as_block
from lakeward.index.bloom.file_keys import FileKeys, KeyRange
from lakeward.read.logs.log_scan import open_log
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.file_system_view import GroupId

_END_BYTES: Final = 64 * 1024
"""Read at once of a log's end."""
_BLOCKS_COUNTED_MAX: Final = 4
"""A larger log of more blocks is taken to have as many as its tail says, since each more is a read; most have one."""
_TAILS_TRIED: Final = 3
"""So many of the newest logs are asked for one that the next log can go on with."""


@dataclass(frozen=True, slots=True)
class LogsBefore:
    """The logs of completed instants that a new log will lie behind; picklable."""

    folder: str
    """The path of their partition."""
    logs: tuple[tuple[str, int], ...]
    """Name and size, the newest last."""
    base_instant: str
    under: str | None
    """The compaction of the file group that is pending."""

    @classmethod
    def of(cls, base_path: str, group_id: GroupId, slice_: FileSlice | None, *, under: str | None) -> LogsBefore:
        """
        Args:
            slice_: the group's newest one, as a query reads it; None where there is none.
        """
        folder = join(base_path, group_id[0])
        if slice_ is None:
            return cls(folder, (), "", under)
        return cls(folder, names_and_sizes(slice_.row_logs), slice_.base_instant, under)


def names_and_sizes(logs: Iterable[LogFile]) -> tuple[tuple[str, int], ...]:
    return tuple((log.name.text, log.size) for log in logs)


class _WithEnd(io.RawIOBase):
    """A file whose end is read once and kept: most tails lie in it, and most footers."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._start = max(0, size - _END_BYTES)
        file.seek(self._start)
        self._end = file.read(size - self._start)
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        self._at = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        if self._at >= self._start:
            found = self._end[self._at - self._start :][:size]
        else:
            self._file.seek(self._at)
            found = self._file.read(size)
        self._at += len(found)
        return found


def open_log_tail(file: BinaryIO, size: int, name: str) -> tuple[LogTail, BinaryIO] | None:
    """The tail of a log, inline or native, and the file that its parts are read of; None where it has none.

    Args:
        file: the log, of so many bytes.
        name: its file name, which says of which kind it is.
    """
    native = parse_native_log(name)
    end = cast(BinaryIO, _WithEnd(file, size))
    if native is None:
        tail = read_log_tail(end, size)
        return None if tail is None or _has_other_blocks(end, size, tail, name) else (tail, end)
    if native.format != PARQUET or native.is_cdc:
        return None
    try:
        footer = read_parquet_footer(end, file_as_block(BlockType.PARQUET_DATA, size, name))
    except (BrokenFile, Unsupported):
        return None  # what reads its rows says so
    found = read_entry_tail(footer.entries, bytes_before=footer.offset)
    return None if found is None or found[0].own.count != footer.rows else found


def _has_other_blocks(end: BinaryIO, size: int, tail: LogTail, name: str) -> bool:
    """Whether a log has another number of blocks than its tail says. Those of a log that was read as a whole for its
    tail are scanned; those of a larger one are counted from its end, where they are few. What reads all of them
    (`find_block_damage`) counts any."""
    try:
        if size <= _END_BYTES:
            return sum(1 for _ in scan_blocks(end, size, name=name)) != tail.blocks
        if tail.blocks > _BLOCKS_COUNTED_MAX:
            return False
        return count_blocks_from_end(end, size, name=name, at_most=tail.blocks) != tail.blocks
    except (BrokenFile, Unsupported):
        return True  # what reads its rows says so


def place_of_next(storage: Storage, before: LogsBefore) -> TailPlace:
    """What the tail of a log behind these goes on with. Raises `NotFound`."""
    sizes = dict(before.logs)
    for name, size in reversed(before.logs[-_TAILS_TRIED:]):
        with storage.open_input(join(before.folder, name)) as file:
            found = open_log_tail(file, size, name)
            if found is None or _is_of_slice_before(found[0], before.base_instant):
                continue
            tail, parts = found
            filter_ = tail.filter_to_go_on_with(parts)
        if filter_ is not None:
            covered = [each for each in tail.covers if sizes.get(each.name) == each.size]
            covers = (*covered, CoveredLog(name, size, tail.crc32))
            return TailPlace(Clique(tail, filter_, covers), under=before.under)
    return TailPlace(under=before.under)


def covered_logs(storage: Storage, base_path: str, logs: Iterable[str]) -> tuple[CoveredLog, ...]:
    """What the tail of a log says of those that it was merged of. Raises `NotFound`.

    Args:
        logs: paths relative to the base path.
    """
    found = []
    for path in logs:
        with open_log(storage, base_path, path) as (file, size):
            tail = open_log_tail(file, size, name := path.rpartition("/")[2])
        found.append(CoveredLog(name, size, None if tail is None else tail[0].crc32))
    return tuple(found)


@dataclass(slots=True)
class _Asked:
    """A log that is still to be asked."""

    size: int
    keys: npt.NDArray[np.bool_]
    """For each key whether it may be there, by what covers it."""
    tail_crc: int | None = None
    """The checksum of its tail by the tail that covers it, which ruled keys out."""


def may_be_in_logs(
    storage: Storage, folder: str, logs: Sequence[tuple[str, int]], base_instant: str, keys: pa.StringArray
) -> npt.NDArray[np.bool_]:
    """For each key, none of which is null, whether one of the logs may have it. Raises `NotFound`.

    Args:
        logs: name and size, the newest last.
        base_instant: of their slice.
    """
    every = np.ones(len(keys), dtype=np.bool_)
    found = np.zeros(len(keys), dtype=np.bool_)
    left = {name: _Asked(size, every) for name, size in logs}
    for name, _ in reversed(logs):
        asked = left.pop(name, None)
        if asked is None or found.all():
            continue
        with storage.open_input(join(folder, name)) as file:
            opened = open_log_tail(file, asked.size, name)
            tail, parts = opened or (None, file)
            if asked.tail_crc != (None if tail is None else tail.crc32):
                asked.keys = every  # what covers a log of this name speaks of another file
            if tail is None:
                found |= asked.keys
                continue
            possible = _possible(parts, tail.cumulative, keys, asked.keys & ~found)
            own = possible if tail.holds_all_that_it_covers else _possible(parts, tail.own, keys, possible)
            found |= _listed(parts, tail, keys, own)
        if not _is_of_slice_before(tail, base_instant):
            _pass_over(tail, left, np.zeros_like(every) if tail.holds_all_that_it_covers else possible, asked.keys)
    return found


def _pass_over(
    tail: LogTail, left: dict[str, _Asked], possible: npt.NDArray[np.bool_], asked: npt.NDArray[np.bool_]
) -> None:
    """Ask what is covered no more for keys that it cannot have.

    Args:
        possible: of the keys that were asked, those that a log which is covered may have.
        asked: those of which the tail's filters were asked at all.
    """
    for each in tail.covers:
        covered = left.get(each.name)
        if covered is None or covered.size != each.size:
            continue
        covered.keys = covered.keys & (possible | ~asked)
        covered.tail_crc = each.tail_crc
        if not covered.keys.any():
            del left[each.name]


def _possible(
    file: BinaryIO, said: TailKeys, keys: pa.StringArray, among: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The keys of `among` that range and filter leave."""
    if not among.any():
        return among
    left = FileKeys(KeyRange(said.low, said.high), said.read_filter(file)).possible(keys.filter(pa.array(among)))
    passed: npt.NDArray[np.bool_] = pc.is_in(keys, value_set=left).to_numpy(zero_copy_only=False)
    return among & passed


def _listed(file: BinaryIO, tail: LogTail, keys: pa.StringArray, among: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The keys of `among` that the key list has, where there is one."""
    if tail.key_list is None or not among.any():
        return among
    data = tail.key_list.read(file)
    there = None if data is None else find_listed(data, keys)
    return among if there is None else among & there


def _is_of_slice_before(tail: LogTail, base_instant: str) -> bool:
    return tail.under is not None and tail.under <= base_instant
