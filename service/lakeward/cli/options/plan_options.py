"""The options that say what to plan, and the planner that results.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.cli.options.values import parse_pairs
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, merge_settings, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter, matches
from lakeward.services.compaction.plan.setting_keys import SETTINGS

if TYPE_CHECKING:
    from lakeward.config.settings import TableSettings
    from lakeward.services.compaction.plan.decision import PlanOutcome
    from lakeward.services.compaction.plan.trigger import Trigger


@dataclass(frozen=True, slots=True)
class PlanArguments:
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
        list[str] | None, typer.Option(metavar="GLOB", help="Only partitions of this path; * and ? match. Repeatable.")
    ] = None
    exclude_partition: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Not the partitions of this path; * and ? match. Repeatable."),
    ] = None
    file_group: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only the file group of this id. Repeatable.")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help=f"A setting of the planner: {', '.join(SETTINGS)}. Repeatable."
        ),
    ] = None

    def over(self, configured: TableSettings, *, trigger: Trigger | None = None) -> Planner:
        """The planner that is asked for here, and else in the configuration. Raises `UsageError`.

        Args:
            trigger: the table's, where neither says one.
        """
        groups = self._groups(configured.partitions, configured.exclude_partitions)
        given = parse_pairs(self.settings, like="--set planner.log_ratio=0.3")
        settings = merge_settings(configured.planner, given)
        return planner_of(
            self.kind or configured.type,
            groups,
            settings,
            objective=configured.objective_under(settings),
            trigger=trigger,
            sources_retire=configured.sources_retire,
        )

    @property
    def groups(self) -> GroupFilter:
        """The file groups that it asks for by itself."""
        return self._groups((), ())

    def _groups(self, partitions: Sequence[str], excluded: Sequence[str]) -> GroupFilter:
        """What it says, and else these partitions."""
        return GroupFilter(
            partitions=tuple(self.partition or partitions),
            file_groups=tuple(self.file_group or ()),
            excluded_partitions=tuple(self.exclude_partition or excluded),
        )

    @property
    def is_silent(self) -> bool:
        """Whether the command line leaves all of it to the configuration."""
        return not (self.kind or self.partition or self.exclude_partition or self.file_group or self.settings)

    @property
    def only_narrows(self) -> bool:
        """Whether all that it says is which partitions and file groups."""
        return not (self.kind or self.settings)

    @property
    def narrows(self) -> bool:
        """Whether it names partitions or file groups, which may not be there."""
        return bool(self.partition or self.file_group)

    def check_matches(self, outcome: PlanOutcome) -> None:
        """Raises `UsageError` for a partition or file group that is named here and that the table does not have."""
        check_partitions(self.partition or (), {decision.partition_path for decision in outcome.decisions})
        groups = {decision.file_id for decision in outcome.decisions}
        for file_id in self.file_group or ():
            if file_id not in groups:
                raise _matches_nothing("--file-group", file_id, groups)


def check_partitions(patterns: Iterable[str], partitions: Collection[str]) -> None:
    """Raises `UsageError` for a pattern of --partition that no partition of the table matches."""
    for pattern in patterns:
        if not any(matches(path, (pattern,)) for path in partitions):
            raise _matches_nothing("--partition", pattern, partitions)


def _matches_nothing(option: str, given: str, names: Collection[str]) -> UsageError:
    close = get_close_matches(given, names, n=1, cutoff=0.5) or sorted(names)[:1]
    return UsageError(
        f"{option} {given} matches nothing in this table.",
        why=f"It has {len(names):,}, for example {close[0] or '(none)'}." if close else "It has no file group.",
        remedy="`lakeward inspect` lists what is there; nothing was done.",
    )
