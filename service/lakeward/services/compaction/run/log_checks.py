"""What logs hold can forbid merging them: their block heads are read before a plan names them, or one is begun.

Touches: reads block heads and delete blocks of logs, and once for each plan the newest commit and a file of it.
Keeps:   1. a file group with a damaged file is in no plan that is made, and the others are;
         2. a LOG that leaves out the oldest logs is planned only where what the logs hold allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from lakeward.base.errors import BrokenFile, Conflict, LakewardError, NotFound, Unsupported
from lakeward.engine.dispatch.dispatcher import raise_first
from lakeward.engine.task.operation_spec import OperationKind
from lakeward.format.avro.schema import table_schema
from lakeward.merge.rules.ordering_type import is_ordered_by_text
from lakeward.protocol.pending.pending_work import PendingWork
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.heeded_operations import check_heeded, heeds_operations
from lakeward.read.logs.committed_writes import committed_writes
from lakeward.read.logs.log_deletes import check_native_deletes, check_ranks
from lakeward.read.logs.log_deletes import folds_by_itself as is_folded_by_itself
from lakeward.read.logs.log_scan import (
    NEWEST,
    broken_log,
    check_floats,
    check_hfile_blocks,
    check_holds_records,
    check_not_overtaken,
    check_ordering,
    check_schemas,
    scan_slice_heads,
)
from lakeward.read.logs.partial_blocks import check_whole_rows, rules_of_blocks
from lakeward.read.logs.release_agreement import check_agreement, check_deletes_by_text
from lakeward.read.made_keys import check_keys_can_be_made
from lakeward.read.operation_column import check_no_operations, has_operations
from lakeward.read.table_rules import merge_rules
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.run.targets import find_targets
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_group import LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class CheckedLogs:
    """Log files whose block heads were read, and the file groups to exclude, for what was found or as asked."""

    seen: frozenset[tuple[str, ...]] = frozenset()
    """FULL or LOG, which does not open superseded logs, partition path and names; for LOG also those that it leaves out
    before them."""
    excluded: Mapping[GroupId, Reason] = field(default_factory=dict)
    whole: frozenset[GroupId] = frozenset()
    """File groups whose LOG has to start at the oldest log, for the deletes that were found."""
    without_log: frozenset[GroupId] = frozenset()
    """File groups of the layout `lsm_tree` of which no LOG is made, for what was found in their logs."""
    damage: tuple[DamagedFile, ...] = ()
    """Why groups are excluded that are frozen, or whose logs turned out to be damaged."""

    def without(self, group_id: GroupId, damage: Sequence[DamagedFile]) -> CheckedLogs:
        """The same, and this group excluded for its damage."""
        is_unknown = all(file.kind is DamageKind.UNKNOWN_FORM for file in damage)
        excluded = {**self.excluded, group_id: Reason.UNSUPPORTED_LOGS if is_unknown else Reason.DAMAGED}
        return replace(self, excluded=excluded).with_damage(damage)

    def with_damage(self, damage: Iterable[DamagedFile]) -> CheckedLogs:
        return replace(self, damage=tuple(dict.fromkeys((*self.damage, *damage))))


def check_logs(
    table: ServicedTable,
    snapshot: TableSnapshot,
    group_id: GroupId,
    logs: Sequence[str],
    choice: Choice,
    superseded: Mapping[str, tuple[str, ...]],
    heeds: Callable[[], bool],
    *,
    since: str | None,
) -> list[DamagedFile]:
    """Read the block heads of a slice's logs, but of those that need not be opened. Returns what is damaged, unless
    that is accepted, or of no known form; raises `Unsupported` where we cannot merge them, or not by `choice`.

    Args:
        heeds: what `ask_newest_file` made.
        since: as in `scan_slice_heads`.
    """
    try:
        committed = committed_writes(snapshot.timeline, snapshot.config.version)
        rules = merge_rules(snapshot)
        try:
            scan = scan_slice_heads(
                table.storage,
                table.base_path,
                logs,
                instant=NEWEST,
                superseded=superseded,
                committed=committed,
                by_rank=rules.by_rank,
                since=since,
            )
        except Unsupported as error:
            return [_broken_log(table, logs, error)]
        assert snapshot.schema is not None, "eligibility refuses a table without a schema"
        if scan.damage and not table.options.accept_damaged_logs:
            return list(scan.damage)
        schema = table_schema(snapshot.schema)
        check_ordering(scan, rules, schema)
        check_schemas(scan, schema)
        check_hfile_blocks(scan, schema, snapshot.config.record_key_fields)
        check_keys_can_be_made(scan.blocks, snapshot.config.made_key_fields)
        if rules.takes_operations:
            check_heeded(scan.blocks, heeds=heeds)
        with_operations = table_schema(snapshot.schema, has_operation=has_operations(scan.blocks, rules))
        rules_of_blocks(scan.blocks, rules, with_operations, snapshot.config.made_key_fields)
        if not snapshot.config.version.has_log_compaction:
            check_not_overtaken(scan)
        if not snapshot.config.version.widens_floats_alike:
            check_floats(scan, schema)
        if not snapshot.config.version.has_deletes_ordered_by_text and is_ordered_by_text(rules, schema):
            check_deletes_by_text(table.storage, table.base_path, scan, rules=rules, schema=schema)
        if committed is not None:
            check_agreement(table.storage, table.base_path, logs, scan, rules=rules, schema=schema)
        if choice is Choice.LOG:
            check_holds_records(scan)
            check_whole_rows(scan.blocks)
            check_no_operations(scan.blocks)
            if rules.by_rank:
                check_ranks(table.storage, table.base_path, scan.blocks, rules, schema)
            if snapshot.config.version.has_native_logs:
                check_native_deletes(table.storage, table.base_path, scan.blocks, rules, schema)
        return []
    except Unsupported as error:
        error.file_group = group_id
        raise
    except BrokenFile as error:
        return [_broken_log(table, logs, error)]
    except NotFound as error:
        if table.options.listing is ListingSource.STORAGE:
            raise
        raise out_of_step(group_id) from error


def ask_newest_file(table: ServicedTable, snapshot: TableSnapshot) -> Callable[[], bool]:
    """Whether Hudi's readers heed `_hoodie_operation`: a file is read when it is asked for the first time."""

    def heeds() -> bool:
        return heeds_operations(table.storage, snapshot)

    return cache(heeds)


