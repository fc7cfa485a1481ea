"""The file groups of a table that failed, and that the next plans exclude: kept in the store, as the daemon's are.

    a run fails on what a file group holds -> parked until its time is over
    the next run unschedules Lakeward's plans that hold it, plans without it, and says so
    `lakeward resume TABLE --file-group PARTITION/ID` ends it

Touches: the store of the configuration, else that of this user.
Keeps:   1. a group is parked for what it holds, as `failed_for_good` says: never for a storage, a lock or an engine
            that failed;
         2. no store is made before there is something to remember;
         3. a store that does not answer stops nothing, and is said to have said nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError
from lakeward.base.printable import printable
from lakeward.base.quantities import format_iso_time, format_time
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.options.store import AWAY, TIMEOUT_SECONDS, has_store, opened_store
from lakeward.services.compaction.plan.decision import PARKED_SECONDS, Reason
from lakeward.services.compaction.run.operations import failed_for_good
from lakeward.state.records import ParkedRecord
from lakeward.table.file_system_view import GroupId

KIND = "parked"


class ParkedGroups:
    """The parked file groups of one table."""

    def __init__(self, opened: ConfiguredTable, clock: Clock, *, say: Callable[[str], None]) -> None:
        """
        Args:
            say: takes a note for the operator.
        """
        self._settings = opened.settings
        self._table = opened.settings.name_of(opened.base_path)
        self._config = opened.config
        self._clock = clock
        self._say = say

    def records(self, *, named: Collection[str] = ()) -> tuple[ParkedRecord, ...]:
        """What is parked now, but for groups whose file id is `named`; nothing without a store."""
        if not has_store(self._settings):
            return ()
        try:
            with opened_store(None, self._settings, self._clock, timeout=TIMEOUT_SECONDS) as store:
                parked = store.controls.parked(self._clock.now())
        except AWAY as error:
            self._say(f"The store does not say which file groups are parked: {error}")
            return ()
        return tuple(
            record
            for record in parked
            if record.table == self._table and record.file_group is not None and record.file_group[1] not in named
        )

    def excluded(self, records: Sequence[ParkedRecord]) -> Mapping[GroupId, Reason]:
        """For the planner, after a note for each."""
        for record in records:
            self._say(self.sentence(record))
        return {record.file_group: Reason.PARKED for record in records if record.file_group is not None}

    def park(self, error: LakewardError) -> None:
        """The file groups that `error` and what failed beside it blame, each with a note to the error."""
        now = self._clock.now()
        records = [
            ParkedRecord(self._table, failed.file_group, KIND, printable(str(failed)), 1, now, now + PARKED_SECONDS)
            for failed in failed_for_good(error)
        ]
        if not records:
            return
        try:
            with opened_store(None, self._settings, self._clock, timeout=TIMEOUT_SECONDS, migrates=True) as store:
                for record in records:
                    store.controls.park(record)
        except AWAY as away:
            error.add_note(f"The file group could not be parked, so the next run fails on it again: {away}")
            return
        for record in records:
            error.add_note(self.sentence(record))

    def sentence(self, record: ParkedRecord) -> str:
        assert record.file_group is not None
        until = f" until {format_time(record.until)}" if record.until is not None else ""
        return (
            f"File group {_spell(record.file_group)} is parked{until}, and the others go on without it; "
            f"`{self.release(record)}` ends that."
        )

    def as_json(self, records: Sequence[ParkedRecord]) -> list[dict[str, Any]]:
        return [
            {
                "partition_path": record.file_group[0],
                "file_id": record.file_group[1],
                "reason": record.reason,
                "parked_at": record.parked_at,
                "parked_time": format_iso_time(record.parked_at),
                "until": record.until,
                "until_time": None if record.until is None else format_iso_time(record.until),
                "release": self.release(record),
            }
            for record in records
            if record.file_group is not None
        ]

    def release(self, record: ParkedRecord) -> str:
        """The command that ends it."""
        assert record.file_group is not None
        config = "" if self._config is None else f" --config {self._config}"
        return f"lakeward resume {self._table} --file-group {_spell(record.file_group)}{config}"


def _spell(group_id: GroupId) -> str:
    """The group as `--file-group` takes it."""
    return "/".join(part for part in group_id if part)
