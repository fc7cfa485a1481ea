"""One file slice as merged rows: base file and logs in, Arrow batches out.

The logs are read first and folded to one record per key (`read/logs/log_run.py`), then the base file streams by and the
two are merged: by the order of their keys where the base file's footer says that it is sorted, or there is none
(`merge/sorted_merge.py`), else by their hashes (`merge/hash_merge.py`).

Where the logs do not fit their share of the budget (`merge/memory_budget.py`) they come in sorted runs, and a base file
that is not sorted is sorted in files, too; then the merge is by order.

Where a key is in several rows of the base file, and the logs name places in it, they are read once more and merged by
places (`read/positions.py`).

Touches: reads the slice's files; spill files of its own outside of the table; the logs of deletes, reading them.
Keeps:   1. the rows are those that Hudi's snapshot query at the slice's instant returns, with their commit times and
            sequence numbers; only `_hoodie_file_name` is left for the writer to set;
         2. the counts add up: rows == base_rows + inserted - deleted - folded; and all rows that the base file's footer
            counts were read, where no query asks for less;
         3. where `is_sorted`, the rows are in the order of their keys' bytes, no key twice;
         4. every file and temporary file is closed when the batches are exhausted or the reader stops early;
         5. with a query, the rows are those of 1 that it chooses, with the columns that it names;
         6. the rows of `parts` and of the row groups that it does not decode are those of `batches`, in their order,
            and the counts are of all of them;
         7. the rules give the rows that the table's own give, or where a log cannot be merged by rank those of
            `default`.
See:     docs/decisions/0046-what-may-be-left-unread.md for what is not read then;
         docs/decisions/0069-merging-by-rank.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import BinaryIO, Self
from zlib import crc32

import numpy as np
import pyarrow as pa

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.base.named_key import named_key
from lakeward.format.avro.schema import keeping_nested_floats, table_schema
from lakeward.format.file_name import resolve
from lakeward.format.log.change_log import ChangedRows
from lakeward.format.parquet.base_file import BaseFileShape, open_base_file, read_shape
from lakeward.format.parquet.batches import BATCH_ROWS, ParquetBatches, WantedKeys
from lakeward.format.parquet.behind import Ahead
from lakeward.format.parquet.key_summary import SealedKeys
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.parquet.row_groups import row_groups
from lakeward.format.parquet.stored_row_groups import NotCopyable, StoredRowGroup, read_stored_row_groups
from lakeward.merge.copy_through import check_keys, find_untouched, not_sorted, weave
from lakeward.merge.hash_merge import HashMerge
from lakeward.merge.rules.merge_rules import (
    RECORD_KEY_FIELD,
    MergeMode,
    MergeRules,
    RepeatedKeys,
)
from lakeward.merge.rules.ordering_codes import ordering_values
from lakeward.merge.rules.ordering_type import ordering_type
from lakeward.merge.rules.partial_rows import part_schema, with_part
from lakeward.merge.rules.records import record_keys
from lakeward.merge.rules.winner import LogRecordKind
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.sorted_run import BaseRun, SortedRun
from lakeward.merge.runs.spilled_run import data_records, record_schema
from lakeward.merge.sorted_merge import SortedMerge
from lakeward.read.large_rows import check_row_sizes
from lakeward.read.logs.log_deletes import may_delete_all
from lakeward.read.logs.log_run import Incoming, LogMerge, LogRun, SliceLogs
from lakeward.read.logs.log_scan import LogScan, scan_slice_heads
from lakeward.read.logs.partial_blocks import rules_of_blocks
from lakeward.read.made_keys import with_made_keys
from lakeward.read.operation_column import has_operations
from lakeward.read.positions import GoesByPlaces, can_go_by_places, names_places, with_places, without_places
from lakeward.read.query.predicate import Predicate
from lakeward.read.query.row_group_choice import LogSide, choose_row_groups
from lakeward.read.query.sample import SampleTap
from lakeward.read.query.slice_query import EVERYTHING, SliceQuery
from lakeward.read.slice_input import MergeCounts, MergedBy, SliceInput
from lakeward.storage.storage import Storage

_TEXT_BYTES = 32
"""What a value is taken to have whose type does not say it."""


def rules_of_ranks(storage: Storage, base_path: str, scan: LogScan, rules: MergeRules, schema: pa.Schema) -> MergeRules:
    """The rules by which the scan's blocks are merged: the table's, or those of the layout `default`, where they are
    not to be merged by rank or the result is the same.

    Args:
        schema: the table's, meta columns first.

    Raises `BrokenFile` and `Unsupported` for deletes.

    Whether a slice of a table of the layout `lsm_tree` must be merged by the ranks of its files, record by record.

    Hudi's reader of that layout folds the records of a key in the order of their files, and the base row is the oldest
    of them; elsewhere the logs are folded first, and what is left meets the base row (`merge/rules/winner`). Both give
    the same rows where no delete is unconditional. So logs without such deletes are folded in memory, as ever.
    """
    if rules.base_is_first and scan.by_rank and may_delete_all(storage, base_path, scan.blocks, rules, schema):
        return rules
    if rules.by_rank:
        return replace(rules, by_rank=False)
    return rules


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Rows of the base file that no log touches: a row group, to be taken over as it is stored."""

    source: BinaryIO
    group: StoredRowGroup
    keys: Iterator[pa.Array] | None
    """The record keys of the rows, to be read once, before the next part is; None where `SealedKeys` has them."""


