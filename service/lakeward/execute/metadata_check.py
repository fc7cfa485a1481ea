"""Is the metadata table what the table's files say it must be? Every difference, named.

    partitions     those of the properties have a folder, and the other way round
    files          of every partition, names and sizes, against the storage
    column_stats   of a sample of base files, against what their footers say
    bloom_filters  the same
    record_index   of a sample of record keys, both ways: a row's key leads to its file group, and a key leads to a row

Writers work meanwhile, and a difference may be a step of theirs. So whatever is found is looked for again, on a fresh
look at the table, and is a problem only if it is found twice.

Touches: reads the table; writes nothing and takes no lock.
Keeps:   1. equal tables, numbers and seeds give the same sample;
         2. a sound table that writers work on has no problem; what could not be checked is said, and is none;
         3. memory holds the table's snapshot and the names that the metadata table lists, the sample, and a batch of
            record keys.
See:     `execute/row_lookup.py` for what a file group holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from lakeward.clock import Clock
from lakeward.errors import BrokenFile, NotFound, Unsupported
from lakeward.execute.check_report import Check, CheckReport, Problem
from lakeward.execute.row_lookup import find_rows, sample_keys
from lakeward.format.metadata_key import bloom_filter_key, column_stats_key
from lakeward.format.metadata_partition import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from lakeward.format.metadata_record import BloomFilterRecord, ColumnStatsRecord, RecordIndexRecord
from lakeward.format.parquet_stats import read_bloom_filter, read_column_stats
from lakeward.format.stats_value import StatsValue, stats_order
from lakeward.storage.storage import Storage, join
from lakeward.table.file_group import BaseFile, FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.index_definitions import IndexedColumns, load_index_definitions, load_indexed_columns
from lakeward.table.metadata_listing import DifferenceKind, MetadataListing, compare_with_storage
from lakeward.table.metadata_reader import MetadataReader
from lakeward.table.metadata_table import has_metadata_table, load_metadata_table, metadata_base_path
from lakeward.table.snapshot import TableSnapshot

PARTITIONS = "partitions"

_REBUILD = "Run `lakeward metadata rebuild {partition}`, and let a Hudi writer write once with the metadata table on."
_DISABLE = "Run `lakeward metadata disable`, and let a Hudi writer write once with the metadata table on."
_CONFIDENCE_EVENTS = 3.0
"""Of n that were looked at none was wrong: with 95 % confidence fewer than 3 in n are (the rule of three)."""


@dataclass(frozen=True, slots=True)
class SampleSize:
    files: int | None
    """Base files whose footers are read; None for all."""
    keys: int
    """Record keys that are looked up, each way."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Look:
    """The table and its metadata table at one moment, the timeline of the table first."""

    storage: Storage
    snapshot: TableSnapshot
    reader: MetadataReader
    listing: MetadataListing
    partitions: tuple[str, ...]
    """Of the metadata table, that can be read."""
    indexed: IndexedColumns | None
    is_partitioned_index: bool

    @property
    def base_files(self) -> dict[str, BaseFile]:
        """Those of the newest slices that have one, by path."""
        found = (base_of(group.slices) for group in self.snapshot.file_groups)
        return {base.path: base for base in found if base is not None}


def base_of(slices: Iterable[FileSlice]) -> BaseFile | None:
    return next((slice_.base_file for slice_ in slices if slice_.base_file is not None), None)


def check_metadata(
    storage: Storage, look: Callable[[], TableSnapshot], *, size: SampleSize, clock: Clock
) -> CheckReport:
    """`look` gives the table as it is now; asked again where something is found. Raises what it raises."""
    snapshot = look()
    folders = _partition_problems(storage, snapshot)
    if folders:
        again = set(_partition_problems(storage, look()))
        folders = [problem for problem in folders if problem in again]
    if not has_metadata_table(snapshot.config):
        return CheckReport((), tuple(folders), ("The table has no metadata table.",))
    missing = {problem.subject for problem in folders}
    try:
        first = _take_look(storage, snapshot, clock, without=missing)
        return _Checking(first, lambda: _take_look(storage, look(), clock, without=missing), size, folders).run()
    except BrokenFile as error:
        problem = Problem(FILES, metadata_base_path(snapshot.base_path), f"{error.what} {error.why}", _DISABLE)
        return CheckReport((), (*folders, problem))
    except Unsupported as error:
        return CheckReport((), tuple(folders), (f"{error.what} {error.why}",))


