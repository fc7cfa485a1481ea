"""Merge files of one bucket into one: the newest entry of each key, streamed.

    FULL    all files of the bucket: entries that say that a key is gone are left out, since nothing older is hidden
    LOG     some files that follow each other: such entries stay, for they hide those of older files

The files are sorted runs, the newest first, and of equal keys the one of the newest run is taken
(`merge/runs/loser_tree`). Places and instants get codes of the new file's tables; an instant that can no longer turn
invalid becomes "settled", and is left out of them.

Touches: the files, by reading, and the sink, by appending.
Keeps:   1. what a lookup finds in the new file is what it finds in the files, in this order;
         2. LOG keeps each tombstone that wins, FULL none;
         3. memory is bounded by a window of the merge and a block of each file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.index.record.bucket_file import BucketFile, IsValid, invalid_codes
from lakeward.index.record.bucket_writer import BucketFileStats, BucketFileWriter
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.entry_codes import GONE, SETTLED, Codes, CodeTable
from lakeward.merge.rules.winner import LogRecordKind
from lakeward.merge.runs.run_windows import RunWindows
from lakeward.merge.runs.sorted_run import Places, RunBatch, part_of

_ENTRIES = pa.schema([pa.field("key", pa.binary()), pa.field("location", pa.int32()), pa.field("instant", pa.int32())])


def merge_bucket_files(
    files: Sequence[BucketFile],
    sink: BinaryIO,
    *,
    scope: KeyScope,
    keeps_tombstones: bool,
    unsettled: Collection[str],
    is_valid: IsValid,
) -> BucketFileStats:
    """Write the merged file. Raises `BrokenFile`.

    Args:
        files: newest first; those of commits that are not valid are left out.
        keeps_tombstones: for LOG.
        unsettled: the instants that may still turn invalid, with which their entries are written.
        is_valid: of an instant in a file's table; entries of others are left out.
    """
    writer = BucketFileWriter(sink, scope=scope, with_instants=True)
    assert writer.instants is not None
    merge = BucketMerge.of(files, scope, is_valid, unsettled, places=writer.places, instants=writer.instants)
    for entries in merge.batches():
        if not keeps_tombstones:
            entries = entries.filter(pa.compute.not_equal(entries.column(1), GONE))
        keys, locations, codes = entries.columns
        writer.add_codes(keys, locations.to_numpy(), codes.to_numpy())
    return writer.finish()


@dataclass(frozen=True, slots=True)
class BucketMerge:
    """The newest valid entry of each key of some files, by codes of its own tables."""

    places: CodeTable
    instants: CodeTable
    runs: Sequence[_FileRun]

    @classmethod
    def of(
        cls,
        files: Sequence[BucketFile],
        scope: KeyScope,
        is_valid: IsValid,
        unsettled: Collection[str] | None = None,
        *,
        places: CodeTable | None = None,
        instants: CodeTable | None = None,
    ) -> BucketMerge:
        """
        Args:
            files: newest first.
            unsettled: the instants that have a code; None: all.
            places: the tables that codes are of; new ones where they are not given.
        """
        assert files and all(file.scope is scope for file in files)
        places = CodeTable(2) if places is None else places
        instants = CodeTable(1) if instants is None else instants
        runs = [
            _FileRun(
                file,
                _place_codes(file, places),
                _instant_codes(file, instants, unsettled),
                invalid_codes(file, is_valid),
            )
            for file in files
        ]
        return cls(places, instants, runs)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Key, code of the place, code of the instant, by key. Raises `BrokenFile`."""
        windows = RunWindows(self.runs)
        for window in windows.windows():
            newest = window.order.part(window.order.joins == 0)
            if len(newest):
                yield windows.rows(newest)


def _place_codes(file: BucketFile, places: CodeTable) -> Codes:
    """The new code of each code of the file's."""
    columns = [column.to_pylist() for column in file.places]
    return np.concatenate([[GONE], places.intern(zip(*columns, strict=True))]).astype(np.int32)


def _instant_codes(file: BucketFile, instants: CodeTable, unsettled: Collection[str] | None) -> Codes:
    """The new code for each code of the file; a file of one commit has one for all."""
    kept = [(each if unsettled is None or each in unsettled else None,) for each in file.instants.to_pylist()]
    codes = instants.intern(kept)
    return np.concatenate([[SETTLED], codes]).astype(np.int32) if file.has_instants else codes


@dataclass(frozen=True, slots=True)
class _EntryRows:
    """Entries of a block, by the codes of the new file."""

    batch: pa.RecordBatch

    @property
    def keys(self) -> pa.Array:
        return self.batch.column(0)

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        is_gone = self.batch.column(1).to_numpy() == GONE
        return np.where(is_gone, LogRecordKind.BLOCK_DELETE, LogRecordKind.DATA).astype(np.int8)

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes)

    @property
    def whole(self) -> pa.RecordBatch:
        return self.batch

    def rows(self, places: Places) -> tuple[pa.RecordBatch, Places]:
        return part_of(self.batch, places)

    def ordering(self, places: Places | None) -> pa.Array | None:
        """None: the newest file wins."""


@dataclass(frozen=True, slots=True)
class _FileRun:
    file: BucketFile
    place_codes: Codes
    instant_codes: Codes
    invalid: npt.NDArray[np.bool_] | None
    is_base: bool = False
    repeats_keys: bool = False

    @property
    def name(self) -> str:
        return f"the index file {self.file.name}"

    def batches(self) -> Iterator[RunBatch]:
        for block in self.file.blocks():
            codes = np.zeros(len(block.locations), dtype=np.int32) if block.instants is None else block.instants
            columns = [self.place_codes[block.locations], self.instant_codes[codes]]
            batch = pa.RecordBatch.from_arrays([block.keys.keys, *map(pa.array, columns)], schema=_ENTRIES)
            yield _EntryRows(batch if self.invalid is None else batch.filter(pa.array(~self.invalid[codes])))
