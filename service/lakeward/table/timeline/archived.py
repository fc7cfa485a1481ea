"""Instants that left the active timeline: which files the layout-2 history has, and what its rows say.

The history is a set of Parquet files named `<first instant>_<last instant>_<level>.parquet`; a manifest lists
the live ones and `_version_` names the newest manifest. Only files whose range covers a wanted instant are
opened, or the newest ones, and of them only the columns that are asked for.

An instant may be on the active timeline and in the history, where an archiver died between the two, and in two files of
the history, where the next one archived it again: both say the same of it.

Touches: storage.
Keeps:   1. a file outside the manifest is never read: it is garbage of an interrupted merge;
         2. what cannot be read is reported as a problem and its instants stay unknown, never guessed
            (Hudi issue 14365 describes how a guess lost data).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.format.timeline.history import (
    VERSION_FILE,
    HistoryFile,
    HistoryRow,
    manifest_name,
    parse_history_file,
    parse_manifest,
    parse_manifest_name,
)
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.storage.storage import Storage
from lakeward.table.table_config import TableConfig, hoodie_folder
from lakeward.table.timeline.timeline import WRITE_ACTIONS

# A merge of history files deletes its inputs soon after the manifest moved on; a second read sees the new one.
_LOOKS = 3
_DIGITS_MAX = 18
_SECONDS_LENGTH = 14


@dataclass(frozen=True, slots=True)
class ArchivedPlan:
    """What a compaction or log compaction that is archived had planned."""

    is_log_compaction: bool
    content: bytes


@dataclass(frozen=True, slots=True)
class ArchivedTimes:
    completion_times: Mapping[str, str]
    """Completion times by instant, of those asked for that the history knows as completed."""
    problems: tuple[str, ...] = ()
    plans: Mapping[str, ArchivedPlan] = field(default_factory=dict)
    """The plans of those of them that are compactions or log compactions, by instant."""


@dataclass(frozen=True, slots=True)
class History:
    """One snapshot of the history."""

    version: int = 0
    """The number of its manifest; 0 where nothing was ever archived."""
    sizes: Mapping[HistoryFile, int] = field(default_factory=dict)
    """Bytes of each of its files."""
    manifests: tuple[int, ...] = ()
    """The numbers of all manifests in the folder, ascending."""
    present: tuple[HistoryFile, ...] = ()
    """All files of rows in the folder, also those that no manifest names."""


def history_folder(base_path: str, config: TableConfig) -> str:
    return join(hoodie_folder(base_path), config.archive_folder)


def load_archived_times(
    storage: Storage,
    base_path: str,
    config: TableConfig,
    instants: Collection[str],
    *,
    actions: Collection[str] = WRITE_ACTIONS,
) -> ArchivedTimes:
    """When each of `instants` completed, as far as the layout-2 history says, of these actions."""
    if not instants or config.layout < 2:
        return ArchivedTimes({})
    folder = history_folder(base_path, config)
    problem = ""
    for _ in range(_LOOKS):
        try:
            return _read_archived(storage, folder, instants, actions)
        except (BrokenFile, NotFound) as error:
            problem = str(error)
    return ArchivedTimes({}, (problem,))


@dataclass(frozen=True, slots=True)
class ArchivedWrites:
    """The newest writes that left the active timeline."""

    writes: tuple[Instant, ...] = ()
    """Completed writes by time, without a file name, since their files are gone."""
    problem: str = ""
    """Why none could be read."""


def load_newest_writes(storage: Storage, base_path: str, config: TableConfig, number: int) -> ArchivedWrites:
    """The newest completed writes of the layout-2 history, `number` or more where it has so many.

    Where files of rows overlap, an older one of them may stand in for a newer one, never a younger.
    """
    folder = history_folder(base_path, config)
    problem = ""
    for _ in range(_LOOKS):
        try:
            return ArchivedWrites(_read_newest_writes(storage, folder, number))
        except (BrokenFile, NotFound) as error:
            problem = str(error)
    return ArchivedWrites(problem=problem)


@dataclass(frozen=True, slots=True)
class ArchivedCommits:
    """What left the active timeline and is asked for, by completion time."""

    rows: tuple[HistoryRow, ...] = ()
    """The first ones, with what they say."""
    count: int = 0
    """All of them."""
    newest: str | None = None
    """The greatest completion time of them all."""


@dataclass(frozen=True, slots=True)
class NewestArchived:
    """The greatest time in files of the history that were not read before."""

    time: str | None = None
    files: tuple[str, ...] = ()
    """The names of all files that were read, then or now."""
    problem: str = ""
    """Why some could not be read."""


def load_newest_archived(
    storage: Storage, base_path: str, config: TableConfig, *, read: Collection[str], after: str | None
) -> NewestArchived:
    """The greatest requested or completion time of the layout-2 history, of any action.

    Args:
        read: the names of files that are known to hold none greater than `after`.
        after: times up to it are not asked for.
    """
    if config.layout < 2:
        return NewestArchived()
    folder, problem = history_folder(base_path, config), ""
    for _ in range(_LOOKS):
        try:
            return _read_newest(storage, folder, read, after)
        except (BrokenFile, NotFound) as error:
            problem = str(error)
    return NewestArchived(None, tuple(read), problem)


def _read_newest(storage: Storage, folder: str, read: Collection[str], after: str | None) -> NewestArchived:
    names = [status.name for status in storage.list(folder) if parse_history_file(status.name) is not None]
    if set(names) <= set(read):
        return NewestArchived(None, tuple(names))
    files = [file for file in load_history(storage, folder).sizes if file.name not in read]
    rows = (row for file in files for row in _read_rows(storage, join(folder, file.name), after=after))
    times = (time for requested, completed, *_ in rows for time in (requested, completed) if time)
    of_names = max((file.last for file in files), key=comparable_time, default=None)
    return NewestArchived(
        max((*times, *([of_names] if of_names else [])), key=comparable_time, default=None),
        tuple(sorted({*(name for name in names if name in read), *(file.name for file in files)})),
    )


def load_archived_commits(
    storage: Storage,
    base_path: str,
    config: TableConfig,
    wanted: Callable[[str, str], bool],
    *,
    actions: Collection[str],
    number: int,
    after: str | None = None,
) -> ArchivedCommits:
    """Completed instants of the layout-2 history, and what they say. Raises `BrokenFile`.

    Args:
        wanted: whether one is asked for, by its time and its completion time.
        number: how many of them are read, those that completed first.
        after: none is asked for that completed before; row groups of such are not read.
    """
    folder = history_folder(base_path, config)
    for look in range(_LOOKS):
        try:
            return _read_commits(storage, folder, wanted, actions, number, after)
        except NotFound as gone:
            if look + 1 == _LOOKS:
                raise BrokenFile(f"The history in {folder} cannot be read.", why=str(gone)) from gone
    raise AssertionError("the loop returns or raises")


def each_archived_commit(
    storage: Storage, base_path: str, config: TableConfig, *, actions: Collection[str]
) -> Iterator[HistoryRow]:
    """Completed instants of the layout-2 history, each once, in no order; a few of them are in memory at a time. Raises
    `BrokenFile`."""
    if config.layout < 2:
        return
    folder = history_folder(base_path, config)
    given: set[str] = set()
    for look in range(_LOOKS):
        try:
            for file in load_history(storage, folder).sizes:
                for row in _each_row(storage, join(folder, file.name)):
                    if row.action in actions and row.time not in given:
                        given.add(row.time)
                        yield row
            return
        except NotFound as gone:
            if look + 1 == _LOOKS:
                raise BrokenFile(f"The history in {folder} cannot be read.", why=str(gone)) from gone


def _read_commits(
    storage: Storage,
    folder: str,
    wanted: Callable[[str, str], bool],
    actions: Collection[str],
    number: int,
    after: str | None,
) -> ArchivedCommits:
    files = load_history(storage, folder).sizes
    times: dict[str, tuple[str, HistoryFile]] = {}
    for file in files:
        for time, completed, action, _ in _read_rows(storage, join(folder, file.name), after=after):
            if action in actions and completed and wanted(time, completed):
                times[time] = comparable_time(completed), file
    first = sorted(times, key=lambda time: (times[time][0], comparable_time(time)))[:number]
    found: dict[str, HistoryRow] = {}
    for file in {times[time][1] for time in first}:
        rows = _each_row(storage, join(folder, file.name))
        found.update({row.time: row for row in rows if row.time in times and row.action in actions})
    newest = max((completed for completed, _ in times.values()), default=None)
    return ArchivedCommits(tuple(found[time] for time in first), len(times), newest)


def _each_row(storage: Storage, path: str) -> Iterator[HistoryRow]:
    from lakeward.format.timeline.history_file import decode_rows  # with Arrow, which watching tables does without

    with storage.open_input(path) as source:
        yield from decode_rows(source, path=path)


def load_history(storage: Storage, folder: str) -> History:
    """The newest snapshot. Raises `BrokenFile`, and `NotFound` where an archiver that is at work takes the manifest
    away meanwhile."""
    names = {status.name for status in storage.list(folder)}
    # Between two versions `_version_` is gone for a moment: then the highest manifest is the newest.
    numbers = sorted(number for name in names if (number := parse_manifest_name(name)) is not None)
    present = tuple(sorted(file for name in names if (file := parse_history_file(name)) is not None))
    if not numbers:
        return History(present=present)
    newest = numbers[-1]
    if VERSION_FILE in names:
        text = storage.read(join(folder, VERSION_FILE)).decode("ascii", "replace").strip()
        newest = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else newest
    return History(newest, load_manifest(storage, folder, newest), tuple(numbers), present)


def load_manifest(storage: Storage, folder: str, number: int) -> dict[HistoryFile, int]:
    """Files of one snapshot with their bytes. Raises `BrokenFile` and `NotFound`."""
    path = join(folder, manifest_name(number))
    return parse_manifest(storage.read(path), path=path)


def find_archived(storage: Storage, folder: str, history: History, instants: Iterable[Instant]) -> frozenset[str]:
    """The file names of those completed instants that the history has too, with the same action and completion time.

    Raises `BrokenFile` and `NotFound`.
    """
    names = {(each.time, each.completion_time, each.action): each.file_name for each in instants}
    rows = _rows_of(storage, folder, history.sizes, {time for time, _, _ in names})
    return frozenset(names[row] for row in rows if row in names)


def _read_archived(storage: Storage, folder: str, instants: Collection[str], actions: Collection[str]) -> ArchivedTimes:
    times: dict[str, str] = {}
    plans: dict[str, ArchivedPlan] = {}
    for file, wanted in _covering(load_history(storage, folder).sizes, instants):
        rows = _read_rows(storage, join(folder, file.name), wanted, with_plans=True)
        for instant, completed, action, plan in rows:
            if action in actions and completed:
                times[instant] = completed
                if plan and action in ("commit", "deltacommit"):
                    plans[instant] = ArchivedPlan(action == "deltacommit", plan)
    return ArchivedTimes(times, plans=plans)


def _read_newest_writes(storage: Storage, folder: str, number: int) -> tuple[Instant, ...]:
    found: dict[str, Instant] = {}
    files = load_history(storage, folder).sizes
    for file in sorted(files, key=lambda each: comparable_time(each.last), reverse=True):
        if len(found) >= number:
            break
        for time, completed, action, _ in _read_rows(storage, join(folder, file.name)):
            if action in WRITE_ACTIONS and completed:
                found[time] = Instant(time, action, State.COMPLETED, completed, "")
    return tuple(sorted(found.values(), key=lambda each: comparable_time(each.time)))


def _rows_of(
    storage: Storage, folder: str, files: Iterable[HistoryFile], instants: Collection[str]
) -> Iterator[tuple[str, str | None, str]]:
    """Time, completion time and action of each row of these instants."""
    for file, wanted in _covering(files, instants):
        for time, completed, action, _ in _read_rows(storage, join(folder, file.name), wanted):
            yield time, completed, action


def _covering(files: Iterable[HistoryFile], instants: Collection[str]) -> Iterator[tuple[HistoryFile, list[str]]]:
    """The files that may have rows of these instants, each with those."""
    for file in files:
        first, last = comparable_time(file.first), comparable_time(file.last)
        if wanted := sorted(each for each in instants if first <= comparable_time(each) <= last):
            yield file, wanted


def _read_rows(
    storage: Storage,
    path: str,
    wanted: list[str] | None = None,
    *,
    after: str | None = None,
    with_plans: bool = False,
) -> list[tuple[str, str | None, str, bytes | None]]:
    """The rows of these instants, or all; without most of those that completed before a time."""
    from lakeward.format.timeline.history_file import read_times

    filters: list[tuple[str, str, object]] = [] if wanted is None else [("instantTime", "in", wanted)]
    if after is not None:
        filters.append(("completionTime", ">=", after[:_SECONDS_LENGTH]))  # some show no milliseconds
    with storage.open_input(path) as source:
        return read_times(source, filters or None, path=path, with_plans=with_plans)