def _partition_problems(storage: Storage, snapshot: TableSnapshot) -> list[Problem]:
    config = snapshot.config
    entries = storage.list(metadata_base_path(snapshot.base_path))
    folders = {entry.name for entry in entries if entry.is_folder and not entry.name.startswith(".")}
    named = config.built_metadata_partitions
    problems = [
        Problem(
            PARTITIONS,
            name,
            f"hoodie.table.metadata.partitions names {name}, and the metadata table has no folder of that name",
            _DISABLE if name == FILES else _REBUILD.format(partition=name),
        )
        for name in named
        if name not in folders
    ]
    for name in sorted(folders - set(config.metadata_partitions)):
        problems.append(
            Problem(
                PARTITIONS,
                name,
                f"The metadata table has a folder {name} that hoodie.table.metadata.partitions does not name; nobody "
                "reads or writes it",
                _DISABLE if not named else f"Run `lakeward metadata rebuild {name}`, which removes it.",
            )
        )
    return problems


def _take_look(storage: Storage, snapshot: TableSnapshot, clock: Clock, *, without: Collection[str]) -> _Look:
    config, base_path = snapshot.config, snapshot.base_path
    partitions = tuple(name for name in config.built_metadata_partitions if name not in without)
    if FILES not in partitions:
        raise BrokenFile(f"The metadata table of {base_path} has no files.", why="Its partition `files` is missing.")
    table = load_metadata_table(storage, base_path, config, snapshot.timeline, clock=clock, partitions=partitions)
    reader = MetadataReader(storage, table)
    indexed = None
    if snapshot.schema is not None and COLUMN_STATS in partitions:
        indexed = load_indexed_columns(storage, base_path, config, snapshot.schema)
    definitions = load_index_definitions(storage, base_path, config)
    return _Look(
        storage=storage,
        snapshot=snapshot,
        reader=reader,
        listing=MetadataListing(reader, base_path),
        partitions=partitions,
        indexed=indexed,
        is_partitioned_index=definitions.is_partitioned_record_index,
    )


class _Checking:
    """One run: each check on the first look, and where it finds something on a second one."""

    def __init__(
        self, first: _Look, look_again: Callable[[], _Look], size: SampleSize, problems: Iterable[Problem]
    ) -> None:
        self._first = first
        self._look_again = look_again
        self._size = size
        self._problems = list(problems)
        self._checks: list[Check] = []
        self._notes: list[str] = []

    def run(self) -> CheckReport:
        bases = self._first.base_files
        chosen = _choose(sorted(bases), self._size)
        self._check_files()
        if self._first.indexed is not None:
            self._twice(lambda look: _check_stats(look, chosen), COLUMN_STATS, len(chosen), len(bases))
        if BLOOM_FILTERS in self._first.partitions:
            self._twice(lambda look: _check_blooms(look, chosen), BLOOM_FILTERS, len(chosen), len(bases))
        if RECORD_INDEX in self._first.partitions:
            self._check_record_index(chosen)
        for name in self._first.partitions:
            if name not in (FILES, COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX):
                self._notes.append(f"The partition {name} of the metadata table was not checked.")
        return CheckReport(tuple(self._checks), tuple(self._problems), tuple(self._notes))

    def _check_files(self) -> None:
        paths = _paths(self._first)
        self._twice(_check_files, FILES, len(paths), len(paths), unit="partitions")

    def _twice(
        self,
        check: Callable[[_Look], list[Problem]],
        name: str,
        checked: int,
        of: int | None,
        *,
        unit: str = "base files",
        note: str = "",
    ) -> None:
        try:
            try:
                first = set(check(self._first))
            except NotFound:  # a service of the metadata table removed files since that look
                first = set(check(self._look_again()))
            found = [problem for problem in check(self._look_again()) if problem in first] if first else []
        except BrokenFile as error:
            found = [_broken(name.partition(" ")[0], error)]
        except Unsupported as error:
            self._notes.append(f"{name}: {error}")
            return
        self._checks.append(Check(name, checked, of, unit, note))
        self._problems += found

    def _check_record_index(self, chosen: Collection[str]) -> None:
        try:
            sample = sample_keys(self._first.storage, self._first.snapshot, chosen, self._size.keys, self._size.seed)
            entries = _first_entries(self._first, self._size)
        except BrokenFile as error:
            self._problems.append(_broken(RECORD_INDEX, error))
            return
        keys = sum(map(len, sample.values()))
        note = f"with 95 % confidence fewer than {spell_share(error_bound(keys))} of all keys are wrong" if keys else ""
        before = len(self._problems)
        self._twice(
            lambda look: _check_rows_in_index(look, sample),
            RECORD_INDEX,
            keys,
            None,
            unit=f"record keys of {len(sample)} base files",
            note=note,
        )
        if len(self._problems) > before and self._checks:
            self._checks[-1] = replace(self._checks[-1], note="")  # the bound is that of a sample without a fault
        self._twice(
            lambda look: _check_index_in_rows(look, entries),
            f"{RECORD_INDEX} entries",
            len(entries),
            None,
            unit="entries, the first ones",
        )


