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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.location import LOCATIONS
from lakeward.index.record.bucket_file import ABSENT, BucketFile, LookupMode, PrefixMatches
from lakeward.index.record.entry_codes import GONE
from lakeward.index.record.key_block import Numbers, Probes
from lakeward.index.record.key_filter import key_hashes
from lakeward.index.record.key_scope import (
    AFTER_SEPARATOR,
    SEPARATOR,
    KeyScope,
    entry_keys,
    record_key_ends,
    with_ending,
)

SCAN_FROM: Final = 0.35
"""The share of a file's entries that is looked up from which on the file is scanned."""

IsValid = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class LookupOptions:
    mode: LookupMode = LookupMode.DYNAMIC
    scan_from: float = SCAN_FROM
    """For `dynamic`: keys that are looked up by entries of the file, from which on it is scanned."""

    def mode_for(self, file: BucketFile, keys: int) -> LookupMode:
        if self.mode is not LookupMode.DYNAMIC:
            return self.mode
        return LookupMode.SCAN if keys >= self.scan_from * file.entry_count else LookupMode.SEEK


def _all_valid(_: str) -> bool:
    return True


class Bucket:
    """The files stay open as long as it is used."""

    def __init__(
        self,
        files: Sequence[BucketFile],
        *,
        scope: KeyScope,
        is_valid: IsValid = _all_valid,
        options: LookupOptions = LookupOptions(),
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
        self._invalid = [invalid_codes(file, is_valid) for file in files]

    def look_up(self, keys: pa.Array, partitions: pa.Array | None = None) -> pa.RecordBatch:
        """The locations of those keys that are there, in `LOCATIONS`, in no order. Raises `BrokenFile`.

        Args:
            keys: record keys of this bucket, text without nulls; one that comes twice is answered twice.
            partitions: of an index by partition, the partition path of each; None: all that have the key.
        """
        if self._scope is KeyScope.PARTITION and partitions is None:
            return self._look_up_prefixes(keys)
        assert partitions is None or self._scope is KeyScope.PARTITION
        wanted = entry_keys(keys, partitions)
        probes = Probes.of(wanted)
        hashes = key_hashes(keys)
        left = np.arange(len(keys))
        batches = []
        for file, invalid in zip(self._files, self._invalid, strict=True):
            mode = self._options.mode_for(file, len(left))
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
        return _one_batch(batches)

    def _look_up_prefixes(self, keys: pa.Array) -> pa.RecordBatch:
        """All partitions of each key."""
        low, high = (Probes.of(with_ending(keys, ending)) for ending in (SEPARATOR, AFTER_SEPARATOR))
        lengths = np.diff(low.offsets) - len(SEPARATOR)
        hashes = key_hashes(keys)
        rows = np.arange(len(keys))
        seen: pa.ChunkedArray = pa.chunked_array([], pa.binary())
        batches = []
        for file, invalid in zip(self._files, self._invalid, strict=True):
            mode = self._options.mode_for(file, len(rows))
            for match in file.find_between(low, high, rows, hashes=hashes, mode=mode):
                # A record key that holds the separator itself is another key.
                is_right = record_key_ends(match.keys, self._scope) == lengths[match.rows]
                if invalid is not None:
                    is_right &= ~invalid[match.instants]
                is_right &= ~pc.is_in(match.keys, seen).to_numpy(zero_copy_only=False)
                match = _part(match, np.flatnonzero(is_right))
                batches.append(file.to_locations(match.keys, match.locations, match.instants))
                seen = pa.chunked_array([*seen.chunks, match.keys])
        found = _one_batch(batches)
        return found.filter(found.column(2).is_valid())


def _part(match: PrefixMatches, chosen: Numbers) -> PrefixMatches:
    keys = match.keys.take(pa.array(chosen))
    return PrefixMatches(match.rows[chosen], keys, match.locations[chosen], match.instants[chosen])


def invalid_codes(file: BucketFile, is_valid: IsValid) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Which codes of instants are not valid; None: all are."""
    if not file.has_instants:
        return None
    invalid = np.array([False, *(not is_valid(instant) for instant in file.instants.to_pylist())])
    return invalid if invalid.any() else None


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    combined = pa.Table.from_batches(batches, LOCATIONS).combine_chunks()
    return combined.to_batches()[0] if combined.num_rows else pa.RecordBatch.from_pylist([], schema=LOCATIONS)