class MergedSlice:
    """The merged rows of a slice, to be read once. A context manager, for readers that may stop early."""

    def __init__(
        self,
        storage: Storage,
        slice_input: SliceInput,
        *,
        spill_folder: str | None = None,
        by_order: bool = True,
        by_places: bool = False,
        query: SliceQuery = EVERYTHING,
        on_changes: Callable[[ChangedRows], object] | None = None,
        incoming: Incoming | None = None,
    ) -> None:
        self._storage = storage
        self._by_order = by_order
        self._spill_folder = spill_folder
        self._on_changes = on_changes
        self._input = slice_input
        self._resources = ExitStack()
        self._ahead = Ahead("lakeward-decoder")
        self._base_in_parts = ExitStack()
        self._counts: MergeCounts | None = None
        self._left_out: tuple[StoredRowGroup, ...] = ()
        self._sealed: SealedKeys | None = None
        for path in slice_input.log_files:
            resolve(slice_input.base_path, path, native=True)
        scan = scan_slice_heads(
            storage,
            slice_input.base_path,
            slice_input.log_files,
            instant=slice_input.instant,
            committed=slice_input.committed,
            by_rank=slice_input.merges_by_rank,
            since=slice_input.since,
        )
        self._query = query
        has_operation = has_operations(scan.blocks, slice_input.rules, base_has=self._base.has_operation)
        table = table_schema(slice_input.schema, has_operation=has_operation)
        if not slice_input.widens_nested_floats:
            table = keeping_nested_floats(table)
        key_fields = slice_input.key_fields
        if key_fields:
            query = replace(query, by_statistics=False)  # no footer says anything of keys that are made
        self._query = query
        has_logs = bool(scan.blocks) or incoming is not None
        ranked = rules_of_ranks(storage, slice_input.base_path, scan, slice_input.rules, table)
        ranked = replace(ranked, repeated=_repeated_keys(slice_input.rules, scan, has_logs=has_logs))
        self.rules = rules_of_blocks(scan.blocks, ranked, table, key_fields)
        """The table's, or what its logs make of them."""
        self._has_logs = has_logs
        # Readers of the layout `lsm_tree` do not look at places.
        names = incoming is None and not slice_input.rules.by_rank and names_places(scan.blocks, slice_input.base_file)
        self._names_places = names
        self._by_places = names and by_places and can_go_by_places(scan.blocks)
        self._has_repeated = False
        if on_changes is not None and (has_operation or key_fields or self.rules.needs_all_records):
            raise Unsupported(
                f"The changes of file group {slice_input.file_id} cannot be captured.",
                why="Its rows carry no keys, some of their columns or their kind of change; what Hudi calls a change "
                "of such rows is not known.",
                remedy="Leave compaction of this table to Hudi, or switch change data capture off.",
            )
        self._read_schema = query.with_dictionaries(
            query.read_schema(table, self.rules, key_fields), self.rules, self._base.repeated, key_fields
        )
        self.schema = query.chosen_schema(table)
        """What the rows are rows of; as they come, they have the `row_schema`."""
        self.meter = ReadMeter()
        """What was read of the slice's files so far."""
        self.sample = SampleTap()
        """A few keys with all that the files say about them, to merge them again, where the query asks for it."""
        self._run = self._open_run(scan, incoming)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._ahead.close()
        self._resources.close()
        self._base_in_parts.close()

    @property
    def row_schema(self) -> pa.Schema:
        """The schema of the batches, but for hashes: of a rewrite without the file's name, and with dictionaries."""
        return self._read_schema if self._query.is_rewrite else self.schema

    @property
    def scan(self) -> LogScan:
        """What the heads of the slice's logs say."""
        return self._run.scan

    @property
    def out_of_order(self) -> str | None:
        """A log of the layout `lsm_tree` that is not in the order of its keys, if one was met."""
        return self._run.out_of_order

    @property
    def counts(self) -> MergeCounts:
        """Known once the batches are exhausted. With a query they are those of what was read, before its rows were
        chosen by values."""
        assert self._counts is not None, "the batches are not exhausted"
        return self._counts

    @property
    def is_sorted(self) -> bool:
        """The rows come in the order of their keys' bytes, no key twice; final when the batches are exhausted."""
        return self._merges_by_order and not self._has_repeated and not self._by_places

    @property
    def _merges_by_order(self) -> bool:
        """Final when the logs are read."""
        return self._relies_on_order or self._input.comes_by_key or not self._run.records.fits

    @property
    def _relies_on_order(self) -> bool:
        """The base file is read as one that is sorted: its footer says so, or its rows are to come so anyway."""
        return self._by_order and not self._by_places and (self._base.is_sorted or self._input.comes_by_key)

    def _open_run(self, scan: LogScan, incoming: Incoming | None) -> LogRun:
        read = self._input
        logs = SliceLogs(
            read.base_path,
            read.log_files,
            read.instant,
            accept_damaged=read.accept_damaged_logs,
            incoming=incoming,
        )
        merge = LogMerge(
            self.rules,
            read.budget,
            spill_folder=self._spill_folder,
            key_fields=read.key_fields,
            by_order=self._by_order,
            ahead=self._ahead,
            watched_base=read.base_file if self._names_places and not self._by_places else None,
            by_places=self._by_places,
        )
        run = LogRun(
            self._storage,
            logs,
            merge,
            schema=self._read_schema,
            query=replace(self._query, predicate=Predicate()) if self._by_places else self._query,
            scan=scan,
            meter=self.meter,
            sample=self.sample,
        )
        self._resources.callback(run.close)
        return run

    def _read_logs(self) -> None:
        """Read the logs, when it was not done yet; a second time where they must be merged by places."""
        self._run.read()
        if self._run.records.repeats_in_block and not self._by_places and can_go_by_places(self._run.scan.blocks):
            self._run.close()
            self.sample.begin_again()
            self._by_places = True
            self._run = self._open_run(self._run.scan, None)
            self._run.read()
        if self._by_places and self._on_changes is not None:
            raise Unsupported(
                f"The changes of file group {self._input.file_id} cannot be captured.",
                why="A record key is in several rows of its base file, and what Hudi calls a change of such rows is "
                "not known.",
                remedy="Leave compaction of this file group to Hudi; or read the partition, and write it with "
                "insert_overwrite --deduplicate.",
            )

    def _refuse_repeated(self, key: str) -> None:
        """A key is in several base rows, and in logs that name places, by which the slice is not merged."""
        raise GoesByPlaces(
            f"The base file {self._input.base_file} holds the record key {named_key(key)} more than once.",
            why="Its logs name places in it, by which Hudi's readers merge them, and not each of these rows in each "
            "block; or they are HFiles.",
            remedy="Let Hudi compact this file group; or read the partition, and write it with insert_overwrite "
            "--deduplicate.",
        )

    def fold_logs(self) -> int:
        """Read the logs. Returns how many rows the slice can have at most; called before `batches`."""
        self._read_logs()
        return self._base.rows + self._run.records.keys_max

    def leave_out(self, form: bytes, *, bloom_bytes_max: int) -> SealedKeys | None:
        """Choose the row groups that no log touches (`merge/copy_through`) and that a file of this form can take over.

        They are left out of `batches`, and `parts` has them as they are stored. Returns what the base file says of its
        keys where their keys need no decoding then.

        Args:
            bloom_bytes_max: what the bits of that file's bloom filter may take.
        """
        assert self._query.is_rewrite
        self._read_logs()
        fold = self._run.records.fold
        if not self._relies_on_order or self._input.base_file is None or fold is None:
            return None
        try:
            with self.open_base() as file:
                stored = read_stored_row_groups(file, name=self._input.base_file, bytes_max=self._input.budget.footer)
        except NotCopyable:
            return None
        if stored.form != form:
            return None
        by_key = fold.ids_by_key()
        self._left_out = find_untouched(
            stored.groups,
            log_keys=len(by_key),
            log_key=lambda place: fold.keys_of(by_key[place : place + 1])[0].as_py().encode(),
            row_group_bytes=self._input.budget.row_group,
        )
        keys = stored.keys if self._left_out else None
        if keys is not None and keys.bloom.still_serves(self._base.rows, more=len(by_key), bytes_max=bloom_bytes_max):
            self._sealed = keys
        return self._sealed

    def parts(self) -> Iterator[pa.RecordBatch | CopiedRows]:
        """The merged rows as `batches` has them, and between them those that `leave_out` chose. Raises `NotSorted`."""
        if not self._left_out:
            yield from self.batches()
            return
        base = self._base_in_parts.enter_context(self.open_base())
        if self._sealed is not None:
            self._spot_check(base, self._sealed)
        keys = self._keys_of(base, self._left_out) if self._sealed is None else None
        for part in weave(self.batches(), self._left_out, name=self._input.base_file or ""):
            if isinstance(part, StoredRowGroup):
                yield CopiedRows(base, part, None if keys is None else next(keys))
            else:
                yield part

    def _spot_check(self, base: BinaryIO, sealed: SealedKeys) -> None:
        """Check all keys in one row group that is left out, another one at another instant."""
        group = self._left_out[crc32(self._input.instant.encode()) % len(self._left_out)]
        name = self._input.base_file or ""
        for keys in next(self._keys_of(base, [group])):
            if not sealed.bloom.has_all(keys):
                raise not_sorted(name, group, "not all of its keys are in the bloom filter of its footer")

    def _keys_of(self, base: BinaryIO, groups: Sequence[StoredRowGroup]) -> Iterator[Iterator[pa.Array]]:
        """The record keys of row groups of the base file, one after the other."""
        name = self._input.base_file or ""
        batches = open_base_file(
            base,
            pa.schema([self.schema.field(RECORD_KEY_FIELD)]),
            name=name,
            choose=lambda _: [group.index for group in groups],
        )
        keys = (record_keys(batch, source=name) for batch in batches)
        for group in groups:
            yield check_keys(keys, group, name=name)

    def open_base(self) -> BinaryIO:
        """The base file, for the caller to close."""
        assert self._input.base_file is not None
        return self._storage.open_input(resolve(self._input.base_path, self._input.base_file))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows: by their keys, or those of the base file in its order, then those that only the logs have.

        Raises `NotSorted` where the base file's footer is wrong.
        """
        assert self._counts is None
        try:
            self._read_logs()
            merge: SortedMerge | HashMerge
            fold = self._run.records.fold
            on_repeated = self._refuse_repeated if self._names_places and not self._by_places else None
            folded = 0
            if self._merges_by_order or fold is None:
                merge = SortedMerge(
                    [*self._base_runs(), *self._run.records.runs],
                    self.rules,
                    self._read_schema,
                    window_bytes=self._input.budget.window,
                    waiting_bytes=16 * self._input.budget.window,
                    on_changes=self._on_changes,
                    on_repeated=on_repeated,
                    columns=self._columns_behind_merge,
                )
                yield from self._chosen(merge.batches())
                log_keys, folded = merge.log_keys, merge.folded
                self._has_repeated = merge.has_repeated
            else:
                merge = HashMerge(
                    fold,
                    self.rules,
                    base_name=self._input.base_file or "(no base file)",
                    on_changes=self._on_changes,
                    on_repeated=on_repeated,
                )
                yield from self._chosen(merge.batches(self._ahead.over(self._base_batches())))
                log_keys = fold.keys
            if self._by_places and merge.inserted:
                raise BrokenFile(
                    f"The logs of file group {self._input.file_id} name places in {self._input.base_file} where other "
                    "record keys are.",
                    why="A record key is in several of its rows, so that the places count.",
                    remedy="Find out which of the files was changed, and restore it from a copy.",
                )
            rows_left_out = sum(group.rows for group in self._left_out)
            self._check_base_rows(merge.base_rows + rows_left_out)
            self._counts = MergeCounts(
                base_rows=merge.base_rows + rows_left_out,
                log_files=self._run.scan.log_files,
                log_blocks=self._run.scan.log_blocks,
                corrupt_blocks=self._run.scan.corrupt_blocks,
                rollback_blocks=self._run.scan.rollback_blocks,
                log_records=self._run.records.records,
                log_keys=log_keys,
                updated=merge.updated,
                inserted=merge.inserted,
                deleted=merge.deleted,
                rows=merge.rows + rows_left_out,
                merged_by=self._merged_by,
                folded=folded,
                row_groups_copied=len(self._left_out),
            )
        finally:
            self._ahead.close()
            self._resources.close()

    def _check_base_rows(self, rows: int) -> None:
        """The merge's counts are of what it was given: what a reader loses before it, they do not miss."""
        if rows != self._base.rows and not self._query.predicate.conditions:
            raise BrokenFile(
                f"Of the base file {self._input.base_file} {rows} rows were read, its footer says {self._base.rows}.",
                why="A merge of fewer rows would lose the others.",
                remedy="Run it again; if it fails again, the file is damaged: restore it from a copy.",
            )

    @property
    def _merged_by(self) -> MergedBy:
        is_in_order = self._by_order and self.out_of_order is None
        if self._input.rules.by_rank and not (self._run.scan.by_rank and is_in_order):
            return MergedBy.OUT_OF_RANKS
        if self.rules.base_is_first:
            return MergedBy.RANKS
        if self._relies_on_order:
            return MergedBy.ORDER
        relied_first = self._base.is_sorted or self._input.comes_by_key
        if not self._merges_by_order:
            return MergedBy.HASHES_AFTER_ORDER if relied_first else MergedBy.HASHES
        return MergedBy.SORTING_AFTER_ORDER if relied_first else MergedBy.SORTING

    @cached_property
    def _base(self) -> BaseFileShape:
        if self._input.base_file is None:
            return BaseFileShape(0, is_sorted=True)
        with self.open_base() as file:
            return read_shape(file, name=self._input.base_file, with_repeated=self._query.is_rewrite)

    def _base_runs(self) -> Sequence[SortedRun]:
        """The base file as one run, or as many where it is not sorted."""
        name, rules = f"the base file {self._input.base_file}", self.rules
        kind = ordering_type(rules, self._read_schema)
        if self._relies_on_order:
            # A file that says that it is sorted has no key twice.
            base = self._ahead.over(self._base_batches())
            return [BaseRun(name, base, rules.ordering_fields, repeats_keys=not self._base.is_sorted)]
        schema = record_schema(part_schema(self._query.carried_schema(self._read_schema), rules), kind)
        sorter = RecordSorter(
            schema, name=name, is_base=True, memory_bytes=self._input.budget.logs, folder=self._spill_folder
        )
        self._resources.callback(sorter.close)
        for batch in self._ahead.over(self._base_batches()):
            kinds = np.full(batch.num_rows, LogRecordKind.DATA, dtype=np.int8)
            values = None if kind is None else ordering_values(batch, rules.ordering_fields)
            sorter.add(data_records(batch, kinds, values, schema))
        return sorter.finish()

    def _base_batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in self._read_base(self._read_schema):
            record_keys(batch, source=self._input.base_file or "")
            where = f"the base file {self._input.base_file}"
            check_row_sizes(batch, self._query.row_bytes_max, where=where)
            if self._query.takes_sample:
                self.sample.see_base(batch, first_place=rows if self._by_places else None)
            carried = with_part(self._query.carried(batch), 0, self.rules)
            yield with_places(carried, np.arange(rows, rows + batch.num_rows)) if self._by_places else carried
            rows += batch.num_rows

    def _read_base(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._input.base_file is None:
            return
        # Not a `with` of this generator: a reader that stops early closes the slice, not its iterators.
        file = self._resources.enter_context(self.open_base())
        batches = open_base_file(
            file,
            schema,
            name=self._input.base_file,
            batch_rows=self._batch_rows(schema),
            bytes_max=self._input.budget.batch,
            choose=self._choose if (self._query.prunes and not self._by_places) or self._left_out else None,
            wanted_keys=self._wanted_keys,
            meter=self.meter,
        )
        for batch in batches:
            keyed = with_made_keys(batch, self._input.key_fields)
            yield keyed if self._by_places else self._query.predicate.on_keys.chosen(keyed)

    @property
    def _wanted_keys(self) -> WantedKeys | None:
        """Which keys are wanted of the rows of the base file; None: all, or keys that are not stored."""
        is_asked = self._query.prunes and not self._by_places and not self._input.key_fields
        return self._query.predicate.wanted_keys if is_asked else None

    def _batch_rows(self, schema: pa.Schema) -> int:
        """More rows at once where few columns are read: as many as are a window's, by a guess of what values take."""
        row_bytes = sum(8 if _is_narrow(column.type) else _TEXT_BYTES for column in schema)
        return min(max(BATCH_ROWS, self._input.budget.window // max(1, row_bytes)), 4 * BATCH_ROWS)

    def _choose(self, file: ParquetBatches) -> Sequence[int]:
        """The row groups of the base file that are read; the logs were read before."""
        if self._left_out:
            left_out = {group.index for group in self._left_out}
            return [index for index in range(file.metadata.num_row_groups) if index not in left_out]
        groups = row_groups(file, self._query.ranged_schema(self._read_schema))
        rules = self.rules
        # A base row that loses still fills the one that wins.
        mode = rules.mode if rules.partial_updates is None else MergeMode.EVENT_TIME_ORDERING
        repeats = not self._base.is_sorted
        predicate = self._query.predicate
        if repeats and self.rules.repeated is not RepeatedKeys.APART:
            predicate = predicate.on_keys  # any row may be a version of another one
        logs = LogSide(mode, self._run.data_keys, self._run.all_keys if repeats else None)
        return choose_row_groups(groups, predicate, logs)

    @property
    def _columns_behind_merge(self) -> list[str] | None:
        """The merge puts together the columns that the query names, though it needs others; None: all."""
        if self._query.columns is None or self._by_places:
            return None
        wanted = {*self.schema.names, *self._query.predicate.columns} or {RECORD_KEY_FIELD}
        return [name for name in self._read_schema.names if name in wanted]

    def _chosen(self, merged: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        predicate = self._query.predicate if self._by_places else self._query.predicate.on_values
        for batch in merged:
            chosen = predicate.chosen(without_places(batch) if self._by_places else batch)
            if chosen.num_rows:
                yield chosen if self._query.columns is None else chosen.select(self.schema.names)


def _is_narrow(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind))


def _repeated_keys(rules: MergeRules, scan: LogScan, *, has_logs: bool) -> RepeatedKeys:
    """What happens to rows with one key in the slice's base file."""
    if not rules.by_rank or not has_logs:
        return RepeatedKeys.APART
    return RepeatedKeys.VERSIONS if scan.by_rank else RepeatedKeys.REFUSED


def open_slice(
    storage: Storage,
    slice_input: SliceInput,
    *,
    spill_folder: str | None = None,
    by_order: bool = True,
    by_places: bool = False,
    query: SliceQuery = EVERYTHING,
    on_changes: Callable[[ChangedRows], object] | None = None,
    incoming: Incoming | None = None,
) -> MergedSlice:
    """Scan the slice's logs and be ready to merge. Raises `Unsupported`, `BrokenFile`, `NotFound`, `UntrustedName`.

    Args:
        by_order: rely on the order of a base file whose footer says that it is sorted.
        by_places: merge by the places that logs name in the base file, also where one name for each key in a block does
            not ask for it.
        query: what of the slice is wanted.
        on_changes: is called with every key that the logs change, while the batches are read.
        incoming: records of no log, which are merged as those of a log behind all others are.
    """
    if slice_input.base_file is not None:
        resolve(slice_input.base_path, slice_input.base_file)
    if slice_input.base_file is None and not slice_input.log_files:
        raise BrokenFile(f"The file slice of {slice_input.file_id} has no files.")
    return MergedSlice(
        storage,
        slice_input,
        spill_folder=spill_folder,
        by_order=by_order,
        by_places=by_places,
        query=query,
        on_changes=on_changes,
        incoming=incoming,
    )
