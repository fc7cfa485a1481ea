"""The options by which a verb is told what to plan, and the planner that they come to.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.pairs import parse_pairs
from lakeward.plan.compaction_type import CompactionType
from lakeward.plan.setting_keys import SETTINGS

if TYPE_CHECKING:
    from lakeward.config.settings import TableSettings
    from lakeward.plan.planner import Planner


@dataclass(frozen=True, slots=True)
class StatedPlan:
    """What a command line says about the plan: a group of options."""

    kind: Annotated[
        CompactionType | None,
        typer.Option(
            "--type",
            help="hybrid (default): for each file group FULL (base and logs into a new base file), LOG (its small logs "
            "into one) or nothing, whichever pays. full: FULL for all that have logs. log: LOG wherever it is "
            "possible.",
        ),
    ] = None
    partition: Annotated[
        list[str] | None, typer.Option(help="Only partitions of this path; * and ? match. Repeatable.")
    ] = None
    exclude_partition: Annotated[
        list[str] | None, typer.Option(help="Not the partitions of this path; * and ? match. Repeatable.")
    ] = None
    file_group: Annotated[list[str] | None, typer.Option(help="Only the file group of this id. Repeatable.")] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help=f"A setting of the planner: {', '.join(SETTINGS)}. Repeatable."
        ),
    ] = None

    def over(self, configured: TableSettings) -> Planner:
        """The planner that is asked for here, and else in the configuration. Raises `UsageError`."""
        from lakeward.plan.planner import merge_settings, planner_of
        from lakeward.plan.selection import GroupFilter

        groups = GroupFilter(
            partitions=tuple(self.partition or configured.partitions),
            file_groups=tuple(self.file_group or ()),
            excluded_partitions=tuple(self.exclude_partition or configured.exclude_partitions),
        )
        settings = parse_pairs(self.settings, like="--set planner.log_ratio=0.3")
        return planner_of(self.kind or configured.type, groups, merge_settings(configured.planner, settings))
