"""A run of a slice's logs, folded: log files in, the winning record of each key out, deletes included.

This is the first half of every merge. A FULL compaction lays the result over the base file (`read/file_slice.py`); a
LOG compaction writes it down as it is, into one larger log.

In the layout `lsm_tree` each log is sorted. Where they do not fit memory, or records must stay apart, they are not
folded here: once their keys were read, to see that they ascend, they are runs that the merge reads
(`read/logs/sorted_logs`).

Touches: the log files; the spill files of `LogRecords`.
Keeps:   1. records are folded oldest first, as the blocks that count come out of the scan;
         2. a record keeps its commit time and sequence number, a delete its ordering value;
         3. a row that says that it is in another partition is never merged;
         4. a query leaves records out by their keys alone, data and deletes alike;
         5. in the layout `lsm_tree` the order of each log is checked as it is read; one that is out of order changes no
            row, and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile
from lakeward.base.paths import parent
from lakeward.format.file_name import resolve
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.format.log.data_block import read_data_block, repeated_in_block
from lakeward.format.log.delete_block import DeletedKeys
from lakeward.format.parquet.batches import BATCH_ROWS, ParquetBatches
from lakeward.format.parquet.behind import Ahead
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.parquet.row_groups import ValueRange, row_groups
from lakeward.format.projection import project
from lakeward.merge.logs.file_run import FileRun, FileRuns
from lakeward.merge.logs.log_records import LogRecords
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rules.merge_rules import OPERATION_FIELD, RECORD_KEY_FIELD, MergeRules
from lakeward.merge.rules.ordering_type import ordering_columns, ordering_type, ordering_wrappers
from lakeward.merge.rules.partial_rows import part_schema, with_part
from lakeward.merge.rules.records import delete_ordering, record_keys
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.merge.rules.winner import LogRecordKind
from lakeward.merge.runs.record_sorter import OPEN_RUNS_MAX
from lakeward.merge.runs.sort_key import OrderWatch
from lakeward.merge.sorted_merge import SortedMerge
from lakeward.read.large_rows import check_row_sizes
from lakeward.read.logs.block_deletes import read_deletes
from lakeward.read.logs.committed_writes import CommittedWrites
from lakeward.read.logs.log_scan import LogScan, check_sound, scan_slice_heads
from lakeward.read.logs.partial_blocks import check_whole_rows, part_number
from lakeward.read.logs.sorted_logs import SortedLog, are_native_parquet, count_in_order, have_room, measure
from lakeward.read.made_keys import check_keys_can_be_made, with_made_keys
from lakeward.read.operation_column import check_no_operations
from lakeward.read.positions import BlockPlaces, keys_with_places, names_places, with_places
from lakeward.read.query.row_group_choice import choose_log_row_groups
from lakeward.read.query.sample import SampleTap
from lakeward.read.query.slice_query import EVERYTHING, PARTITION_FIELD, SliceQuery
from lakeward.storage.storage import Storage

_ROWS_AT_ONCE = 16_384
_TOMBSTONES_AT_ONCE = 262_144
_DEFAULT_BUDGET = MemoryBudget()
_INCOMING = "the rows that are written"

Incoming = Callable[[], Iterable[pa.RecordBatch | Tombstones]]
"""Records that are in no log: rows with the table's columns, the file's name may be missing, and deletes. It may be
called again."""


@dataclass(frozen=True, slots=True)
class SliceLogs:
    """The logs of a slice, and which of their blocks count."""

    base_path: str
    files: Sequence[str]
    """Relative to the base path, in comparator order."""
    instant: str
    """Blocks of later instants are left out."""
    superseded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Paths among the logs that need not be opened, with the instants that each stands for itself."""
    committed: CommittedWrites | None = None
    """The writes whose blocks count, for table versions before 8."""
    accept_damaged: bool = False
    """Go on without corrupt blocks, as Hudi's readers do, instead of raising `DamagedFiles`."""
    unpublished: Sequence[str] = ()
    """Paths of logs that are read behind the others, in this order, as if they were in the slice already."""
    incoming: Incoming | None = None
    """What comes behind all of the logs, as if it were in one more."""
    by_rank: bool = False
    """The blocks that count are those of the layout `lsm_tree` (`log_scan.ranked_blocks`)."""


