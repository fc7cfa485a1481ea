"""Choose how a write finds the file groups of its keys: what is asked, held against what the table shows of itself.
What the table says of its index is `write/index_choice`'s.

Touches: storage, reading: whether there is a folder of other kinds of buckets; for the record index its metadata; for
         an index of Lakeward what it has not taken in yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused, UsageError
from lakeward.base.paths import join
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.bloom.bloom_index import BloomIndex
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import Index, WritableIndex
from lakeward.index.index_type import IndexType
from lakeward.index.metadata_record_index import MetadataRecordIndex, check_record_index
from lakeward.index.overlay import current_index
from lakeward.index.simple import SimpleIndex
from lakeward.index.simple_bucket import bucket_places
from lakeward.merge.rules.merge_rules import MergeMode
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import Storage
from lakeward.table.new_table import check_buckets
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import OTHER_BUCKETS, hoodie_folder
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.stored_rows import StoredRows
from lakeward.write.tagging.tagging_kinds import LookupTagging, NewKeys, OnePlace, Tagging

OpenIndex = Callable[[TableSnapshot], WritableIndex]
"""Opens a Lakeward index as of a snapshot, without what it has not taken in yet."""


@dataclass(frozen=True, slots=True)
class BucketTagging:
    """Tagging by bucket: the place of a row is the number of its key's bucket, in eight digits; no file is read."""

    fields: tuple[str, ...]
    """The key fields that are hashed."""
    buckets: int
    """A partition has so many."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        return bucket_places(batch.column(RECORD_KEY), self.fields, self.buckets)


def check_tagging(
    storage: Storage, snapshot: TableSnapshot, request: WriteRequest, open_index: OpenIndex | None = None
) -> None:
    """Raises `UsageError` for what does not fit together, and `Refused` for a table that has another kind of index."""
    if not snapshot.config.populate_meta_fields:
        raise Refused(
            "The table's rows do not carry their keys, and this release does not write such tables.",
            why="hoodie.populate.meta.fields is false.",
            remedy="Write it with Hudi; Lakeward's services work on it as on others.",
        )
    if request.index is IndexType.BUCKET:
        _check_buckets(storage, snapshot, request)
    elif request.buckets is not None or request.bucket_fields:
        raise UsageError(
            f"Buckets are named, and the index is {request.index}.",
            remedy="Name the bucket index, or leave the buckets out.",
        )
    elif request.index is IndexType.METADATA and request.operation.finds_keys:
        check_record_index(storage, snapshot)
    elif request.index.is_own and open_index is None:
        raise UsageError(
            "The write is to use a Lakeward index, and none is opened for it.",
            why="Its address is known to commands alone.",
            remedy=f"Write with `lakeward write --index {request.index}`, or by another index.",
        )


def choose_tagging(
    storage: Storage,
    snapshot: TableSnapshot,
    request: WriteRequest,
    *,
    clock: Clock,
    open_index: OpenIndex | None = None,
    in_logs: bool = False,
) -> Tagging:
    """Raises what `check_tagging` does; by an index of Lakeward what `current_index` does, too.

    Args:
        snapshot: of the whole table.
        open_index: the index of Lakeward that the request names.
        in_logs: keys may be in logs alone, and the index of base files that the request names looks there, too.
    """
    check_tagging(storage, snapshot, request, open_index)
    if request.index is IndexType.BUCKET:
        assert request.buckets is not None, "it was checked"
        return BucketTagging(request.bucket_fields or snapshot.config.record_key_fields, request.buckets)
    if not request.operation.finds_keys:
        return NewKeys()
    index: Index
    if request.index is IndexType.METADATA:
        index = MetadataRecordIndex.of(storage, snapshot, clock=clock)
    elif request.index.is_own:
        assert open_index is not None, "it was checked"
        index = current_index(storage, snapshot, open_index(snapshot))
        _check_moves(index, request)
    elif in_logs:
        assert request.index is IndexType.BLOOM, "the others refuse"
        index = SliceBloomIndex.of(storage, snapshot, clock=clock)
    elif request.index.has_filters:
        index = BloomIndex.of(storage, snapshot, clock=clock, is_global=request.index.is_global)
    else:
        index = SimpleIndex.of(snapshot, is_global=request.index.is_global)
    if not index.is_global or request.operation is WriteOperation.DELETE:
        return LookupTagging(index)
    config, rules = snapshot.config, merge_rules(snapshot)
    one_place = OnePlace(
        rules,
        StoredRows(snapshot),
        moves=request.moves_rows,
        folds=request.deduplicates,
        trusts_base_files=index.can_index_log_files,
        watches_deletes=config.is_merge_on_read
        and (request.index.is_own or RECORD_INDEX in config.built_metadata_partitions)
        and rules.mode is MergeMode.EVENT_TIME_ORDERING,
    )
    return LookupTagging(index, one_place)


def _check_moves(index: Index, request: WriteRequest) -> None:
    if request.moves_rows and not index.is_global:
        raise UsageError(
            "Rows are to go to other partitions, and the index is not global.",
            why="The index finds keys in one partition only, so no row can leave it.",
            remedy="Leave it out, or build the index without --by-partition.",
        )


def _check_buckets(storage: Storage, snapshot: TableSnapshot, request: WriteRequest) -> None:
    remedy = "Give the number that the table's other writers have (`hoodie.bucket.index.num.buckets`)."
    if request.buckets is None or request.buckets < 1:
        raise UsageError(
            "The bucket index needs the number of buckets in a partition.",
            why="The table does not say it; a key would go to another bucket than that which has it.",
            remedy=remedy,
        )
    check_buckets(request.buckets, remedy=remedy)
    keys = snapshot.config.record_key_fields
    if unknown := [field for field in request.bucket_fields if field not in keys]:
        raise UsageError(
            f"Buckets cannot be made of {', '.join(unknown)}.",
            why=f"They are made of fields of the record key, {', '.join(keys)}: a row must never change its bucket.",
            remedy="Name fields of the record key, or none for all of them.",
        )
    if storage.list(join(hoodie_folder(snapshot.base_path), OTHER_BUCKETS)):
        raise Refused(
            "The table's buckets are not all of one number.",
            why=f"There is .hoodie/{OTHER_BUCKETS}, in which Hudi keeps those of consistent hashing, or a number for "
            "each partition.",
            remedy="Write it with Hudi; Lakeward's services work on it as on others.",
        )
