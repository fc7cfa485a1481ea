"""What `doctor` reads of a table, each thing when a pattern asks for it; the patterns themselves read nothing.

Touches: the table, reading only: a scan that lists the storage, heartbeats and markers, the plans of pending cleans,
         the commits whose partitions are not listed, archived commits that replaced file groups; the metadata table
         against the listing; the archive's listing, the index definitions, the record of orphan files; with --keys the
         record key of each row, and spill files.
Keeps:   1. what could not be read is the error that says so, each time that it is asked for;
         2. a command that changes the table stands beside its dry run;
         3. a write without a heartbeat may live unless the operator says otherwise, or it was silent for long.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

from lakeward.base.errors import BrokenFile
from lakeward.base.paths import parent
from lakeward.base.quantities import format_time
from lakeward.format.metadata.index_definitions import IndexDefinitions
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.repeated_keys import KeyRepeats, find_repeated_keys
from lakeward.protocol.attempts.attempt_files import temp_folder
from lakeward.protocol.pending.rollback import Beat, RollbackDecision
from lakeward.protocol.pending.stuck_services import Judge, heartbeat_places
from lakeward.protocol.refusals.eligibility import Refusal, TableService, find_all_refusals, find_refusals, refuse
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.archive.plan.archive_plan import ArchivePlan
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archive_preview import archive_plan_of
from lakeward.services.clean.plan.orphans import OrphanDecision
from lakeward.services.clean.run.orphans import AGE_SECONDS, judge_strays
from lakeward.services.rollback.run.failed_writes import judge, watch_writers
from lakeward.services.together.doctor.diagnosis import LeftOut
from lakeward.services.verification.check_report import CheckReport, Problem
from lakeward.services.verification.metadata_check import SampleSize, check_metadata
from lakeward.services.verification.table_verification import find_gone_partitions, left_heartbeats
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.index_definitions import load_index_definitions
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import each_archived_commit, history_folder
from lakeward.table.timeline.cleans import not_undone, read_cleans, read_planned_deletions
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline

_KEYS_NAMED = 20

_LISTING_ALONE = SampleSize(files=0, keys=0)
"""The partitions and the files of the metadata table are compared, not what it says of rows."""


class Commands(TypedDict):
    command: str
    dry_run: str


def say_group(group_id: GroupId) -> str:
    return f"file group {group_id[1]} of partition '{group_id[0]}'"


@dataclass(frozen=True)
class DoctorView:
    table: ServicedTable
    shares_lock: bool = False
    """The operator says that all writers share a lock, and so leave a heartbeat."""

    @cached_property
    def now(self) -> float:
        return self.table.clock.now()

    @cached_property
    def snapshot(self) -> TableSnapshot:
        # The storage is listed: a metadata table that is out of step is one of the patterns.
        return take_snapshot(
            self.table.storage,
            self.table.base_path,
            timezone=self.table.options.timezone,
            clock=self.table.clock,
            listing=ListingSource.STORAGE,
        )

    @cached_property
    def paths(self) -> frozenset[str]:
        """All data files that are there, by path below the table."""
        return frozenset(path for files in self.snapshot.files for path, _ in files.sizes)

    @cached_property
    def decisions(self) -> tuple[RollbackDecision, ...]:
        """What happens to each pending instant, on a table that may be rolled back; waits until heartbeats prove a
        death."""
        watch_writers(self.table, self.snapshot)
        return judge(self.table, self.snapshot)

    def may_live(self, time: str) -> bool:
        """Whether a process may be at work on a pending write, rollback or restore.

        Hudi's writers have no heartbeat unless they share a lock, and no release has one for a restore. So where there
        is none, only the operator's word counts, or that nothing has changed for as long as a service is silent."""
        judge_of, options = Judge.of(self.table), self.table.options
        beat = judge_of.beat(heartbeat_places(self.table.base_path, self.snapshot), time)
        if beat is not Beat.ABSENT:
            return beat is Beat.ALIVE
        instant = self.snapshot.timeline.find(time)
        if instant is None or options.writers_stopped or (self.shares_lock and instant.action in WRITE_ACTIONS):
            return False
        silent = self.now - judge_of.last_sign(self.snapshot, instant)
        return options.silent_after is None or silent < options.silent_after

    @cached_property
    def refusals(self) -> tuple[Refusal, ...]:
        return find_all_refusals(self.snapshot)

    @cached_property
    def planned_deletions(self) -> Mapping[str, frozenset[str]]:
        """Paths that each pending clean is going to delete."""
        return read_planned_deletions(*self._timeline)

    def deleted_by(self, path: str) -> str | None:
        """The clean of the active timeline that deleted the file, as far as cleans can be read."""
        return self._deletions.get(path)

    @cached_property
    def _deletions(self) -> Mapping[str, str]:
        try:
            cleans = not_undone(read_cleans(*self._timeline))
        except BrokenFile:
            return {}  # it says more of a file that is gone, and that is known without it
        return {path: each.instant for each in cleans if each.is_completed for path in each.paths}

    @cached_property
    def gone_partitions(self) -> tuple[Problem, ...]:
        if self.snapshot.config.layout < 2:
            return ()  # a snapshot does not hold files against commits there
        return tuple(find_gone_partitions(self.table.storage, self.snapshot, check="partitions"))

    @cached_property
    def replaced_before(self) -> Mapping[str, tuple[GroupId, ...]]:
        """File groups that readers read, and that only archived commits have replaced, by these. Reads the history, in
        tables whose archive has manifests. Raises `BrokenFile`."""
        snapshot, found = self.snapshot, defaultdict[str, list[GroupId]](list)
        newest = {
            (group.partition_path, group.file_id): max(comparable_time(each.base_instant) for each in group.slices)
            for group in snapshot.file_groups
            if group.slices
        }
        for row in each_archived_commit(
            self.table.storage, self.table.base_path, snapshot.config, actions={"replacecommit"}
        ):
            if row.metadata and snapshot.timeline.find(row.time) is None:
                metadata = read_commit_metadata(row.metadata, file=row.time, layout=snapshot.config.layout)
                for path, file_ids in metadata.partition_to_replace_file_ids.items():
                    for file_id in file_ids:
                        # What was written into the file group later was not replaced.
                        if (group_id := (path, file_id)) in newest and newest[group_id] <= comparable_time(row.time):
                            found[row.time].append(group_id)
        return {time: tuple(sorted(groups)) for time, groups in found.items()}

    @cached_property
    def metadata(self) -> CheckReport:
        """How the list of files in the metadata table differs from the storage's."""
        snapshots = iter([self.snapshot])

        def snapshot_now() -> TableSnapshot:
            return next(snapshots, None) or DoctorView(self.table).snapshot

        return check_metadata(self.table.storage, snapshot_now, size=_LISTING_ALONE, clock=self.table.clock)

    @cached_property
    def archive_files(self) -> tuple[str, ...]:
        """Names of the files of the archive, in tables whose archive has manifests."""
        if self.snapshot.config.layout < 2:
            return ()
        folder = history_folder(self.table.base_path, self.snapshot.config)
        return tuple(sorted(status.name for status in self.table.storage.list(folder) if not status.is_folder))

    @cached_property
    def index_definitions(self) -> IndexDefinitions | BrokenFile:
        """The error in their place where they cannot be relied on."""
        try:
            return load_index_definitions(self.table.storage, self.table.base_path, self.snapshot.config)
        except BrokenFile as error:
            return error

    @cached_property
    def orphans(self) -> tuple[OrphanDecision, ...]:
        """Every data file that no reader sees, with what is known of it. Raises `Refused`."""
        self._check_treated(TableService.CLEANING)
        return judge_strays(self.table, self.snapshot, age_seconds=AGE_SECONDS)

    @cached_property
    def marked(self) -> Mapping[str, int]:
        """Instants with a folder of markers or of an attempt, each with the number of entries in it."""
        list_, folder = self.table.storage.list, parent(temp_folder(self.table.base_path, "0"))
        return {status.name: len(list(list_(status.path))) for status in list_(folder) if status.is_folder}

    @cached_property
    def heartbeats(self) -> tuple[str, ...]:
        """Instants of old heartbeats that are not pending."""
        return tuple(left_heartbeats(self.table.storage, self.snapshot, self.table.clock))

    @cached_property
    def archiving(self) -> ArchivePlan:
        """What an archiver by Hudi's defaults would do now. Raises `Refused`."""
        self._check_treated(TableService.ARCHIVING)
        return archive_plan_of(
            self.table.storage, self.table.base_path, self.snapshot, ArchiveOptions(), clock=self.table.clock
        )

    @cached_property
    def repeated_keys(self) -> KeyRepeats:
        """Reads the record key of each row. Raises `Refused`."""
        self._check_treated(TableService.READING)
        return find_repeated_keys(self.table.storage, self.snapshot, most=_KEYS_NAMED)

    def _check_treated(self, service: TableService) -> None:
        """Raises `Refused` where the table is not in a state for the service, and `LeftOut` where this release never
        has the service on a table of this kind."""
        refusals = find_refusals(self.snapshot, service)
        if refusals and all(refusal.no_work for refusal in refusals):
            raise LeftOut(f"The table is of {' and '.join(refusal.no_work for refusal in refusals)}.")
        refuse(self.table.base_path, refusals)

    def refusal_of(self, service: TableService) -> Refusal | None:
        """The first reason why this release does not run the service on the table."""
        return next((refusal for refusal in self.refusals if service in refusal.services), None)

    def command(self, verb: str, *rest: str) -> str:
        """A command about this table.

        Args:
            verb: with its group.
            rest: what follows the table.
        """
        return shlex.join(["lakeward", *verb.split(), self.table.base_path, *rest])

    def act(self, verb: str, *rest: str) -> Commands:
        """A command that changes the table, and its dry run."""
        return {"command": self.command(verb, *rest), "dry_run": self.command(verb, *rest, "--dry-run")}

    def refused_by(self, ids: Collection[str]) -> Iterator[Refusal]:
        """What the services refuse the table for, of these ids."""
        return (refusal for refusal in self.refusals if refusal.id in ids)

    def age(self, instant: str) -> str:
        """When something of the instant changed last, in words."""
        timeline = self.snapshot.timeline
        changed = max(timeline.modified[each.file_name] for each in timeline.instants if each.time == instant)
        return f"unchanged since {format_time(changed)}"

    @property
    def _timeline(self) -> tuple[Storage, str, TableConfig, Timeline]:
        return self.table.storage, self.table.base_path, self.snapshot.config, self.snapshot.timeline