def folds_by_itself(
    table: ServicedTable, snapshot: TableSnapshot, *, run: Sequence[LogFile], ahead: Sequence[LogFile]
) -> bool:
    """Whether a LOG over these live logs is right where it starts, behind those."""
    if not ahead:
        return True
    assert snapshot.schema is not None, "eligibility refuses a table without a schema"
    return is_folded_by_itself(
        table.storage,
        table.base_path,
        run=[log.path for log in run],
        ahead=[log.path for log in ahead],
        rules=merge_rules(snapshot),
        schema=table_schema(snapshot.schema),
    )


def find_damaged(table: ServicedTable, snapshot: TableSnapshot, work: PendingWork) -> dict[GroupId, list[DamagedFile]]:
    """The same for a plan that was pending before this run, before anything of it is begun: its damaged file groups.
    Raises what else it finds."""
    frozen = {(group.partition_path, group.file_id): group.damage for group in snapshot.frozen if group.damage}
    damaged = {group_id: list(frozen[group_id]) for group_id in work.groups if group_id in frozen}
    if damaged:
        return damaged
    failures: list[LakewardError] = []
    heeds = ask_newest_file(table, snapshot)
    for target in find_targets(snapshot, work.instant, work.plan, work.action).of:
        choice = Choice.LOG if target.kind is OperationKind.LOG else Choice.FULL
        try:
            paths = [log.path for log in target.logs]
            since = target.slice.since if choice is Choice.FULL else None
            damage = check_logs(table, snapshot, target.group_id, paths, choice, target.superseded, heeds, since=since)
        except Unsupported as error:
            failures.append(error)
        else:
            if damage:
                damaged[target.group_id] = damage
            elif choice is Choice.LOG and not folds_by_itself(table, snapshot, run=target.merged, ahead=target.ahead):
                failures.append(_may_not_start_there(work, target.group_id))
    raise_first(failures)
    return damaged


def _may_not_start_there(work: PendingWork, group_id: GroupId) -> Conflict:
    partition_path, file_id = group_id
    return Conflict(
        f"Log compaction {work.instant} leaves out the oldest logs of file group {file_id} in partition "
        f"'{partition_path}', and may not.",
        why="Deletes without an ordering value are among the logs, so that merging the later ones first would change "
        "rows.",
        remedy="`lakeward unschedule` removes the plan; nothing was written.",
        file_group=group_id,
    )


def _broken_log(table: ServicedTable, logs: Sequence[str], found: BrokenFile | Unsupported) -> DamagedFile:
    """Which of the logs it is."""
    path, why = logs[-1], found
    for log in logs:
        try:
            scan_slice_heads(table.storage, table.base_path, [log], instant=NEWEST)
        except (BrokenFile, Unsupported) as error:
            path, why = log, error
            break
    return broken_log(path, why)


def out_of_step(group_id: GroupId) -> Conflict:
    partition_path, file_id = group_id
    return Conflict(
        f"The metadata table lists other files of file group {file_id} in partition '{partition_path}' than the "
        "storage has.",
        why="A writer wrote without it, or files were deleted or restored by hand. A plan made by it would miss rows, "
        "or name files that are gone.",
        remedy="Run `lakeward verify`, which names the files, and `lakeward metadata disable`, after which the next "
        "Hudi writer builds the metadata table again. Nothing was written.",
        file_group=group_id,
    )