def _broken(partition: str, error: BrokenFile) -> Problem:
    remedy = _DISABLE if partition == FILES else _REBUILD.format(partition=partition)
    return Problem(partition, partition, f"{error.what} {error.why}".strip(), remedy)


def error_bound(keys: int) -> float:
    """The share below which faults are, with 95 % confidence, where `keys` were looked at and none was wrong."""
    return min(1.0, _CONFIDENCE_EVENTS / keys) if keys else 1.0


def spell_share(share: float) -> str:
    return f"{share * 100:.2g} %"


def _choose(paths: list[str], size: SampleSize) -> list[str]:
    if size.files is None or size.files >= len(paths):
        return paths
    return sorted(Random(size.seed).sample(paths, size.files))


# Files


def _paths(look: _Look) -> list[str]:
    return sorted({*look.listing.partitions(), *look.snapshot.partitions})


def _check_files(look: _Look) -> list[Problem]:
    snapshot = look.snapshot
    listed = set(look.listing.partitions())
    differences = compare_with_storage(look.storage, snapshot.base_path, look.listing, _paths(look), snapshot.timeline)
    problems = []
    for found in differences:
        match found.kind:
            case DifferenceKind.NOT_STORED:
                what = "The metadata table lists this file, and it is not there: readers fail on it"
            case DifferenceKind.NOT_LISTED:
                what = "The metadata table does not list this file of a completed instant: readers miss its rows"
            case DifferenceKind.OTHER_SIZE:
                what = f"It has {found.stored_size} bytes, the metadata table says {found.listed_size}"
        problems.append(Problem(FILES, join(found.partition_path, found.name), what, _DISABLE))
    for group in snapshot.file_groups:
        if group.partition_path not in listed and any(not slice_.is_empty for slice_ in group.slices):
            problems.append(
                Problem(
                    FILES,
                    group.partition_path or "(no partition)",
                    "The metadata table does not list this partition, which holds committed files",
                    _DISABLE,
                )
            )
    return list(dict.fromkeys(problems))


# Column statistics and bloom filters


def _check_stats(look: _Look, chosen: Collection[str]) -> list[Problem]:
    assert look.indexed is not None
    bases = look.base_files
    problems: list[Problem] = []
    for path in chosen:
        base = bases.get(path)
        if base is None:
            continue
        partition_path = path.rpartition("/")[0]
        try:
            with look.storage.open_input(join(look.snapshot.base_path, path)) as file:
                expected = read_column_stats(
                    file, look.indexed.columns, file_name=base.name, version=look.indexed.version
                )
        except NotFound:
            continue
        except BrokenFile as error:
            problems.append(Problem(COLUMN_STATS, path, f"{error.what} {error.why}", "Restore it from a copy."))
            continue
        keys = {column_stats_key(record.column or "", partition_path, base.name): record for record in expected}
        stored = look.reader.lookup(COLUMN_STATS, keys)
        for key, record in keys.items():
            if what := stats_fault(stored.get(key), record):
                remedy = _REBUILD.format(partition=COLUMN_STATS)
                problems.append(Problem(COLUMN_STATS, path, f"Column {record.column}: {what}", remedy))
    return problems


def stats_fault(stored: object, expected: ColumnStatsRecord) -> str | None:
    """What would make a reader skip rows that are there. A range that is too wide costs time and is no fault."""
    if stored is None:
        return "there are no statistics, though the file has rows"
    if not isinstance(stored, ColumnStatsRecord) or stored.is_deleted:
        return "the record is not that of a file that is there"
    if stored.value_count is not None and stored.value_count != expected.value_count:
        return f"it has {expected.value_count} values, the record says {stored.value_count}"
    if stored.null_count is not None and stored.null_count != expected.null_count:
        return f"it has {expected.null_count} nulls, the record says {stored.null_count}"
    low, high = (stored.min_value, stored.max_value), (expected.min_value, expected.max_value)
    if high[0] is None or high[1] is None:
        return None
    if low[0] is None or low[1] is None:
        return f"its values reach from {high[0]!r} to {high[1]!r}, the record has no range"
    if _is_above(low[0], high[0]) or _is_above(high[1], low[1]):
        return f"its values reach from {high[0]!r} to {high[1]!r}, the record says {low[0]!r} to {low[1]!r}"
    return None


def _is_above(value: StatsValue, other: StatsValue) -> bool:
    if type(value) is not type(other):
        return False  # written when the column had another type
    return bool(stats_order(value) > stats_order(other))


