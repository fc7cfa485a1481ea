"""Lookups in one bucket: the newest entry of each key, of all files of the bucket.

Files come newest first, base file last; the first of them that has an entry of a key decides, and what an entry of an
instant says that is not valid counts as if it were not there. A tombstone decides as a place does: the key is gone.

    keys        A B C D E
    delta 2     -   x           x: gone, n: a place, -: not asked for, for it is decided
    delta 1     - 2 - 4
    base        - - - - 5  ->   B, D, E

Touches: the files, by reading.
Keeps:   1. a key that some file has gets the newest valid entry's place, or none where that is a tombstone;
         2. whole keys are compared: two keys of one hash are two keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.location import LOCATIONS, locations_of
from lakeward.index.record.bucket_file import ABSENT, BucketFile, IsValid, PrefixMatches, invalid_codes
from lakeward.index.record.bucket_merge import BucketMerge
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.entry_codes import GONE
from lakeward.index.record.key_block import Numbers, Probes
from lakeward.index.record.key_filter import key_hashes
from lakeward.index.record.key_scope import (
    AFTER_SEPARATOR,
    SEPARATOR,
    entry_keys,
    record_key_ends,
    split_entry_keys,
    with_ending,
)
from lakeward.index.record.record_options import LOOKUP_OPTIONS, LookupOptions

Seen: TypeAlias = pa.ChunkedArray
"""Keys of entries, in binary."""
NOTHING_SEEN: Final = pa.chunked_array([], pa.binary())


def _all_valid(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class BucketAnswer:
    locations: pa.RecordBatch
    """In `LOCATIONS`, in no order."""
    left: Numbers
    """Rows of the keys of which no file has an entry; all of them, where any partition may have the key."""
    seen: Seen
    """Keys of entries that were met, where any partition may have the key: older ones of them do not count."""


class Bucket:
    """The files stay open as long as it is used."""

    def __init__(
        self,
        files: Sequence[BucketFile],
        *,
        scope: KeyScope,
        is_valid: IsValid = _all_valid,
        options: LookupOptions = LOOKUP_OPTIONS,
    ) -> None:
        """
        Args:
            files: newest first; those of commits that are not valid are left out.
            is_valid: of an instant that a file's entries are since; asked once for each of a file's table.
        """
        assert all(file.scope is scope for file in files)
        self._files = files
        self._scope = scope
        self._options = options
        self._is_valid = is_valid
        self._invalid = [invalid_codes(file, is_valid) for file in files]

    def look_up(self, keys: pa.Array, partitions: pa.Array | None = None) -> pa.RecordBatch:
        """The locations of those keys that are there, in `LOCATIONS`, in no order. Raises `BrokenFile`.

        Args:
            keys: record keys of this bucket, text without nulls; one that comes twice is answered twice.
            partitions: of an index by partition, the partition path of each; None: all that have the key.
        """
        return self.answer(keys, partitions).locations

    def answer(self, keys: pa.Array, partitions: pa.Array | None = None, *, seen: Seen | None = None) -> BucketAnswer:
        """The same, and what is left to older buckets. Raises `BrokenFile`.

        Args:
            seen: what newer buckets have entries of, of an index by partition that is asked for all of them.
        """
        if self._scope is KeyScope.PARTITION and partitions is None:
            return self._answer_prefixes(keys, NOTHING_SEEN if seen is None else seen)
        assert partitions is None or self._scope is KeyScope.PARTITION
        order = Probes.of(entry_keys(keys, partitions)).near_order()
        keys = keys.take(pa.array(order))
        probes = Probes.of(entry_keys(keys, None if partitions is None else partitions.take(pa.array(order))))
        hashes = cache(partial(key_hashes, keys))
        left = np.arange(len(keys))
        batches = []
        for file, invalid in zip(self._files, self._invalid, strict=True):
            mode = self._options.mode_for(entries=file.entry_count, keys=len(left))
            locations, instants = file.find(probes, left, hashes=hashes, mode=mode)
            if invalid is not None:
                locations[invalid[instants]] = ABSENT
            found = np.flatnonzero(locations > GONE)
            if len(found):
                columns = file.columns_of(locations[found], instants[found])
                rows = keys if len(found) == len(keys) == len(left) else keys.take(pa.array(left[found]))
                batches.append(pa.RecordBatch.from_arrays([rows.cast(pa.string()), *columns], schema=LOCATIONS))
            left = left[locations == ABSENT]
            if len(left) == 0:
                break
        return BucketAnswer(_one_batch(batches), order[left], NOTHING_SEEN)

    def entries(self) -> Iterator[pa.RecordBatch]:
        """The newest valid entry of each key, in `LOCATIONS`, sorted by key; keys that are gone are left out."""
        if not self._files:
            return
        merge = BucketMerge.of(self._files, self._scope, self._is_valid)
        partitions, file_ids = merge.places.texts()
        (instants,) = merge.instants.texts()
        for batch in merge.batches():
            batch = batch.filter(pc.not_equal(batch.column(1), GONE))
            if not batch.num_rows:
                continue
            keys, locations, since = batch.columns
            places = pc.subtract(locations, 1)
            record_keys, _ = split_entry_keys(keys, self._scope)
            known = pc.if_else(pc.equal(since, 0), None, pc.subtract(since, 1))
            columns = [record_keys, partitions.take(places), file_ids.take(places), instants.take(known)]
            yield pa.RecordBatch.from_arrays(columns, schema=LOCATIONS)

    def _answer_prefixes(self, keys: pa.Array, seen: Seen) -> BucketAnswer:
        """All partitions of each key."""
        keys = keys.take(pa.array(Probes.of(keys).near_order()))
        low, high = (Probes.of(with_ending(keys, ending)) for ending in (SEPARATOR, AFTER_SEPARATOR))
        lengths = np.diff(low.offsets) - len(SEPARATOR)
        hashes = cache(partial(key_hashes, keys))
        rows = np.arange(len(keys))
        batches = []
        for file, invalid in zip(self._files, self._invalid, strict=True):
            mode = self._options.mode_for(entries=file.entry_count, keys=len(rows))
            for match in file.find_between(low, high, rows, hashes=hashes, mode=mode):
                # A record key that holds the separator itself is another key.
                is_right = record_key_ends(match.keys, self._scope) == lengths[match.rows]
                if invalid is not None:
                    is_right &= ~invalid[match.instants]
                is_right &= ~pc.is_in(match.keys, seen).to_numpy(zero_copy_only=False)
                match = _part(match, np.flatnonzero(is_right))
                batches.append(file.to_locations(match.keys, match.locations, match.instants))
                seen = pa.chunked_array([*seen.chunks, match.keys], pa.binary())
        found = _one_batch(batches)
        return BucketAnswer(found.filter(found.column(2).is_valid()), rows, seen)


def _part(match: PrefixMatches, chosen: Numbers) -> PrefixMatches:
    keys = match.keys.take(pa.array(chosen))
    return PrefixMatches(match.rows[chosen], keys, match.locations[chosen], match.instants[chosen])


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    combined = locations_of(batches).combine_chunks()
    return combined.to_batches()[0] if combined.num_rows else pa.RecordBatch.from_pylist([], schema=LOCATIONS)
