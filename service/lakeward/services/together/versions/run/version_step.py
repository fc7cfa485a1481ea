"""Change the version of a table and of its metadata table, as `services/together/versions/plan/version_change.py` says.

    no lock  heartbeats are watched until they can be known; updates of properties that were interrupted are ended
             -> down: what keeps the table from its older version is looked for, and the first of it done, by
             the service that does it, until nothing does
    lock     nothing is at work, no native log is found anywhere -> the properties, the metadata table's first

What the properties were is in a backup beside them until the new ones are read back (`protocol/table_properties.py`).
Nothing else remembers how far a change came: a process that begins again looks at the table, and does what is left.
Until the properties change the table has its newer version, and is sound.

No lock protects a writer from this: it took the version from the properties when it began, and would write files of
another one, or fail. So all are stopped.

Touches: `hoodie.properties` of the table and of its metadata table, under the lock, with no other process at work; on
         the way down what rolling back, compacting and cleaning touch, and the metadata table, which goes.
Keeps:   1. stopped at any call, the table has its old version or the new one, and the next run does what is left;
         2. nothing is written to a table that is refused, nor while anything of it is at work;
         3. no table gets version 9 of which a listing under the lock found a file with a native name.
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from lakeward.base.errors import NotATable, TryLater
from lakeward.base.paths import join
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.task.entry import run_operation_at
from lakeward.format.file_name import is_native_log
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.protocol.pending.rollback import Step
from lakeward.protocol.pending.stuck_services import check_nothing_lives
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.table_properties import recover_properties, update_properties
from lakeward.protocol.transition import ServiceAction
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.services.metadata.run.removal import (
    INFLIGHT_PROPERTY,
    PARTITIONS_PROPERTY,
    check_nothing_hidden,
    remove_beside_restore,
    taken_aside,
)
from lakeward.services.rollback.run.failed_writes import judge, watch_writers
from lakeward.services.rollback.run.roll_back import roll_back_writes
from lakeward.services.together.versions.plan.change_step import ChangeStep, StepKind
from lakeward.services.together.versions.plan.layout_change import LayoutChange
from lakeward.services.together.versions.plan.native_files import changes_plan_of, clean_plan_of, find_native_files
from lakeward.services.together.versions.plan.version_change import VersionChange, plan_version_change, plan_way_down
from lakeward.table.damaged_file import damaged_error
from lakeward.table.listing_source import ListingSource
from lakeward.table.metadata.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.quarantine import load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import BACKUP_FILE, VERSION, TableConfig, hoodie_folder, load_table_config
from lakeward.table.timeline.cleans import read_cleans

Compact = Callable[[Sequence[str]], object]
"""FULL of the file groups with these ids, and what pending plans hold of them."""

_SERVICES = {
    StepKind.ROLLBACK: TableService.ROLLBACK,
    StepKind.COMPACTION: TableService.COMPACTION,
    StepKind.CHANGES: TableService.CLEANING,
    StepKind.CLEAN: TableService.CLEANING,
}
_VERBS = {
    StepKind.METADATA_TABLE: "metadata disable",
    StepKind.ROLLBACK: "rollback",
    StepKind.COMPACTION: "compact",
    StepKind.CHANGES: "clean",
    StepKind.CLEAN: "clean",
    StepKind.SORTING: "inspect",
}
_PROPERTIES = (StepKind.METADATA_PROPERTIES, StepKind.PROPERTIES)

Change = TypeVar("Change", VersionChange, LayoutChange)

_OTHERWISE = "it uses the version that the table had when it began"


def full_compaction(
    table: ServicedTable,
    choose_dispatcher: Callable[[int], Dispatcher],
    *,
    sorts: bool = False,
    inline_changes: bool = False,
) -> Compact:
    """FULL, whatever the configuration says of when it pays.

    Args:
        sorts: by their keys, whatever order their base files have.
        inline_changes: its changes are written to logs that versions below 10 have, too.
    """
    options = replace(table.options, sorts=sorts, inline_changes=inline_changes)

    def compact(file_ids: Sequence[str]) -> None:
        report = Compactor(
            replace(table, options=options),
            planner=planner_of(CompactionType.FULL, GroupFilter(file_groups=tuple(file_ids)), {}),
            choose_dispatcher=choose_dispatcher,
            run_operation=partial(run_operation_at, table.base_path),
        ).compact()
        if report.damage:
            raise damaged_error(report.damage)

    return compact


def preview_version_change(
    table: ServicedTable, target: int, *, is_upgrade: bool, drop_changes: bool = False
) -> VersionChange:
    """What `change_version` would do now, or why it would not: raises as that does. Writes nothing, and may wait for
    heartbeats."""
    watch_writers(table, scan(table))
    return _prepare(table, target, is_upgrade=is_upgrade, drop_changes=drop_changes)


def change_version(
    table: ServicedTable, target: int, compact: Compact, *, is_upgrade: bool, drop_changes: bool = False
) -> VersionChange:
    """Bring the table to this version. Returns what was done. Idempotent.

    Args:
        compact: it writes what it changes into inline logs (`CompactionOptions.inline_changes`).
        drop_changes: on the way down, the operator gives up the logs of changes whose slices stay.

    Raises:
        UsageError: the table has a version on the other side of it.
        Refused: the table, or what is on its timeline, does not allow it; the version was not changed.
        LockHeld, TryLater: another process is at work.
        BrokenFile: properties that are not whole.
        Whatever a service raises that is a step on the way.
    """
    assert table.options.writers_stopped, "nothing protects a writer from a change of the version"

    def plan() -> VersionChange:
        return _prepare(table, target, is_upgrade=is_upgrade, drop_changes=drop_changes)

    def do(step: ChangeStep) -> ChangeStep:
        if step.kind is StepKind.COMPACTION:
            compact([each.rpartition("/")[2] for each in step.subjects])
        elif step.kind is StepKind.CHANGES:
            Cleaner(table, {}).clean(partial(_given_up, table))
        elif step.kind is StepKind.CLEAN:
            Cleaner(table, {}).clean(clean_plan_of)
        return step

    return take_steps(table, plan, do, places=(metadata_base_path(table.base_path), table.base_path))


def take_steps(
    table: ServicedTable,
    plan: Callable[[], Change],
    do: Callable[[ChangeStep], ChangeStep],
    *,
    places: Sequence[str],
    look: Callable[[], None] = lambda: None,
) -> Change:
    """Change a table of which nothing is at work, its version or its layout: the first step of a plan, and a new plan,
    until only properties are left, which change under the lock of their plan. Returns what was done.

    Args:
        plan: what is left to do. Under the lock.
        do: a step that is neither a rollback nor under the lock. Returns what was done.
        places: base paths of which an update of the properties may have been interrupted.
        look: reads before each plan what takes longer than a lock should be held.
    """
    if any(table.storage.stat(join(hoodie_folder(place), BACKUP_FILE)) is not None for place in places):
        with table.locked() as fence:
            for place in places:
                recover_properties(table.storage, place, fence=fence)
    done: list[ChangeStep] = []
    while True:
        watch_writers(table, scan(table))
        look()
        with table.locked() as fence:
            change: Change = plan()
            steps: Sequence[ChangeStep] = [each for each in change.steps if each.kind is not StepKind.VERIFICATION]
            if not steps or steps[0].kind in _PROPERTIES:
                for step in steps:
                    is_metadata = step.kind is StepKind.METADATA_PROPERTIES
                    place = metadata_base_path(table.base_path) if is_metadata else table.base_path
                    update_properties(table.storage, place, step.changes, fence=fence)
                    has = f"{'the metadata table' if is_metadata else 'the table'} has"
                    version = step.changes.get(VERSION)
                    table.observer.step(f"{has} {'its new layout' if version is None else f'version {version}'}")
                return replace(change, steps=(*done, *(change.steps if steps else ())))
            step = steps[0]
            if step in done:
                raise TryLater(
                    f"{table.base_path} still needs {step.kind}: {', '.join(step.subjects[:3])}.",
                    why="It was done, and left this.",
                    remedy=f"See what `lakeward {_VERBS[step.kind]}` says of the table, and give the command again.",
                )
            if step.kind is StepKind.METADATA_TABLE:
                remove_beside_restore(
                    table.storage, table.base_path, clock=table.clock, attempt=table.owner.attempt, fence=fence
                )
        table.observer.step(f"{step.kind}, since {step.why}")
        if step.kind is StepKind.ROLLBACK:
            roll_back_writes(table, step.subjects)
            done.append(step)
        else:
            done.append(do(step))


def scan(table: ServicedTable) -> TableSnapshot:
    return table.snapshot(only=(), service=TableService.UPGRADING)


def _given_up(table: ServicedTable, snapshot: TableSnapshot) -> CleanPlan | None:
    """The clean of logs of changes."""
    cleans = read_cleans(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    last = next((each.earliest_retained for each in reversed(cleans) if each.is_completed), "")
    return changes_plan_of(snapshot, last)


def _prepare(table: ServicedTable, target: int, *, is_upgrade: bool, drop_changes: bool) -> VersionChange:
    # All of its files, as the storage lists them: names of another version's logs, which readers of the new one would
    # take for the table's, are refused, and those of this one are found.
    snapshot = table.snapshot(service=TableService.UPGRADING, listing=ListingSource.STORAGE)
    check_nothing_lives(table, snapshot, otherwise=_OTHERWISE)
    metadata = _metadata_config(table)
    change = plan_version_change(table.base_path, snapshot.config, metadata, target, is_upgrade=is_upgrade)
    if is_upgrade or not change.steps:
        return change
    first = _way_down(table, snapshot, has_metadata=metadata is not None, drop_changes=drop_changes)
    without = any(step.kind is StepKind.METADATA_TABLE for step in first)
    if without and has_metadata_table(snapshot.config):
        check_nothing_hidden(table.base_path, snapshot.partitions)
    then = _without_metadata_table(snapshot) if without else snapshot
    for service in [_SERVICES[step.kind] for step in first if step.kind in _SERVICES]:
        refuse(table.base_path, find_refusals(then, service))
    rest = [step for step in change.steps if not (without and step.kind is StepKind.METADATA_PROPERTIES)]
    return replace(change, steps=(*first, *rest))


def _way_down(
    table: ServicedTable, snapshot: TableSnapshot, *, has_metadata: bool, drop_changes: bool
) -> tuple[ChangeStep, ...]:
    quarantined = [file.path for run in load_quarantine(table.storage, table.base_path).runs for file in run.files]
    return plan_way_down(
        table.base_path,
        [each.instant for each in judge(table, snapshot) if each.step is not Step.LEAVE],
        find_native_files(snapshot, quarantined, drop_changes=drop_changes),
        pending_cleans=[each.time for each in snapshot.timeline.pending if each.action == ServiceAction.CLEAN.pending],
        of_metadata=_native_files_of_metadata(table),
        has_metadata=has_metadata,
    )


def _without_metadata_table(snapshot: TableSnapshot) -> TableSnapshot:
    """The table as the services find it once that is removed."""
    kept = {
        key: value
        for key, value in snapshot.config.properties.items()
        if key not in (PARTITIONS_PROPERTY, INFLIGHT_PROPERTY)
    }
    return replace(snapshot, loaded_config=replace(snapshot.loaded_config, config=TableConfig(kept)))


def _native_files_of_metadata(table: ServicedTable) -> list[str]:
    """All of them, also of partitions that the properties do not name, and of what a removal took aside and left."""
    places = [metadata_base_path(table.base_path), *taken_aside(table.storage, table.base_path)]
    found = (each for place in places for each in table.storage.list(place))
    folders = [each for each in found if each.is_folder and not each.name.startswith(".")]
    return [
        file.path.removeprefix(f"{table.base_path}/")
        for folder in folders
        for file in table.storage.list(folder.path)
        if is_native_log(file.name)
    ]


def _metadata_config(table: ServicedTable) -> TableConfig | None:
    """The properties of the metadata table, also if the table does not name it any more: Hudi finds it by its
    folder. None where there is none."""
    try:
        return load_table_config(table.storage, metadata_base_path(table.base_path), clock=table.clock).config
    except NotATable:
        return None