def _check_blooms(look: _Look, chosen: Collection[str]) -> list[Problem]:
    bases = look.base_files
    problems: list[Problem] = []
    for path in chosen:
        base = bases.get(path)
        if base is None:
            continue
        try:
            with look.storage.open_input(join(look.snapshot.base_path, path)) as file:
                expected = read_bloom_filter(file, file_name=base.name)
        except NotFound:
            continue
        except BrokenFile as error:
            problems.append(Problem(BLOOM_FILTERS, path, f"{error.what} {error.why}", "Restore it from a copy."))
            continue
        key = bloom_filter_key(path.rpartition("/")[0], base.name)
        if what := bloom_fault(look.reader.lookup(BLOOM_FILTERS, [key]).get(key), expected):
            problems.append(Problem(BLOOM_FILTERS, path, what, _REBUILD.format(partition=BLOOM_FILTERS)))
    return problems


def bloom_fault(stored: object, expected: tuple[str, bytes] | None) -> str | None:
    if stored is None:
        return None if expected is None else "The metadata table has no bloom filter of it: lookups of keys fail"
    if not isinstance(stored, BloomFilterRecord) or stored.is_deleted:
        return "The record is not that of a file that is there"
    if expected is None:
        return "The metadata table has a bloom filter of it, and the file has none"
    if stored.type_code != expected[0]:
        return f"Its bloom filter is a {expected[0]}, the metadata table reads it as {stored.type_code}"
    if stored.bloom_filter != expected[1]:
        return "The metadata table has another bloom filter than the file: lookups miss keys, which are inserted again"
    return None


# Record index


def _check_rows_in_index(look: _Look, sample: dict[str, tuple[str, ...]]) -> list[Problem]:
    """Each key of a base file leads to its group, unless the group's logs took the row away."""
    bases = look.base_files
    suspects: dict[GroupId, dict[str, str]] = {}
    for path, keys in sample.items():
        base = bases.get(path)
        if base is None:
            continue  # compacted or replaced meanwhile
        partition_path = path.rpartition("/")[0]
        records = look.reader.lookup(
            RECORD_INDEX, keys, data_partition=partition_path if look.is_partitioned_index else None
        )
        for key in keys:
            if (what := _location_fault(records.get(key), partition_path, base.file_id)) is not None:
                suspects.setdefault((partition_path, base.file_id), {})[key] = what
    problems = []
    for group, faults in suspects.items():
        there = find_rows(look.storage, look.snapshot, group, faults)
        problems += [_index_problem(key, what) for key, what in faults.items() if there is not None and key in there]
    return problems


def _location_fault(record: object, partition_path: str, file_id: str) -> str | None:
    where = f"{partition_path or '(no partition)'}, {file_id}"
    if record is None:
        return f"Its row is in {where}, and the record index does not know it: writers insert it again"
    if not isinstance(record, RecordIndexRecord):
        return "Its record is of another kind"
    if (record.partition or "", record.file_id) != (partition_path, file_id):
        told = f"{record.partition or '(no partition)'}, {record.file_id}"
        return f"Its row is in {where}, the record index says {told}"
    return None


def _first_entries(look: _Look, size: SampleSize) -> dict[str, GroupId]:
    """The record index does not let itself be sampled without being read; so these are its first ones, and of no more
    file groups than base files are read."""
    found: dict[str, GroupId] = {}
    for key, record in islice(look.reader.scan(RECORD_INDEX), size.keys):
        if isinstance(record, RecordIndexRecord):
            found[key] = (record.partition or "", record.file_id)
    groups = set(sorted(set(found.values()))[: size.files])
    return {key: group for key, group in found.items() if group in groups}


def _check_index_in_rows(look: _Look, entries: dict[str, GroupId]) -> list[Problem]:
    by_group: dict[GroupId, list[str]] = {}
    for key, group in entries.items():
        by_group.setdefault(group, []).append(key)
    problems = []
    for group in sorted(by_group):
        keys = by_group[group]
        current = set(_still_there(look, group, keys))
        there = find_rows(look.storage, look.snapshot, group, current)
        where = f"{group[0] or '(no partition)'}, {group[1]}"
        what = f"The record index says it is in {where}, and there is no such row"
        if there is not None:
            problems += [_index_problem(key, what) for key in keys if key in current and key not in there]
    return problems


def _still_there(look: _Look, group: GroupId, keys: Iterable[str]) -> Iterator[str]:
    """The entries that still say so."""
    data_partition = group[0] if look.is_partitioned_index else None
    for key, record in look.reader.lookup(RECORD_INDEX, keys, data_partition=data_partition).items():
        if isinstance(record, RecordIndexRecord) and (record.partition or "", record.file_id) == group:
            yield key


def _index_problem(key: str, what: str) -> Problem:
    return Problem(RECORD_INDEX, key, what, _REBUILD.format(partition=RECORD_INDEX))
