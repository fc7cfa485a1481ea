"""Tagging by bucket: the place of a row is the number of its key's bucket, in eight digits. No file is read for it.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.keys.bucket import bucket_places


@dataclass(frozen=True, slots=True)
class BucketTagging:
    fields: tuple[str, ...]
    """The key fields that are hashed."""
    buckets: int
    """A partition has so many."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        return bucket_places(batch.column(RECORD_KEY), self.fields, self.buckets)
