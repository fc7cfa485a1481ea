"""A flow to which no rows come: the table's own files are written again, or become others.

    assignment -> items, one for each target -> a task each -> results

Touches: what the tasks touch, through a dispatcher.
Keeps:   the first failure is raised, once all tasks are done, and says which file group it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from lakeward.engine.dispatch.dispatcher import Dispatcher, Failure, Progress, results_of
from lakeward.write.flow.row_keys import Keying
from lakeward.write.tagging.tagging_kinds import Tagging
from lakeward.write.target import Assignment, TargetResult, Workload, WriteContext

Item = TypeVar("Item")


class RowlessFlow(Generic[Item]):
    def __init__(
        self,
        dispatcher: Dispatcher,
        write_item: Callable[[WriteContext, Item, int], TargetResult],
        items_of: Callable[[Assignment], Sequence[Item]],
        *,
        description: str,
    ) -> None:
        """
        Args:
            write_item: called where the work runs; has its own access to the storage.
            items_of: what a task is given of each target, in their order.
        """
        self._dispatcher = dispatcher
        self._write_item = write_item
        self._items_of = items_of
        self._description = description

    def tag(self, keying: Keying, tagging: Tagging, *, on_progress: Callable[[Progress], None]) -> Workload:
        raise AssertionError("no rows come")

    def write(
        self, context: WriteContext, assignment: Assignment, *, on_progress: Callable[[Progress], None]
    ) -> list[TargetResult]:
        outcomes = self._dispatcher.run(
            partial(self._write_item, context),
            self._items_of(assignment),
            description=f"{self._description} {context.instant}",
            on_progress=on_progress,
        )
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                target = assignment.targets[outcome.index]
                outcome.error.file_group = (target.partition_path, target.file_id)
        return results_of(outcomes)

    def close(self) -> None:
        """There is nothing to let go of."""
