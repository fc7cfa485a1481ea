"""`lakeward verify`: everything about a table that can be checked without changing it, put together.

    table      properties and timeline can be relied on, every committed file lies in exactly one file slice and is what
               its commit says (of partitions, too)
    logs       every block head of the newest slices' logs, without merging anything
    metadata   `services/verification/metadata_check.py`
    merge      on request: a few file slices are read as a query reads them
    (`services/verification/sample_verification.py`)

Touches: reads the table, of logs block heads and footers; writes nothing and takes no lock.
Keeps:   1. what only forbids us to compact a table is no problem of the table;
         2. a partition whose file groups were all replaced, as delete_partition does, may be gone;
         3. so may one that only archived commits wrote into: nothing says what happened to it;
         4. one that a link stands for, that is an unlisted folder, or whose name no program reads, is reported
            elsewhere;
         5. damage is reported only if a fresh snapshot still has that log, and it is damaged still;
         6. a failed read ends the check, and a log that a cleaner removes meanwhile is not checked: neither is damage;
         7. a block that we could not merge is no damage; one of a form that is not known is a problem, since nothing
            behind it was looked at, and readers of Hudi's that do not know it either fail.
Memory:  one block head or footer at a time, and what is wrong
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from lakeward.base.clock import Clock
from lakeward.base.errors import NotFound, Refused, Unsupported
from lakeward.base.paths import join
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.entry import check_slice_at
from lakeward.format.avro.column_names import find_bad_names
from lakeward.protocol.attempts.heartbeat import EXPIRY_SECONDS
from lakeward.protocol.refusals.eligibility import find_all_refusals
from lakeward.protocol.refusals.findings import way_to_loadable_schema
from lakeward.read.logs.log_scan import broken_log, find_block_damage
from lakeward.services.verification.check_report import Check, CheckReport, Problem
from lakeward.services.verification.metadata_check import SampleSize, check_metadata
from lakeward.services.verification.sample_verification import verify_sample
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.file_group import FrozenGroup, LogFile
from lakeward.table.file_system_view import build_file_groups, sort_files
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.timeline.timeline_reader import TimelineReader
from lakeward.table.written_files import find_damage

TABLE = "table"
MERGE = "merge"


_UNREADABLE = frozenset("\ufffd?")
"""What Java makes of bytes in a folder's name that are no text."""


LOGS = "logs"


def check_logs(storage: Storage, snapshot: TableSnapshot, snapshot_now: Callable[[], TableSnapshot]) -> CheckReport:
    """`snapshot_now` gives the table as it is now; asked where something is found.

    Are the logs that queries read whole? Every block head of the newest slices' logs, without merging anything.

    A file may be as long as its commit says and broken within. Which of its blocks are sound is seen without reading
    what they hold; of a native log the footer is read, without which no reader reads it. Logs of groups that are frozen
    are not read: their damage is reported already.
    """
    if snapshot.config.layout < 2:
        # A log that grows keeps the torn block of a writer that died; nothing is wrong with it then.
        return CheckReport(notes=("Blocks of logs are not checked: in a table of this version, torn ones are lawful.",))
    logs = _logs_of(snapshot)
    found = _Found(storage, snapshot.base_path)
    found.read(logs)
    damage = found.damage
    if damage:
        again = _Found(storage, snapshot.base_path)
        damaged = {file.path for file in damage}
        again.read(sorted((log for log in _logs_of(snapshot_now()) if log.path in damaged), key=lambda log: log.path))
        damage = again.damage
    problems = tuple(Problem(LOGS, file.path, f"{file.what}.", file.remedy) for file in damage)
    return CheckReport((Check(LOGS, found.checked, len(logs), "log files"),), problems)


class _Found:
    """The result of reading the heads of some logs."""

    def __init__(self, storage: Storage, base_path: str) -> None:
        self._storage = storage
        self._base_path = base_path
        self.damage: list[DamagedFile] = []
        self.checked = 0

    def read(self, logs: Iterable[LogFile]) -> None:
        for log in logs:
            # What is gone since the snapshot is not counted as checked.
            with suppress(NotFound):
                self._read_one(log)

    def _read_one(self, log: LogFile) -> None:
        try:
            for damaged in find_block_damage(self._storage, self._base_path, log.path):
                self.damage.append(damaged)
            self.checked += 1
        except Unsupported as error:
            self.damage.append(broken_log(log.path, error))  # and not counted as checked


