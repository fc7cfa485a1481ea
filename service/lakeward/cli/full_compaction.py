"""FULL of the file groups that a verb names, for verbs that end what only logs have.

Touches: the table, through `services/compaction/run/compactor.py`; stderr; the store, where file groups are parked.
Keeps:   with a dry run nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import typer

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.serviced import serviced_table
from lakeward.engine.task.entry import run_operation_at
from lakeward.protocol.options import CompactionOptions
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.table.file_system_view import GroupId


def compact_fully(
    opened: ConfiguredTable,
    groups: Collection[GroupId],
    options: CompactionOptions,
    engine: EngineArguments,
    *,
    dry_run: bool,
) -> Sequence[GroupId]:
    """The file groups of these that were compacted, or would be. Raises what `Compactor.compact` does."""
    if not groups:
        return ()
    parked = ParkedGroups(opened, SystemClock(), say=partial(typer.echo, err=True))
    file_ids = GroupFilter(file_groups=tuple(sorted({file_id for _, file_id in groups})))
    with (
        engine.over(opened.settings, memory_bytes=options.memory_bytes) as engines,
        serviced_table(opened, options) as serviced,
    ):
        if not dry_run:
            engines.check()
        compactor = Compactor(
            serviced,
            planner=planner_of(CompactionType.FULL, file_ids, {}),
            choose_dispatcher=engines.choose,
            run_operation=partial(run_operation_at, opened.base_path),
            excluded=parked.excluded(parked.records()),
        )
        if dry_run:
            planned = compactor.preview().outcome.operations
            return sorted((operation.partition_path, operation.file_id) for operation in planned)
        plans = compactor.compact().plans
    return sorted((operation.partition_path, operation.file_id) for plan in plans for operation in plan.operations)
