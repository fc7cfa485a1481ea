"""The bloom index of whole file slices: keys are found that are in logs, and none that a log deleted.

    a slice without logs    as `bloom_index` has it
    a slice with logs       a key that neither the base file nor a log may have is not in it; for the others the slice
                            is merged

Each is asked for the keys that those before it left, the cheapest first, and none once every key may be in the slice:

    the cache       ranges and filters of the base file, and of logs where it was built with them (`filter_cache`)
    tails           of the logs that it does not have, where an operator lets logs have some (`log_tails`)
    the footer      of the base file, where the cache does not have it

A log of which neither cache nor tail speaks may have every key. Hudi's writers with a bloom index look into no logs; so
writes by `bloom` use this one where Lakeward alone writes the table, and keys may be in logs alone.

Touches: file slices, of which some are merged; what `bloom_index` does.
Keeps:   1. what it finds of a slice's keys are those of its rows, whatever the cache has;
         2. a slice that has a row of a key is among those that may have it.
See:     docs/decisions/0081-the-cache-of-filters.md, docs/decisions/0155-tails-of-logs.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.format.parquet.key_summary import java_order_of
from lakeward.index.base_files import KeyFile
from lakeward.index.bloom.bloom_index import BloomIndex, BloomPart, spans_of
from lakeward.index.bloom.cached_keys import CachedKeys
from lakeward.index.bloom.file_keys import FileKeys, KeyRange
from lakeward.index.bloom.filter_cache import report_broken
from lakeward.index.bloom.log_tails import may_be_in_logs, names_and_sizes
from lakeward.index.location import LOCATIONS
from lakeward.index.tail_choice import read_tail_choice, why_no_tails
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.slice_keys import slice_keys
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class SlicePart:
    slice_: FileSlice
    base: BloomPart | None
    logs: tuple[CachedKeys | None, ...]
    """What the cache has of each log."""

    @property
    def partition_path(self) -> str:
        return self.slice_.partition_path


@dataclass(frozen=True, slots=True)
class SliceBloomIndex:
    snapshot: TableSnapshot
    bloom: BloomIndex
    reads_tails: bool = False
    """Logs may have tails."""

    is_global = False
    can_index_log_files = True

    @classmethod
    def of(cls, storage: Storage, snapshot: TableSnapshot, *, clock: Clock) -> SliceBloomIndex:
        tails = why_no_tails(snapshot.config) is None and read_tail_choice(storage, snapshot.base_path).may_be_there
        return cls(snapshot, BloomIndex.of(storage, snapshot, clock=clock), tails)

    def __reduce__(self) -> tuple[object, ...]:
        """To tasks nothing of the table's files travels: each part has its slice."""
        bare = replace(self.snapshot, file_groups=(), replaced_groups=(), base_file_facts=(), base_rows={}, files=())
        return SliceBloomIndex, (bare, self.bloom, self.reads_tails)

    def parts(self, partitions: Collection[str] | None) -> Sequence[SlicePart]:
        """One file slice each."""
        slices = [
            slice_
            for group in self.snapshot.file_groups
            if (partitions is None or group.partition_path in partitions)
            and (slice_ := newest_slice(group.slices)) is not None
        ]
        bases = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
        known = iter(self.bloom.known([KeyFile.of(base) for base in bases]))
        logs = [log for slice_ in slices for log in slice_.row_logs]
        cached = iter(self.bloom.cached([log.path for log in logs], [log.size for log in logs]))
        return [
            SlicePart(
                slice_,
                None if slice_.base_file is None else next(known),
                tuple(next(cached) for _ in slice_.row_logs),
            )
            for slice_ in slices
        ]

    def ranges(self, storage: Storage, parts: Sequence[SlicePart]) -> list[KeyRange | None]:
        """The range of each slice's keys, where the cache has those of all its files."""
        return [_range_of([*([] if part.base is None else [part.base.cached]), *part.logs]) for part in parts]

    def narrowed(
        self, storage: Storage, parts: Sequence[SlicePart], keys: pa.Array
    ) -> Iterator[tuple[SlicePart, pa.Array]]:
        """The slices that may have some of these keys, by what is known before one is opened, each with those."""
        alone = {part.base: part for part in parts if not part.logs and part.base is not None}
        for base, some in self.bloom.narrowed(storage, list(alone), keys):
            yield alone[base], some
        merged = [part for part in parts if part.logs]
        known = [[*([part.base.cached] if part.base is not None else []), *part.logs] for part in merged]
        spans = spans_of(keys.cast(pa.string()), [None if each is None else each.range for of in known for each in of])
        first = 0
        for part, files in zip(merged, known, strict=True):
            starts, ends = (bounds[first : first + len(files)] for bounds in (spans.starts, spans.ends))
            first += len(files)
            some_keys = ends > starts
            if some_keys.any():
                # All keys from the first span to the last one: what lies between is told apart by each file's range.
                start = int(starts[some_keys].min())
                yield part, spans.keys.slice(start, int(ends[some_keys].max()) - start)

    def possible(self, storage: Storage, part: SlicePart, keys: pa.Array) -> pa.StringArray:
        """The keys, each once, that the slice may have: what is read for it is less than the slice.

        Where a slice has no logs, only the cache is asked: a reader of the base file reads its footer anyway.
        """
        keys = keys.cast(pa.string()).unique()
        return keys.filter(pa.array(self._may_have(storage, part, keys)))

    def look_up(self, storage: Storage, part: SlicePart, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """The keys that the slice's rows have of these, each once."""
        if not part.logs:
            if part.base is not None:
                yield from self.bloom.look_up(storage, part.base, keys)
            return
        among = None
        if keys is not None:
            possible = self.possible(storage, part, keys)
            if not len(possible):
                return
            among = frozenset(possible.to_pylist())
        batches = list(slice_keys(storage, table_reading(self.snapshot, merges=True), part.slice_, among=among))
        found = pc.unique(pa.chunked_array(batches, pa.string()))
        if len(found):
            of = part.slice_
            where = (pa.repeat(each, len(found)) for each in (of.partition_path, of.file_id))
            unknown = pa.nulls(len(found), pa.string())  # a log's rows name their commit, its keys alone do not
            yield pa.RecordBatch.from_arrays([found, *where, unknown], schema=LOCATIONS)

    def _may_have(self, storage: Storage, part: SlicePart, keys: pa.StringArray) -> npt.NDArray[np.bool_]:
        """For each key whether the base file or a log may have it."""
        if not self.reads_tails and None in part.logs:
            return np.ones(len(keys), dtype=np.bool_)
        asked = _Asked(keys)
        base = part.base
        base_keys = None if base is None or base.cached is None else asked.read(storage, base.cached)
        if base_keys is not None:
            asked.take(base_keys.possible)
        unknown = []
        for log, cached in zip(part.slice_.row_logs, part.logs, strict=True):
            log_keys = None if cached is None else asked.read(storage, cached)
            if log_keys is None:
                unknown.append(log)
            else:
                asked.take(log_keys.possible)
        if unknown and not self.reads_tails:
            return np.ones(len(keys), dtype=np.bool_)
        folder = join(self.snapshot.base_path, part.slice_.partition_path)
        logs, instant = names_and_sizes(unknown), part.slice_.base_instant
        if unknown:
            asked.take(lambda left: left.filter(pa.array(may_be_in_logs(storage, folder, logs, instant, left))))
        if base is not None and base_keys is None:
            path = join(self.snapshot.base_path, base.file.path)
            asked.take(lambda left: FileKeys.of_file(storage, path).possible(left) if part.logs else left)
        return asked.may_be_there


def _range_of(files: Sequence[CachedKeys | None]) -> KeyRange | None:
    ranges = [each.range for each in files if each is not None and each.range is not None]
    if not ranges or len(ranges) < len(files):
        return None
    return KeyRange(
        min((each.low for each in ranges), key=java_order_of), max((each.high for each in ranges), key=java_order_of)
    )


class _Asked:
    """Keys that files are asked for, one after the other."""

    def __init__(self, keys: pa.StringArray) -> None:
        self._keys = keys
        self.may_be_there = np.zeros(len(keys), dtype=np.bool_)

    def take(self, possible: Callable[[pa.StringArray], pa.StringArray]) -> None:
        """Ask a file for the keys that none before it may have."""
        if not self.may_be_there.all():
            left = possible(self._keys.filter(pa.array(~self.may_be_there)))
            self.may_be_there |= pc.is_in(self._keys, value_set=left).to_numpy(zero_copy_only=False)

    def read(self, storage: Storage, cached: CachedKeys) -> FileKeys | None:
        """None where it cannot be read; what rules nothing out where no key is left to ask for."""
        if self.may_be_there.all():
            return FileKeys(None, None)
        try:
            return cached.read(storage)
        except BrokenFile as error:
            report_broken(error)
        except NotFound:
            pass  # the cache was made again or dropped meanwhile
        return None
