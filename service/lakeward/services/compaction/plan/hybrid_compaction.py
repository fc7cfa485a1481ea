"""Choose what to compact: one table snapshot in, one plan out, with a decision for each file group.

`group_rules.py` chooses FULL, LOG or nothing for each group by itself; here the groups become a plan: which come first,
and what does not fit into the budget.

Touches: nothing. No storage, clock or database, so equal inputs give equal plans, byte for byte.
Keeps:   1. every file group has exactly one decision;
         2. a group that the objective makes due comes before all others in the plan.
See:     docs/decisions/0006-hybrid-thresholds.md, docs/decisions/0024-the-objective-binds.md
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from lakeward.services.compaction.plan.budget import within_budget
from lakeward.services.compaction.plan.decision import Choice, PlanOutcome, Reason, decide_frozen
from lakeward.services.compaction.plan.group_rules import GroupRules
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


class HybridCompactionPlanGenerator:
    """The planner: RFC-103's rules, and the objective before them."""

    def __init__(self, options: HybridOptions | None = None) -> None:
        self._options = options or HybridOptions()

    def generate(
        self,
        snapshot: TableSnapshot,
        *,
        at: str,
        excluded: Mapping[GroupId, Reason] | None = None,
        whole: Set[GroupId] = frozenset(),
    ) -> PlanOutcome:
        """
        Args:
            at: the plan's instant, in the table's zone; ages are measured at it.
            excluded: groups that are not compacted whatever the rules choose, each with its reason: an operator wants
                it, it is parked, or its logs were opened and cannot be merged.
            whole: groups whose LOG has to start at the oldest log, for what was found in their logs.
        """
        rules = GroupRules(snapshot, self._options, at, excluded or {}, whole)
        groups = sorted(snapshot.file_groups, key=lambda group: (group.partition_path, group.file_id))
        choices = [rules.decide(group, slice_) for group in groups if (slice_ := group.latest_slice) is not None]

        key = self._options.selection.order()
        wanted = [index for index, choice in enumerate(choices) if choice.cost is not None]
        wanted.sort(
            key=lambda index: (
                choices[index].decision.reason is not Reason.OBJECTIVE,
                key(choices[index].profile, choices[index].benefit),
            )
        )
        if self._options.selection.has_budget and self._options.only is not Choice.FULL:
            io_bytes = [choice.cost.io_bytes if choice.cost is not None else 0 for choice in choices]
            taken = within_budget(io_bytes, wanted, self._options.budget_bytes)
        else:
            taken = wanted
        fits = set(taken)
        decisions = [
            choice.decision if choice.cost is None or index in fits else rules.over_budget(choice)
            for index, choice in enumerate(choices)
        ]
        decisions += decide_frozen(snapshot.frozen)
        return PlanOutcome(tuple(decisions), tuple(choices[index].operation() for index in taken), rules.form)
