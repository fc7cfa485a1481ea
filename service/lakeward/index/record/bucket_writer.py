"""Write a bucket file: sorted entries in, an HFile out, a batch at a time. `index/record/file_form` has its form.

Blocks are compressed by zstd and have checksums, so that no bit of them changes an answer silently; Hudi does not read
these files.

Touches: the sink it is given, by appending.
Keeps:   1. memory is bounded by a batch, a block, the tables of places and instants, and eight bytes a key for the
            filter, which is made of all of them;
         2. keys are strictly ascending by their bytes: a key has one entry in a file;
         3. equal entries give equal bytes, however they are cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.checksum import ChecksumType
from lakeward.format.hfile.writer import HFileWriter
from lakeward.index.location import FILE_ID, INSTANT, PARTITION_PATH, RECORD_KEY
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.entry_codes import GONE, Codes, CodeTable, encode_values
from lakeward.index.record.file_form import FILTER, INSTANTS, PLACES, FileHead, encode_texts
from lakeward.index.record.key_filter import Hashes, KeyFilter, key_hashes
from lakeward.index.record.key_scope import entry_keys, record_key_ends

BLOCK_BYTES: Final = 64 * 1024
"""Bytes of a data block before compression: what a lookup of one key decodes."""


@dataclass(frozen=True, slots=True)
class BucketFileStats:
    """What was written."""

    entries: int
    tombstones: int
    size_bytes: int


class BucketFileWriter:
    """Finish it, or what is written is no file."""

    def __init__(self, sink: BinaryIO, *, scope: KeyScope, with_instants: bool, block_bytes: int = BLOCK_BYTES) -> None:
        """
        Args:
            with_instants: entries say since which commit they are; without, the file is one commit's, whose instant is
                in its name.
        """
        self._scope = scope
        self._places = CodeTable(2)
        self._instants = CodeTable(1) if with_instants else None
        self._file = HFileWriter(sink, codec=HFileCodec.ZSTD, block_bytes=block_bytes, checksum=ChecksumType.CRC32)
        self._hashes: list[Hashes] = []
        self._entries = 0
        self._tombstones = 0

    @property
    def places(self) -> CodeTable:
        """The pairs of partition path and file id so far, for `add_codes`."""
        return self._places

    @property
    def instants(self) -> CodeTable | None:
        """The instants so far, for `add_codes`."""
        return self._instants

    def add(self, locations: pa.RecordBatch) -> None:
        """Append a batch in `LOCATIONS`, sorted by `entry_keys`. Raises `Unsupported` for a key that is too long.

        A row without a file id says that its key is gone: it has no partition path either, but where the index has a
        key once a partition, which then says where.
        """
        partitions, file_ids = locations.column(PARTITION_PATH), locations.column(FILE_ID)
        keys = entry_keys(locations.column(RECORD_KEY), partitions if self._scope is KeyScope.PARTITION else None)
        placed = partitions
        if self._scope is KeyScope.PARTITION:
            assert partitions.null_count == 0, "an entry of this scope has a partition"
            placed = pa.compute.if_else(file_ids.is_valid(), partitions, None)
        codes = self._places.codes(placed, file_ids)
        instants = None if self._instants is None else self._instants.codes(locations.column(INSTANT))
        self.add_codes(keys, codes, instants)

    def add_codes(self, keys: pa.Array, locations: Codes, instants: Codes | None) -> None:
        """Append entries by the codes that `places` and `instants` gave."""
        assert (instants is None) == (self._instants is None)
        self._file.add_batch(keys, encode_values(locations, instants))
        self._hashes.append(key_hashes(keys, record_key_ends(keys, self._scope)))
        self._entries += len(keys)
        self._tombstones += int(np.count_nonzero(locations == GONE))

    def finish(self) -> BucketFileStats:
        """Write what is left. The sink stays open."""
        metas = {PLACES: b"".join(map(encode_texts, self._places.texts()))}
        if self._instants is not None:
            metas[INSTANTS] = encode_texts(*self._instants.texts())
        if self._entries:
            metas[FILTER] = KeyFilter.of(self._hashes).to_bytes()
        head = FileHead(self._scope, self._entries, self._tombstones)
        stats = self._file.finish(head.to_info(), meta_blocks=metas)
        return BucketFileStats(self._entries, self._tombstones, stats.size_bytes)
