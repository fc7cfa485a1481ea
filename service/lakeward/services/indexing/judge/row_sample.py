"""Draws rows of a table, each set of them as likely as any other, and says of each its key and its file group.

Each row gets a random number, and the rows with the smallest are the sample. The rows of a base file without logs are
counted in its footer, and read only where one of them was drawn; a slice with logs is merged for its keys. So all rows
count alike, in large files and in small ones, and in logs as in base files.

Touches: reads footers of base files and the row groups with rows that are drawn; merges slices where there are logs.
Keeps:   equal tables, numbers and seeds give the same rows.
Memory:  a random number for each row of one file; the sample; what merging a slice needs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import NotFound, Unsupported
from lakeward.base.paths import join
from lakeward.format.parquet.base_file import count_rows
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.index.placed_keys import PLACED_KEYS
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.slice_keys import base_keys, slice_keys
from lakeward.storage.storage import Storage
from lakeward.table.file_group import BaseFile, FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class RowSample:
    rows: pa.Table
    """The rows that were drawn, in `PLACED_KEYS`."""
    of: int
    """How many rows there are to draw from."""
    notes: tuple[str, ...] = ()
    """What could not be drawn from."""
    read: ReadMeter = field(default_factory=ReadMeter)


def sample_rows(
    storage: Storage,
    snapshot: TableSnapshot,
    number: int,
    seed: int,
    *,
    with_logs: bool,
    merged_bytes_max: int | None = None,
    on_slice: Callable[[int, int], None] = lambda done, of: None,
) -> RowSample:
    """`number` rows of the newest slices, or all where there are no more. Raises `BrokenFile`.

    Args:
        with_logs: rows as a query finds them; else those of the base files, whatever logs say of them.
        merged_bytes_max: of slices with logs only so many bytes are merged, those that the seed chooses; the rows of
            the others are not drawn from. None: all.
        on_slice: called before each file slice how many are done, and of how many.
    """
    slices = sorted(
        (found for group in snapshot.file_groups if (found := newest_slice(group.slices)) is not None),
        key=lambda slice_: slice_.group_id,
    )
    lowest, meter = _Lowest(number), ReadMeter()
    notes: list[str] = []
    passed_over = _beyond(slices, merged_bytes_max, seed) if with_logs and merged_bytes_max is not None else frozenset()
    if passed_over:
        notes.append(f"{len(passed_over):,} file slices with logs were left for another time.")
    total, reading = 0, table_reading(snapshot, merges=True)
    for at, slice_ in enumerate(slices):
        on_slice(at, len(slices))
        if slice_.group_id in passed_over:
            continue
        random = np.random.default_rng([seed, zlib.crc32("/".join(slice_.group_id).encode())])
        try:
            if (with_logs and slice_.row_logs) or reading.key_fields:
                for keys in slice_keys(storage, reading, slice_, meter=meter):
                    lowest.offer(random.random(len(keys)), slice_number=at, keys=keys)
                    total += len(keys)
            elif slice_.base_file is not None:
                rows = _row_count(storage, snapshot, slice_.base_file)
                lowest.offer(random.random(rows), slice_number=at, keys=None)
                total += rows
        except NotFound:
            continue  # cleaned meanwhile
        except Unsupported as error:
            notes.append(f"{error.what} {error.why}")
    drawn = [_resolved(storage, snapshot, slices[at], rows, meter) for at, rows in lowest.by_slice()]
    return RowSample(pa.concat_tables([PLACED_KEYS.empty_table(), *drawn]), total, tuple(notes), meter)


def _beyond(slices: Sequence[FileSlice], bytes_max: int, seed: int) -> frozenset[GroupId]:
    """The slices with logs that are too much, in an order that the seed gives."""
    with_logs = [slice_ for slice_ in slices if slice_.row_logs]
    order = np.random.default_rng([seed, 1]).permutation(len(with_logs))
    total, beyond = 0, set()
    for at in order:
        total += with_logs[at].bytes
        if total > bytes_max:
            beyond.add(with_logs[at].group_id)
    return frozenset(beyond)


class _Lowest:
    """The `number` candidates with the smallest random numbers so far."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._below = 1.0
        """A candidate with a greater number cannot be among them any more."""
        self._held: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], int, pa.Array | None]] = []
        """Random numbers, places of the rows in their slice, the slice, and their keys where these were read."""
        self._count = 0

    def offer(self, numbers: npt.NDArray[np.float64], *, slice_number: int, keys: pa.Array | None) -> None:
        """Rows of one slice: without keys all of a file's."""
        places = np.flatnonzero(numbers < self._below)
        if not len(places):
            return
        self._held.append((numbers[places], places, slice_number, None if keys is None else keys.take(places)))
        self._count += len(places)
        if self._count > 2 * self._number:
            self._drop()

    def by_slice(self) -> Iterator[tuple[int, pa.Array | npt.NDArray[np.int64]]]:
        """Each slice that has some of them, with their keys, or their places in its base file."""
        self._drop()
        for _, places, slice_number, keys in self._held:
            yield slice_number, places if keys is None else keys

    def _drop(self) -> None:
        if self._count <= self._number:
            return
        every = np.concatenate([numbers for numbers, *_ in self._held])
        self._below = float(np.partition(every, self._number)[self._number])
        kept = []
        for numbers, places, slice_number, keys in self._held:
            chosen = np.flatnonzero(numbers < self._below)
            if len(chosen):
                taken = None if keys is None else keys.take(chosen)
                kept.append((numbers[chosen], places[chosen], slice_number, taken))
        self._held, self._count = kept, sum(len(numbers) for numbers, *_ in kept)


def _row_count(storage: Storage, snapshot: TableSnapshot, base: BaseFile) -> int:
    with storage.open_input(join(snapshot.base_path, base.path)) as source:
        return count_rows(source, name=base.path)


def _resolved(
    storage: Storage,
    snapshot: TableSnapshot,
    slice_: FileSlice,
    rows: pa.Array | npt.NDArray[np.int64],
    meter: ReadMeter,
) -> pa.Table:
    if isinstance(rows, np.ndarray):
        assert slice_.base_file is not None, "the rows are places in it"
        try:
            keys = _keys_at(storage, snapshot, slice_.base_file, rows, meter)
        except NotFound:
            return PLACED_KEYS.empty_table()  # cleaned meanwhile
    else:
        keys = rows
    where = [pa.repeat(pa.scalar(each, pa.string()), len(keys)) for each in slice_.group_id]
    return pa.table([keys, *where], schema=PLACED_KEYS)


def _keys_at(
    storage: Storage, snapshot: TableSnapshot, base: BaseFile, places: npt.NDArray[np.int64], meter: ReadMeter
) -> pa.Array:
    """The keys of these rows, which are in order; only their row groups are read."""
    left_out = np.zeros(len(places), np.int64)
    """Rows before each in row groups that are not read."""

    def choose(file: ParquetBatches) -> Sequence[int]:
        counts = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        ends = np.cumsum(counts, dtype=np.int64)
        groups = np.searchsorted(ends, places, side="right")
        chosen = np.unique(groups)
        skipped = np.array(counts, np.int64)
        skipped[chosen] = 0
        left_out[:] = np.cumsum(skipped)[groups]
        return [int(group) for group in chosen]

    found, start = [], 0
    for keys in base_keys(storage, join(snapshot.base_path, base.path), name=base.path, choose=choose, meter=meter):
        at = places - left_out - start
        found.append(keys.take(pa.array(at[(at >= 0) & (at < len(keys))])))
        start += len(keys)
    return pa.concat_arrays(found) if found else pa.array([], pa.string())
