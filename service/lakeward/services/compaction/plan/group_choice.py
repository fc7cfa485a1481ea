"""A file group with what the rules chose for it, before the budget is asked.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.format.timeline.compaction_plan import CompactionOperation
from lakeward.services.compaction.plan.cost import Cost
from lakeward.services.compaction.plan.decision import Choice, Decision, full_operation, log_operation
from lakeward.services.compaction.plan.slice_profile import SliceProfile
from lakeward.table.file_group import LogFile


@dataclass(frozen=True, slots=True)
class GroupChoice:
    decision: Decision
    profile: SliceProfile
    cost: Cost | None = None
    """None for NONE."""
    run: tuple[LogFile, ...] = ()
    """The files that a LOG names."""

    @property
    def benefit(self) -> float:
        return self.cost.benefit if self.cost is not None else 0

    def operation(self) -> CompactionOperation:
        assert self.cost is not None, "the choice is not NONE"
        if self.decision.choice is Choice.LOG:
            return log_operation(self.profile.slice, self.run, self.cost)
        return full_operation(self.profile.slice, self.profile.log_files, self.cost)
