"""The index of a type, opened for lookups as of one moment of its table.

Touches: what the indexes do when they are opened.
"""

from __future__ import annotations

from lakeward.base.clock import Clock
from lakeward.base.errors import Unsupported, UsageError
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.bloom.bloom_index import BloomIndex
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.external.entry_store import EntryStore
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.hbase.hbase_index import HBaseIndex, HBaseSource
from lakeward.index.index import Index
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.metadata_record_index import MetadataRecordIndex, check_has_record_index, check_record_index
from lakeward.index.out_of_use import check_in_use
from lakeward.index.overlay import current_index
from lakeward.index.record.record_index import RecordIndex
from lakeward.index.record.record_options import RECORD_OPTIONS, RecordOptions
from lakeward.index.simple import SimpleIndex
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


def open_index(
    storage: Storage,
    snapshot: TableSnapshot,
    type_: LookupType,
    *,
    clock: Clock,
    is_judged: bool = False,
    with_logs: bool = False,
    record: RecordOptions = RECORD_OPTIONS,
    entries: EntryStore | None = None,
    hbase: HBaseSource | None = None,
) -> Index:
    """The index of this type as of the snapshot, with what it has not taken in yet. Raises `Refused` for a table that
    has none that is in use, `BrokenFile` and `Unsupported`.

    Args:
        is_judged: it is asked in order to see whether it is right, so that it need not be in use.
        with_logs: of the bloom index, that rows are found as a query finds them, in logs too.
        record: where Lakeward's record index is.
        entries: those of an index in a database.
        hbase: where the index in HBase is.
    """
    match type_:
        case IndexType.SIMPLE:
            return SimpleIndex.of(snapshot)
        case IndexType.BLOOM if with_logs:
            return SliceBloomIndex.of(storage, snapshot, clock=clock)
        case IndexType.BLOOM:
            return BloomIndex.of(storage, snapshot, clock=clock)
        case IndexType.METADATA:
            (check_has_record_index if is_judged else check_record_index)(storage, snapshot)
            return MetadataRecordIndex.of(storage, snapshot, clock=clock)
        case IndexType.RECORD:
            if not is_judged:
                check_in_use(storage, snapshot.base_path, type_, record)
            index = RecordIndex.of(storage, snapshot, record.folder(snapshot.base_path), options=record.lookup)
            return current_index(storage, snapshot, index)
        case IndexType.POSTGRES if entries is not None:
            if not is_judged:
                check_in_use(storage, snapshot.base_path, type_, record)
            external = ExternalIndex.of(entries, storage, snapshot, limit=RateLimit(None, clock=clock))
            return current_index(storage, snapshot, external)
        case IndexType.HBASE if hbase is not None:
            return HBaseIndex(hbase, storage, snapshot)
        case IndexType.HBASE:
            raise UsageError(
                "It is not said where the index in HBase is.",
                remedy="Name HBase's ZooKeeper and the table: --url hbase://zk1,zk2:2181/TABLE.",
            )
        case IndexType.POSTGRES:
            raise Unsupported(
                "An index in a database is not opened here.",
                why="Its address is known to commands alone.",
                remedy="Ask it by `lakeward index lookup` or `verify`, with --config or --url.",
            )


def type_of_choice(snapshot: TableSnapshot) -> LookupType:
    """The type that lookups use where none is named: the one that need not read base files, if there is such."""
    has_record_index = RECORD_INDEX in snapshot.config.built_metadata_partitions
    return IndexType.METADATA if has_record_index else IndexType.SIMPLE
