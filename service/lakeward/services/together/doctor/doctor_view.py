"""What `doctor` reads of a table, each thing when a pattern asks for it; the patterns themselves read nothing.

Touches: the table, reading only: a scan that lists the storage, heartbeats and markers, the plans of pending cleans,
         the commits whose partitions are not listed; the metadata table against the listing.
Keeps:   1. what could not be read is the error that says so, each time that it is asked for.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lakeward.protocol.pending.rollback import Beat, RollbackDecision
from lakeward.protocol.pending.stuck_services import Judge, heartbeat_places
from lakeward.protocol.refusals.eligibility import Refusal, find_all_refusals
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.rollback.run.failed_writes import judge, watch_writers
from lakeward.services.verification.check_report import CheckReport, Problem
from lakeward.services.verification.metadata_check import SampleSize, check_metadata
from lakeward.services.verification.table_verification import find_gone_partitions
from lakeward.storage.storage import Storage
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.cleans import Clean, not_undone, read_cleans, read_planned_deletions
from lakeward.table.timeline.timeline import Timeline

_LISTING_ALONE = SampleSize(files=0, keys=0)
"""The partitions and the files of the metadata table are compared, not what it says of rows."""


@dataclass(frozen=True)
class DoctorView:
    table: ServicedTable

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

    def is_alive(self, instant: str) -> bool:
        """Whether a heartbeat of the instant beats, or may."""
        places = heartbeat_places(self.table.base_path, self.snapshot)
        return Judge.of(self.table).beat(places, instant) is Beat.ALIVE

    @cached_property
    def refusals(self) -> tuple[Refusal, ...]:
        return find_all_refusals(self.snapshot)

    @cached_property
    def planned_deletions(self) -> Mapping[str, frozenset[str]]:
        """Paths that each pending clean is going to delete."""
        return read_planned_deletions(*self._timeline)

    @cached_property
    def cleans(self) -> tuple[Clean, ...]:
        return not_undone(read_cleans(*self._timeline))

    def deleted_by(self, path: str) -> str | None:
        """The clean of the active timeline that deleted the file."""
        return next((each.instant for each in self.cleans if each.is_completed and path in each.paths), None)

    @cached_property
    def gone_partitions(self) -> tuple[Problem, ...]:
        if self.snapshot.config.layout < 2:
            return ()  # a snapshot does not hold files against commits there
        return tuple(find_gone_partitions(self.table.storage, self.snapshot, check="partitions"))

    @cached_property
    def metadata(self) -> CheckReport:
        """How the list of files in the metadata table differs from the storage's."""
        snapshots = iter([self.snapshot])

        def snapshot_now() -> TableSnapshot:
            return next(snapshots, None) or DoctorView(self.table).snapshot

        return check_metadata(self.table.storage, snapshot_now, size=_LISTING_ALONE, clock=self.table.clock)

    def command(self, verb: str, *rest: str) -> str:
        """A command about this table.

        Args:
            verb: with its group.
            rest: what follows the table.
        """
        return shlex.join(["lakeward", *verb.split(), self.table.base_path, *rest])

    @property
    def _timeline(self) -> tuple[Storage, str, TableConfig, Timeline]:
        return self.table.storage, self.table.base_path, self.snapshot.config, self.snapshot.timeline