def _logs_of(snapshot: TableSnapshot) -> list[LogFile]:
    """Logs that queries read; logs of changes are none."""
    return [
        log
        for group in snapshot.file_groups
        for slice_ in group.read_slices
        for log in slice_.log_files
        if not log.name.is_cdc
    ]


def find_gone_partitions(storage: Storage, snapshot: TableSnapshot, *, check: str) -> list[Problem]:
    """One problem of `check` for each.

    Partitions that no listing shows any more, though what completed commits wrote into them was never rolled back.

    Where a file is gone, the rest of its partition is listed and held against the commits (`table/written_files.py`).
    Where the whole folder is gone, or its partition metadata, nothing is listed that could be held against anything,
    and every reader is content with the rows that are left. So the commits are asked which partitions they name.
    """
    config, timeline = snapshot.config, snapshot.timeline
    reader = TimelineReader(storage, snapshot.base_path, config, timeline)
    named = {path for written in reader.written_files() for path, files in written.files.items() if files}
    absent = sorted(path for path in named.difference(snapshot.partitions) if not _is_listed_elsewhere(path, snapshot))
    if not absent:
        return []
    empty = [sort_files(path, ()) for path in absent]
    view = build_file_groups(
        empty,
        timeline,
        layout=config.layout,
        archived={},
        pending_compactions=snapshot.pending_compactions,
        replaced=snapshot.replaced,
        damage=find_damage(empty, reader.written_files(), timeline, native=config.version.has_native_logs),
    )
    lost: dict[str, list[FrozenGroup]] = {}
    for group in view.frozen:
        lost.setdefault(group.partition_path, []).append(group)
    return [_problem(check, path, groups) for path, groups in lost.items()]


def _is_listed_elsewhere(path: str, snapshot: TableSnapshot) -> bool:
    if any(path == link.path or path.startswith(f"{link.path}/") for link in snapshot.links):
        return True
    if any(path == folder.path for folder in snapshot.unlisted):
        return True
    return not _UNREADABLE.isdisjoint(path) and any(not group.is_nameable for group in snapshot.frozen)


def _problem(check: str, path: str, groups: list[FrozenGroup]) -> Problem:
    files = [file for group in groups for file in group.damage]
    return Problem(
        check,
        path,
        f"The partition is not listed, though completed commits name {len(files)} files of it that were not replaced, "
        f"such as {files[0].path} of instant {files[0].instant}.",
        "Restore its folder, with its partition metadata, from a copy, or wait until the storage has it again. If it "
        "was removed by hand, its rows are gone: let Hudi delete partitions.",
    )


def verify_table(
    storage: Storage,
    base_path: str,
    *,
    size: SampleSize,
    merge_sample: int,
    clock: Clock,
    timezone: str | None = None,
) -> CheckReport:
    """Raises `NotATable`, and `BrokenFile` for a table that cannot be read at all.

    Args:
        merge_sample: how many file slices are merged and judged, in this process.
    """

    def snapshot_now() -> TableSnapshot:
        return take_snapshot(storage, base_path, timezone=timezone, clock=clock)

    report = check_table(storage, snapshot_now, clock=clock) + check_metadata(
        storage, snapshot_now, size=size, clock=clock
    )
    if merge_sample:
        report += _merge_sample(storage, base_path, merge_sample, size.seed, clock, timezone)
    return report


def check_table(storage: Storage, snapshot_now: Callable[[], TableSnapshot], *, clock: Clock) -> CheckReport:
    """The invariants that need no metadata table."""
    snapshot = snapshot_now()
    problems = _table_problems(storage, snapshot)
    if problems:
        again = set(_table_problems(storage, snapshot_now()))
        problems = [problem for problem in problems if problem in again]
    slices = sum(len(group.slices) for group in snapshot.file_groups)
    check = Check(TABLE, slices, slices, "file slices")
    report = CheckReport((check,), tuple(problems), tuple(_leftovers(storage, snapshot, clock)))
    return report + check_logs(storage, snapshot, snapshot_now)