@dataclass(frozen=True, slots=True)
class LogMerge:
    """How the records of the logs are merged."""

    rules: MergeRules
    budget: MemoryBudget = _DEFAULT_BUDGET
    spill_folder: str | None = None
    key_fields: Sequence[str] = ()
    """The fields of which keys are made, where rows carry none."""
    by_order: bool = False
    """Logs that are sorted may be merged straight out of their files."""
    ahead: Ahead | None = None
    """Reads such logs."""
    watched_base: str | None = None
    """A base file; where all blocks name places in it, `records` says whether a key came more than once in a block."""
    by_places: bool = False
    """The blocks name places in the base file, which go into the keys (`read/positions`)."""


class LogRun:
    """The logs are scanned at once, read by `read`; close it afterwards."""

    def __init__(
        self,
        storage: Storage,
        logs: SliceLogs,
        merge: LogMerge,
        *,
        schema: pa.Schema,
        query: SliceQuery = EVERYTHING,
        scan: LogScan | None = None,
        meter: ReadMeter | None = None,
        sample: SampleTap | None = None,
    ) -> None:
        """
        Args:
            schema: the table's, meta columns first, or of it what the query needs. The attribute says which columns
                come as dictionaries.
            scan: of these very files, where their heads were read already.
            meter: counts what is read.
            sample: takes a few keys, where the query asks for it.
        """
        rules, budget = merge.rules, merge.budget
        self._storage = storage
        self._logs = logs
        self._merge = merge
        self._rules = rules
        self._budget = budget
        self.schema = schema
        self._unpublished = frozenset(logs.unpublished)
        for path in logs.files:
            resolve(logs.base_path, path, native=True)
        if scan is None:
            scan = scan_slice_heads(
                storage,
                logs.base_path,
                [*logs.files, *logs.unpublished],
                instant=logs.instant,
                superseded=logs.superseded,
                committed=logs.committed,
                by_rank=logs.by_rank,
            )
        self.scan: LogScan = scan
        if not logs.accept_damaged:
            check_sound(self.scan)
        check_keys_can_be_made(self.scan.blocks, merge.key_fields)
        if not rules.in_part:
            check_whole_rows(self.scan.blocks)
        if OPERATION_FIELD not in schema.names:
            check_no_operations(self.scan.blocks)
        if query.keeps_dictionaries:
            self.schema = query.with_dictionaries(schema, rules, self._repeated(), merge.key_fields)
        self._stored_schema = self.schema
        """With the column that says where a row belongs, which is checked, and carried only if the query names it."""
        if PARTITION_FIELD not in self.schema.names:
            self._stored_schema = self.schema.append(pa.field(PARTITION_FIELD, pa.string()))
        carried = part_schema(query.carried_schema(self.schema), rules)
        self.records: LogRecords | FileRuns = LogRecords(
            carried,
            rules,
            memory_bytes=budget.logs,
            spill_folder=merge.spill_folder,
            watches_blocks=names_places(scan.blocks, merge.watched_base),
        )
        self.out_of_order: str | None = None
        """A log of the layout `lsm_tree` that is not sorted, if one was met."""
        self._files = ExitStack()
        self.sample = SampleTap() if sample is None else sample
        self.data_keys: ValueRange | None = None
        """From which key to which the data records reach that were read; kept where the query asks for values."""
        self.all_keys: ValueRange | None = None
        """The same of all records, deletes too."""
        self._query = query
        self._keys = query.predicate.on_keys
        self._wanted_keys = query.predicate.wanted_keys if query.prunes and not merge.key_fields else None
        self._watches_keys = bool(query.predicate.on_values.conditions)
        self._meter = ReadMeter() if meter is None else meter
        self._key_fields = tuple(merge.key_fields)
        self._is_read = False

    @property
    def instants(self) -> tuple[str, ...]:
        """The instants whose blocks count, oldest first: what a log that holds the run's records stands for."""
        return tuple(dict.fromkeys(block.headers[HeaderKey.INSTANT_TIME] for block in self.scan.blocks))

    @property
    def newest_data_type(self) -> BlockType | None:
        """The type of the newest data block, None where the run holds only deletes."""
        types = [block.type for block in self.scan.blocks if block.type is not BlockType.DELETE]
        return types[-1] if types else None

    def _repeated(self) -> frozenset[str]:
        """The columns that repeat in the largest Parquet block, where the newest block is one."""
        if self.newest_data_type is not BlockType.PARQUET_DATA:
            return frozenset()
        blocks = [block for block in self.scan.blocks if block.type is BlockType.PARQUET_DATA]
        largest = max(blocks, key=lambda block: block.content_length)
        with self._storage.open_input(self._path(largest.file)) as file:
            return repeated_in_block(file, largest)

    def read(self, *beside: LogRecords) -> None:
        """Read and fold all records, when it was not done yet. Raises `Unsupported`, `BrokenFile`.

        Args:
            beside: what folds the same records by other rules, `finish` included.
        """
        if self._is_read:
            assert not beside, "the logs were read already"
            return
        self._is_read = True
        direct = None if beside else self._sorted_runs()
        if direct is not None:
            self.records = direct
            return
        assert isinstance(self.records, LogRecords)
        takers = (self.records, *beside)
        with ExitStack() as files:
            opened: dict[str, BinaryIO] = {}
            for block in self.scan.blocks:
                if block.file not in opened:
                    # The blocks of one file are neighbours, but for logs that were compacted into a later one.
                    files.close()
                    opened = {block.file: files.enter_context(self._storage.open_input(self._path(block.file)))}
                self._read_block(opened[block.file], block, takers)
        for part in () if self._logs.incoming is None else self._logs.incoming():
            self._take(part, takers)
        for records in takers:
            records.finish()

    def folded(self, *, by_key: bool = False) -> Iterator[pa.RecordBatch | Tombstones]:
        """What `folded` gives of the run's records."""
        return folded(self.records, self._rules, self.schema, window_bytes=self._budget.window, by_key=by_key)

    def close(self) -> None:
        self.records.close()
        self._files.close()

    def _path(self, file: str) -> str:
        return file if file in self._unpublished else resolve(self._logs.base_path, file, native=True)

    def _sorted_runs(self) -> FileRuns | None:
        """The logs as runs that are merged straight out of their files; None where they are to be folded, or sorted."""
        blocks = self.scan.blocks
        may_be = self._merge.by_order and self.scan.by_rank and 0 < len(blocks) <= OPEN_RUNS_MAX
        if not may_be or self._logs.incoming is not None or self._key_fields or not are_native_parquet(blocks):
            return None
        if self._keys.conditions and not self._rules.needs_all_records:
            return None  # of the rows that are decoded few are kept, and their keys need no reading before
        with ExitStack() as opened:
            logs = [self._measured(block, opened) for block in blocks]
            fit_memory = sum(log.decoded_bytes for log in logs) <= self._budget.logs
            if (fit_memory and not self._rules.needs_all_records) or not have_room(logs, self._budget):
                return None
            records = 0
            for log in logs:
                found = count_in_order(self._keys_of(log))
                if found is None:
                    return None
                records += found
            self._files = opened.pop_all()
        self.sample.settle()
        runs = [self._as_run(log, rank) for rank, log in enumerate(logs)]
        return FileRuns(runs, records)

    def _measured(self, block: LogBlock, opened: ExitStack) -> SortedLog:
        file = opened.enter_context(self._storage.open_input(self._path(block.file)))
        chosen = self._choose if self._query.prunes and block.type is not BlockType.DELETE else None
        return measure(block, file, self._stored_schema, self._budget, chosen)

    def _keys_of(self, log: SortedLog) -> Iterator[pa.Array]:
        """The keys of a log that are asked for."""
        for batch in self._key_batches(log):
            chosen = self._keys.chosen(batch)
            if log.block.type is not BlockType.DELETE:
                self._watch_keys(chosen)
            keys = record_keys(chosen, source=log.block.where)
            if self._query.takes_sample:
                self.sample.see_log_keys(keys)
            yield keys

    def _key_batches(self, log: SortedLog) -> Iterator[pa.RecordBatch]:
        if log.block.type is BlockType.DELETE:
            ordering = ordering_columns(self._rules, self.schema)
            for deleted in read_deletes(log.file, log.block, ordering, bytes_max=self._budget.batch):
                yield pa.RecordBatch.from_arrays([deleted.keys], [RECORD_KEY_FIELD])
            return
        yield from read_data_block(
            log.file,
            log.block,
            bytes_max=self._budget.batch,
            columns=[RECORD_KEY_FIELD],
            choose=self._choose if self._query.prunes else None,
        )

    def _as_run(self, log: SortedLog, rank: int) -> FileRun:
        records = self._records_of(log, rank)
        ahead = records if self._merge.ahead is None else self._merge.ahead.over(records)
        return FileRun(f"the log {log.block.file}", ahead, self._rules)

    def _records_of(self, log: SortedLog, rank: int) -> Iterator[pa.RecordBatch | Tombstones]:
        """All that a merge needs of a log, the oldest one being of rank 0."""
        if log.block.type is not BlockType.DELETE:
            yield from self._rows_of(log.file, log.block, batch_rows=log.batch_rows, rank=rank)
            return
        for deleted in self._deletes_of(log.file, log.block):
            deletes = Tombstones(deleted.keys, self._values_of(deleted, log.block))
            if self._query.takes_sample:
                self.sample.see_log_deletes(deletes.keys, deletes.ordering, rank=rank)
            yield deletes

    def _read_block(self, file: BinaryIO, block: LogBlock, takers: Iterable[LogRecords]) -> None:
        order = OrderWatch()
        places = BlockPlaces(block) if self._merge.by_places else None
        if block.type is BlockType.DELETE:
            for deletes in self._deletes_of(file, block):
                self._append_deletes(deletes, block, takers, places)
                self._watch_order(order, deletes.keys, block)
        else:
            self._append_rows(self._rows_of(file, block, places=places), block, takers, order)
        if places is not None:
            places.finish()

    def _append_rows(
        self, batches: Iterable[pa.RecordBatch], block: LogBlock, takers: Iterable[LogRecords], order: OrderWatch
    ) -> None:
        for rows in batches:
            for records in takers:
                records.append_data(rows, source=block.where, block_bytes=block.content_length)
            self._watch_keys(rows)
            self._watch_order(order, rows.column(RECORD_KEY_FIELD), block)

    def _watch_order(self, order: OrderWatch, keys: pa.Array, block: LogBlock) -> None:
        if self.scan.by_rank and self.out_of_order is None:
            order.add(keys)
            self.out_of_order = None if order.holds else block.file

    def _deletes_of(self, file: BinaryIO, block: LogBlock) -> Iterator[DeletedKeys]:
        """The deletes of a block that are asked for."""
        self._meter.bytes_read += block.content_length
        self._meter.bytes_stored += block.content_length
        ordering = ordering_columns(self._rules, self.schema)
        for deletes in read_deletes(file, block, ordering, bytes_max=self._budget.batch):
            yield self._wanted(deletes)

    def _rows_of(
        self,
        file: BinaryIO,
        block: LogBlock,
        *,
        batch_rows: int = BATCH_ROWS,
        rank: int = 0,
        places: BlockPlaces | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a block that are asked for, checked, as they go on from here: with their places, if given."""
        number = part_number(block, self._rules)
        lacking = set(self.schema.names) - self._rules.in_part[number - 1] if number else ()
        for batch in read_data_block(
            file,
            block,
            batch_rows=batch_rows,
            bytes_max=self._budget.batch,
            columns=None if self._query.columns is None else self._stored_schema.names,
            choose=self._choose if self._query.prunes else None,
            dictionaries=[column.name for column in self.schema if pa.types.is_dictionary(column.type)],
            wanted_keys=self._wanted_keys if places is None else None,
            meter=self._meter,
        ):
            from_avro = block.type is not BlockType.PARQUET_DATA
            rows = project(
                batch, self._stored_schema, where=block.where, from_avro=from_avro, is_partial=block.is_partial
            )
            stored = self._keys.chosen(with_made_keys(rows, self._key_fields))
            self._check_partition(stored, block)
            projected = stored.select(self.schema.names)
            check_row_sizes(projected, self._query.row_bytes_max, where=block.where)
            here = None if places is None else places.take(batch.num_rows)
            if self._query.takes_sample:
                self.sample.see_log_data(projected, lacking=lacking, rank=rank, places=here)
            carried = with_part(self._query.carried(projected), number, self._rules)
            yield carried if here is None else with_places(carried, here)

    def _take(self, part: pa.RecordBatch | Tombstones, takers: Iterable[LogRecords]) -> None:
        """Records of no log."""
        if isinstance(part, Tombstones):
            kind = ordering_type(self._rules, self.schema)
            for records in takers:
                records.append_deletes(part.keys, part.ordering, wrappers=_wrappers(kind), source=_INCOMING)
            if self._query.takes_sample:
                self.sample.see_log_deletes(part.keys, part.ordering)
            return
        rows = project(part, self.schema, where=_INCOMING)
        check_row_sizes(rows, self._query.row_bytes_max, where=_INCOMING)
        carried = with_part(self._query.carried(rows), 0, self._rules)
        for records in takers:
            records.append_data(carried, source=_INCOMING)
        self._watch_keys(rows)
        if self._query.takes_sample:
            self.sample.see_log_data(rows)

    def _append_deletes(
        self, deleted: DeletedKeys, block: LogBlock, takers: Iterable[LogRecords], places: BlockPlaces | None
    ) -> None:
        here = None if places is None else places.take(len(deleted.keys))
        keys = deleted.keys if here is None else keys_with_places(deleted.keys, here)
        for records in takers:
            records.append_deletes(keys, deleted.ordering, wrappers=deleted.wrappers, source=block.where)
        if self._watches_keys and len(deleted.keys):
            self.all_keys = _joined(self.all_keys, deleted.keys)
        if self._query.takes_sample:
            self.sample.see_log_deletes(deleted.keys, self._values_of(deleted, block), places=here)

    def _values_of(self, deleted: DeletedKeys, block: LogBlock) -> pa.Array | None:
        """The deletes' ordering values in the table's type."""
        return delete_ordering(
            deleted.ordering,
            ordering_type(self._rules, self.schema),
            wrappers=deleted.wrappers,
            rows=len(deleted.keys),
            source=block.where,
        )

    def _choose(self, file: ParquetBatches) -> Sequence[int]:
        return choose_log_row_groups(row_groups(file, self._query.ranged_schema(self.schema)), self._query.predicate)

    def _wanted(self, deleted: DeletedKeys) -> DeletedKeys:
        self._meter.rows += len(deleted.keys)
        mask = self._keys.mask(pa.RecordBatch.from_arrays([deleted.keys], [RECORD_KEY_FIELD]))
        if mask is None:
            return deleted
        ordering = None if deleted.ordering is None else deleted.ordering.filter(mask)
        is_default = deleted.is_default[mask.to_numpy(zero_copy_only=False)]
        return replace(deleted, keys=deleted.keys.filter(mask), ordering=ordering, is_default=is_default)

    def _watch_keys(self, batch: pa.RecordBatch) -> None:
        if not self._watches_keys or batch.num_rows == 0:
            return
        keys = batch.column(RECORD_KEY_FIELD)
        self.data_keys = _joined(self.data_keys, keys)
        self.all_keys = _joined(self.all_keys, keys)

    def _check_partition(self, batch: pa.RecordBatch, block: LogBlock) -> None:
        """A row says which partition it is in, so a log that was copied here from another one is found out."""
        if block.file in self._unpublished:
            return
        here = parent(block.file)
        paths = batch.column(PARTITION_FIELD)
        if pa.types.is_dictionary(paths.type):
            paths = pc.unique(paths).dictionary_decode()
        foreign = paths.filter(pc.not_equal(paths, here))
        if len(foreign):  # to Hudi a path with a slash before or behind it is the same
            foreign = foreign.filter(pc.not_equal(pc.utf8_trim(foreign, "/"), here))
        if len(foreign):
            raise BrokenFile(
                f"{block.where} does not belong here.",
                why=f"A row of it is in partition {foreign[0].as_py()!r}, and the file lies in {here!r}.",
                remedy="Find out who put the file there, and restore the one that its commit wrote.",
            )


def _joined(known: ValueRange | None, keys: pa.Array) -> ValueRange:
    found = pc.min_max(keys).as_py()
    here = ValueRange(found["min"], found["max"])
    return here if known is None else known.joined(here)


def _wrappers(kind: pa.DataType | None) -> list[str]:
    """A class of Hudi's for the values of each ordering field."""
    if kind is None:
        return []
    kinds = [field.type for field in kind] if pa.types.is_struct(kind) else [kind]
    return [min(ordering_wrappers(each) or ()) for each in kinds]


def folded(
    records: LogRecords | FileRuns, rules: MergeRules, schema: pa.Schema, *, window_bytes: int, by_key: bool = False
) -> Iterator[pa.RecordBatch | Tombstones]:
    """The records that won their keys, to be read once: rows and deletes, each kind in the order in which the keys
    appeared first, or in that of the keys where it is asked for, or the records did not fit memory."""
    fold = records.fold
    if fold is None:
        yield from SortedMerge(records.runs, rules, schema, window_bytes=window_bytes).records()
        return
    data, deletes = fold.data_ids(), fold.tombstone_ids()
    if by_key:
        in_order = fold.ids_by_key()
        is_data = fold.kinds(in_order) == LogRecordKind.DATA
        data, deletes = in_order[is_data], in_order[~is_data]
    for ids in _parts(data, min(_ROWS_AT_ONCE, fold.rows_at_once_max)):
        yield fold.take(ids)
    for ids in _parts(deletes, _TOMBSTONES_AT_ONCE):
        yield fold.tombstones(ids)


def _parts(ids: npt.NDArray[np.int64], length: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, len(ids), length):
        yield ids[start : start + length]
