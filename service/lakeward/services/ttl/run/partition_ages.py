"""From when the age of each partition counts, as `ttl.by` has it, and by that which partitions have expired.

    written    the newest commit time among its rows: that of base files stands in their footers, also where a
               compaction or clustering wrote them later; a log counts as written by its instant
    created    the instant in its metadata file
    date       the end of the day or hour in its path

For *written* the files of a partition are looked at from the newest on, and no further than to the first that shows it
to be too young, so that most partitions cost one footer, and none that is remembered.

Touches: storage, reading: footers of base files, or partition metadata files, each once.
Keeps:   1. what a compaction or clustering wrote makes no partition younger;
         2. what is not certain makes a partition younger, or its age unknown; never older.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, MutableMapping
from datetime import tzinfo

from lakeward.base.errors import BrokenFile, LakewardError
from lakeward.base.paths import join
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.format.partition_metadata import PARQUET_NAME, PROPERTIES_NAME, read_partition_metadata
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.services.ttl.plan.options import AgeBy, TtlOptions
from lakeward.services.ttl.plan.path_date import end_of_path
from lakeward.services.ttl.plan.ttl_plan import TtlPlan, plan_ttl
from lakeward.storage.storage import Storage
from lakeward.table.file_group import BaseFile, FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_COMMIT_TIME = "_hoodie_commit_time"

Known = MutableMapping[str, str | None]
"""What was read before, by the path of the file: an instant, or None where there was none."""


def plan_expiry(
    storage: Storage,
    snapshot: TableSnapshot,
    options: TtlOptions,
    *,
    now: float,
    known: Known,
    selected: Collection[str] | None,
    excluded: Collection[GroupId] = (),
) -> TtlPlan:
    """What has expired, by ages that are asked for now."""
    ages = partition_ages(storage, snapshot, options, now=now, known=known, selected=selected)
    return plan_ttl(snapshot, ages, options, now=now, excluded=excluded)


def partition_ages(
    storage: Storage,
    snapshot: TableSnapshot,
    options: TtlOptions,
    *,
    now: float,
    known: Known,
    selected: Collection[str] | None = None,
) -> dict[str, float | None]:
    """Seconds since the epoch for each partition that TTL is about; None where that is not known."""
    assert options.keep is not None
    paths = [
        path
        for path in snapshot.partitions
        if path and (selected is None or path in selected) and (options.selected is None or path in options.selected)
    ]
    if options.by is AgeBy.DATE:
        return {path: end_of_path(path, options.date_format) for path in paths}
    zone = snapshot.zone.zone
    if zone is None:
        return dict.fromkeys(paths)
    if options.by is AgeBy.CREATED:
        return {path: _created(storage, snapshot, path, zone, known) for path in paths}
    slices: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in snapshot.latest_slices:
        slices[slice_.partition_path].append(slice_)
    ages = _Ages(storage, snapshot.base_path, zone, known, young=now - options.keep)
    return {path: ages.written(slices[path]) for path in paths}


class _Ages:
    def __init__(self, storage: Storage, base_path: str, zone: tzinfo, known: Known, *, young: float) -> None:
        self._storage, self._base_path, self._zone, self._known, self._young = storage, base_path, zone, known, young

    def written(self, slices: Collection[FileSlice]) -> float | None:
        """The newest, or one that shows the partition to be too young."""
        newest: float | None = None
        files = [(_instant_of(file.path), file) for slice_ in slices for file in slice_.files]
        for instant, file in sorted(files, key=lambda each: each[0], reverse=True):
            at = self._at(instant)
            if at is None:
                return None
            if newest is not None and at <= newest:
                break  # rows are no newer than the file that they are in
            if isinstance(file, BaseFile) and at >= self._young:
                at = self._rows_of(file, at)
            newest = at if newest is None else max(newest, at)
            if newest >= self._young:
                return newest
        return newest

    def _rows_of(self, file: BaseFile, at: float) -> float:
        if file.path not in self._known:
            self._known[file.path] = self._newest_row(file)
        instant = self._known[file.path]
        found = None if instant is None else self._at(instant)
        return at if found is None else min(found, at)

    def _newest_row(self, file: BaseFile) -> str | None:
        try:
            with broken_if_unreadable(file.path), self._storage.open_input(join(self._base_path, file.path)) as source:
                metadata = ParquetBatches(source, where=file.path, coerce_int96_timestamp_unit="us").metadata
                names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
                column = names.index(_COMMIT_TIME)
                groups = [metadata.row_group(at).column(column) for at in range(metadata.num_row_groups)]
        except (LakewardError, OSError, ValueError):
            return None
        if not groups or any(group.statistics is None or not group.statistics.has_min_max for group in groups):
            return None
        return max(str(group.statistics.max) for group in groups)

    def _at(self, instant: str) -> float | None:
        try:
            return parse_instant_time(instant, self._zone) / 1000
        except BrokenFile:
            return None


def _instant_of(path: str) -> str:
    parsed = parse_any_data_file(path.rpartition("/")[2], native=True)
    assert parsed is not None, "it is in a slice"
    return parsed.instant


def _created(storage: Storage, snapshot: TableSnapshot, path: str, zone: tzinfo, known: Known) -> float | None:
    place = join(path, PROPERTIES_NAME)
    if place not in known:
        known[place] = _creation(storage, join(snapshot.base_path, path))
    instant = known[place]
    try:
        return None if instant is None else parse_instant_time(instant, zone) / 1000
    except BrokenFile:
        return None


def _creation(storage: Storage, folder: str) -> str | None:
    for name in (PROPERTIES_NAME, PARQUET_NAME):
        try:
            return read_partition_metadata(storage.read(join(folder, name)), file=name).commit_time
        except (LakewardError, OSError):
            continue
    return None