def _table_problems(storage: Storage, snapshot: TableSnapshot) -> list[Problem]:
    problems = [
        Problem(TABLE, refusal.subject, refusal.why, refusal.remedy)
        for refusal in find_all_refusals(snapshot)
        if refusal.is_fault
    ]
    problems += [
        Problem(
            TABLE,
            f"column {found.path!r}",
            f"Hudi cannot load the table. {found.why}.",
            way_to_loadable_schema(snapshot),
        )
        for found in find_bad_names(snapshot.schema or "")
        if not found.is_loadable
    ]
    problems += [Problem(TABLE, file.path, f"{file.what}.", file.remedy) for file in snapshot.damage]
    problems += [
        Problem(
            TABLE,
            join(group.partition_path, group.file_id),
            f"It is unknown which files make up its slices: {group.why}",
            "Find out who wrote the files of that instant; no service touches the file group until then.",
        )
        for group in snapshot.frozen
        if not group.damage
    ]
    problems += [
        Problem(
            TABLE,
            folder.path,
            f"It lies in partition '{folder.partition_path}' and holds {folder.holds}, and is no partition that the "
            "table's readers see.",
            "If it is a copy, move it out of the table. If these are rows of yours, write them to another partition "
            "and move the folder out then.",
        )
        for folder in snapshot.unlisted
    ]
    # In layout 1 a snapshot does not hold files against commits either.
    if snapshot.config.layout >= 2:
        problems += find_gone_partitions(storage, snapshot, check=TABLE)
    problems += [
        Problem(TABLE, "archived timeline", what, "Restore the file from a copy.") for what in snapshot.archive_problems
    ]
    return problems


def left_heartbeats(storage: Storage, snapshot: TableSnapshot, clock: Clock) -> list[str]:
    """Instants that are not pending and have a heartbeat that stopped."""
    pending = {instant.time for instant in snapshot.timeline.pending}
    return [
        status.name
        for status in storage.list(join(snapshot.base_path, ".hoodie/.heartbeat"))
        if status.name.isdigit() and status.name not in pending and clock.now() - status.modified > EXPIRY_SECONDS
    ]


def _leftovers(storage: Storage, snapshot: TableSnapshot, clock: Clock) -> list[str]:
    notes = []
    heartbeats = left_heartbeats(storage, snapshot, clock)
    if heartbeats:
        notes.append(
            f"Heartbeats are left of instants that are not pending, and do no harm: {_some(heartbeats)}. "
            "Their writers died; Hudi's cleaner removes them."
        )
    if snapshot.uncommitted_files:
        notes.append(
            f"Files of pending or failed instants, which no reader sees: {_some(list(snapshot.uncommitted_files))}."
        )
    return notes


def _some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(sorted(names)[:most])}{more}"


def _merge_sample(
    storage: Storage, base_path: str, number: int, seed: int, clock: Clock, timezone: str | None
) -> CheckReport:
    try:
        sample = verify_sample(
            storage,
            base_path,
            number=number,
            seed=seed,
            dispatcher=InProcessDispatcher(),
            run_check=partial(check_slice_at, base_path),
            clock=clock,
            timezone=timezone,
        )
    except Refused as error:
        return CheckReport(notes=(f"No file slice was merged. {error.why}",))
    check = Check(
        MERGE,
        len(sample.groups),
        None,
        "file slices",
        f"{sample.rows} rows, {sample.keys} keys merged twice",
        sample.read if sample.groups else None,
    )
    problems = [
        Problem(
            MERGE, join(*problem.group), problem.what, "Find out which commit wrote it, and restore it from a copy."
        )
        for problem in sample.problems
    ]
    notes = [f"{join(*problem.group)} was not merged: {problem.what}" for problem in sample.not_merged]
    return CheckReport((check,), tuple(problems), tuple(notes))
