"""Is the metadata table what the table's files say it must be? Every difference, named.

    partitions       those of the properties have a folder, and the other way round
    files            of every partition, names and sizes, against the storage
    column_stats     of a sample of base files, against what their footers say (`services/verification/stats_check.py`)
    partition_stats  of the partitions of that sample, against the same and the statistics of the logs on top
    bloom_filters    of that sample, against what their footers say
    record_index     of a sample of record keys, both ways (`services/verification/record_index_check.py`)
    secondary index  of the rows of these keys (`services/verification/metadata_check.py`)

Writers work meanwhile, and a difference may be one of their steps. So whatever is found is checked again, on a fresh
snapshot of the table, and is a problem only if it is found twice.

Touches: reads the table; writes nothing and takes no lock; reads base files, merges slices where there are logs
         (`read/row_lookup.py`), reads the metadata table.
Keeps:   1. equal tables, numbers and seeds give the same sample;
         2. a sound table that writers work on has no problem; what could not be checked is said, and is none;
         3. what was compacted, replaced or cleaned since the view was taken is passed over.
Memory:  the table's snapshot and the names that the metadata table lists, the sample, and a batch of record keys
See:     `read/row_lookup.py` for what a file group holds
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.base.named_key import named_key, plain_key
from lakeward.base.paths import join
from lakeward.base.quantities import format_share
from lakeward.format.avro.column_names import has_columns
from lakeward.format.metadata.key import secondary_index_key
from lakeward.format.metadata.partition import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from lakeward.format.metadata.record import SecondaryIndexRecord
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.read.row_lookup import HiddenRow, find_values, sample_keys
from lakeward.services.verification.check_report import Check, CheckReport, Problem, metadata_remedy
from lakeward.services.verification.metadata_view import MetadataView, view_metadata
from lakeward.services.verification.record_index_check import check_index_in_rows, check_rows_in_index, first_entries
from lakeward.services.verification.stats_check import check_blooms, check_column_stats, check_partition_stats
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_listing import DifferenceKind, compare_with_storage
from lakeward.table.metadata.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.quarantine import load_quarantine
from lakeward.table.snapshot import TableSnapshot

PARTITIONS = "partitions"

_CONFIDENCE_EVENTS = 3.0
"""The rule of three: if none of n records is wrong, with 95% confidence fewer than 3 in n are."""


def check_secondary_index(view: MetadataView, name: str, sample: Mapping[str, Collection[str]]) -> list[Problem]:
    """Raises `Unsupported` for an index whose values cannot be compared.

    Args:
        name: of the index, which is that of its partition.
        sample: some keys of base files, by path.

    A secondary index against the rows: what a row holds in the indexed column leads to its record key.

    Only that way round: an entry without such a row makes a query look into a file for nothing, and it filters what it
    reads. Values whose text is Java's own, of floating point and times, are not compared.
    """
    column = _column(view, name)
    bases = view.base_files
    problems = []
    for path, keys in sample.items():
        base = bases.get(path)
        if base is None:
            continue  # compacted or replaced meanwhile
        group = path.rpartition("/")[0], base.file_id
        values = find_values(view.storage, view.snapshot, group, keys, column, meter=view.meter)
        wanted = {secondary_index_key(_text(value, name), key): key for key, value in (values or {}).items()}
        found = view.reader.lookup(name, wanted)
        for index_key, key in wanted.items():
            if not isinstance(found.get(index_key), SecondaryIndexRecord):
                shown = f"{column} = {named_key(str((values or {})[key]))}"
                what = f"Its row has {shown}, and the index does not know it: queries for that value miss the row"
                problems.append(Problem(name, plain_key(key), what, metadata_remedy(name)))
    return problems


def _column(view: MetadataView, name: str) -> str:
    definition = view.definitions.by_name.get(name)
    if definition is None or len(definition.source_fields) != 1:
        raise Unsupported(f"{name} was not checked.", why="Its definition does not name one column.")
    return definition.source_fields[0]


def _text(value: object, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise Unsupported(f"{name} was not checked.", why=f"How Hudi writes a {type(value).__name__} in it is not known.")


@dataclass(frozen=True, slots=True)
class SampleSize:
    files: int | None
    """Base files whose footers are read; None for all."""
    keys: int
    """Record keys that are looked up, each way."""
    seed: int = 0


def check_metadata(
    storage: Storage, snapshot_now: Callable[[], TableSnapshot], *, size: SampleSize, clock: Clock
) -> CheckReport:
    """`snapshot_now` gives the table as it is now; asked again where something is found. Raises what it raises."""
    snapshot = snapshot_now()
    folders = _partition_problems(storage, snapshot)
    if folders:
        again = set(_partition_problems(storage, snapshot_now()))
        folders = [problem for problem in folders if problem in again]
    if not has_metadata_table(snapshot.config):
        return CheckReport((), tuple(folders), ("The table has no metadata table.",))
    if snapshot.schema is not None and not has_columns(snapshot.schema):
        return CheckReport((), tuple(folders), ("The metadata table was not checked: no column is known.",))
    missing = {problem.subject for problem in folders}
    try:
        first = view_metadata(storage, snapshot, clock, without=missing)
        return _Checking(
            first, lambda: view_metadata(storage, snapshot_now(), clock, without=missing), size, folders
        ).run()
    except BrokenFile as error:
        problem = Problem(
            FILES, metadata_base_path(snapshot.base_path), f"{error.what} {error.why}", metadata_remedy(FILES)
        )
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
            metadata_remedy(name),
        )
        for name in named
        if name not in folders
    ]
    for name in sorted(folders - set(config.metadata_partitions)):
        problems.append(
            Problem(
                PARTITIONS,
                name,
                f"The metadata table has a folder {name} that hoodie.table.metadata.partitions does not name; no "
                "engine reads or writes it",
                metadata_remedy(FILES)
                if not named
                else f"Run `lakeward metadata drop TABLE {name}`, which removes it.",
            )
        )
    return problems


class _Checking:
    """One run: each check on the first snapshot, and where it finds something on a second one."""

    def __init__(
        self, first: MetadataView, scan_again: Callable[[], MetadataView], size: SampleSize, problems: Iterable[Problem]
    ) -> None:
        self._first = first
        self._scan_again = scan_again
        self._size = size
        self._problems = list(problems)
        self._checks: list[Check] = []
        self._notes: list[str] = []

    def run(self) -> CheckReport:
        bases = self._first.base_files
        chosen = _choose(sorted(bases), self._size)
        self._check_files()
        if self._first.indexed is not None:
            self._twice(lambda view: check_column_stats(view, chosen), COLUMN_STATS, len(chosen), len(bases))
            if PARTITION_STATS in self._first.partitions:
                paths, of = (len({path.rpartition("/")[0] for path in those}) for those in (chosen, bases))
                self._twice(
                    lambda view: check_partition_stats(view, chosen), PARTITION_STATS, paths, of, unit="partitions"
                )
        if BLOOM_FILTERS in self._first.partitions:
            self._twice(lambda view: check_blooms(view, chosen), BLOOM_FILTERS, len(chosen), len(bases))
        if RECORD_INDEX in self._first.partitions:
            self._check_record_index(chosen)
        for name in self._first.partitions:
            if name not in (FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, RECORD_INDEX) and not (
                name.startswith(SECONDARY_INDEX_PREFIX) and RECORD_INDEX in self._first.partitions
            ):
                self._notes.append(f"The partition {name} of the metadata table was not checked.")
        return CheckReport(tuple(self._checks), tuple(self._problems), tuple(self._notes))

    def _check_files(self) -> None:
        paths = _paths(self._first)
        self._twice(_check_files, FILES, len(paths), len(paths), unit="partitions")

    def _twice(
        self,
        check: Callable[[MetadataView], list[Problem]],
        name: str,
        checked: int,
        of: int | None,
        *,
        unit: str = "base files",
        note: str = "",
        meter: ReadMeter | None = None,
    ) -> None:
        """
        Args:
            meter: what was read for the check before it; all that it reads itself is added.
        """
        meter = ReadMeter() if meter is None else meter
        try:
            try:
                first = set(check(replace(self._first, meter=meter)))
            except NotFound:  # a service of the metadata table removed files since that snapshot
                first = set(check(replace(self._scan_again(), meter=meter)))
            found = (
                [problem for problem in check(replace(self._scan_again(), meter=meter)) if problem in first]
                if first
                else []
            )
        except HiddenRow as error:
            assert error.file_group is not None
            found = [
                Problem(name.partition(" ")[0], join(*error.file_group), f"{error.what} {error.why}", error.remedy)
            ]
        except BrokenFile as error:
            found = [_broken(name.partition(" ")[0], error)]
        except Unsupported as error:
            self._notes.append(f"{name}: {error}")
            return
        self._checks.append(Check(name, checked, of, unit, note, meter if meter.row_groups else None))
        self._problems += found

    def _note(self, note: str) -> None:
        """Takes what cannot be known of the record index; each check may say it twice."""
        if (said := f"{RECORD_INDEX}: {note}") not in self._notes:
            self._notes.append(said)

    def _check_record_index(self, chosen: Collection[str]) -> None:
        meter = ReadMeter()
        try:
            sample = sample_keys(
                self._first.storage, self._first.snapshot, chosen, self._size.keys, self._size.seed, meter=meter
            )
            entries = first_entries(self._first, keys=self._size.keys, groups=self._size.files)
        except BrokenFile as error:
            self._problems.append(_broken(RECORD_INDEX, error))
            return
        keys = sum(map(len, sample.values()))
        note = f"with 95% confidence fewer than {format_share(error_bound(keys))} of all keys are wrong" if keys else ""
        before, notes_before = len(self._problems), len(self._notes)
        self._twice(
            lambda view: check_rows_in_index(view, sample, on_note=self._note),
            RECORD_INDEX,
            keys,
            None,
            unit=_of(sample),
            note=note,
            meter=meter,
        )
        is_clean = (len(self._problems), len(self._notes)) == (before, notes_before)
        if not is_clean and self._checks:
            self._checks[-1] = replace(self._checks[-1], note="")  # the bound is that of a sample without a fault
        self._twice(
            lambda view: check_index_in_rows(view, entries, on_note=self._note),
            f"{RECORD_INDEX} entries",
            sum(map(len, entries.values())),
            None,
            unit="entries, the first ones",
        )
        for name in self._first.partitions:
            if name.startswith(SECONDARY_INDEX_PREFIX):  # which leads to rows by way of the record index
                self._twice(
                    partial(check_secondary_index, name=name, sample=sample), name, keys, None, unit=_of(sample)
                )


def _broken(partition: str, error: BrokenFile) -> Problem:
    return Problem(partition, partition, f"{error.what} {error.why}".strip(), metadata_remedy(partition))


def _of(sample: Mapping[str, Collection[str]]) -> str:
    return f"record keys of {len(sample)} base files"


def error_bound(keys: int) -> float:
    """The share below which faults are, with 95% confidence, where `keys` were checked and none was wrong."""
    return min(1.0, _CONFIDENCE_EVENTS / keys) if keys else 1.0


def _choose(paths: list[str], size: SampleSize) -> list[str]:
    if size.files is None or size.files >= len(paths):
        return paths
    return sorted(Random(size.seed).sample(paths, size.files))


def _paths(view: MetadataView) -> list[str]:
    return sorted({*view.listing.partitions(), *view.snapshot.partitions})


def _check_files(view: MetadataView) -> list[Problem]:
    snapshot = view.snapshot
    listed = set(view.listing.partitions())
    # Before the files: what is purged meanwhile is no difference then.
    left_in_place = load_quarantine(view.storage, snapshot.base_path).left_in_place()
    native = snapshot.config.version.has_native_logs
    differences = compare_with_storage(
        view.storage, snapshot.base_path, view.listing, _paths(view), snapshot.timeline, native=native
    )
    problems = []
    for found in differences:
        if found.kind is DifferenceKind.NOT_LISTED and join(found.partition_path, found.name) in left_in_place:
            continue  # a clean took it away, and it is deleted later
        match found.kind:
            case DifferenceKind.NOT_STORED:
                what = "The metadata table lists this file, and it is not there: readers fail on it"
            case DifferenceKind.NOT_LISTED:
                what = "The metadata table does not list this file of a completed instant: readers miss its rows"
            case DifferenceKind.OTHER_SIZE:
                what = f"It has {found.stored_size} bytes, the metadata table says {found.listed_size}"
        problems.append(Problem(FILES, join(found.partition_path, found.name), what, metadata_remedy(FILES)))
    for group in snapshot.file_groups:
        if group.partition_path not in listed and any(not slice_.is_empty for slice_ in group.slices):
            problems.append(
                Problem(
                    FILES,
                    group.partition_path or "(no partition)",
                    "The metadata table does not list this partition, which holds committed files",
                    metadata_remedy(FILES),
                )
            )
    return list(dict.fromkeys(problems))
