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
from lakeward.table.file_system_view import GroupId
from lakeward.write.flow.row_keys import Keying
from lakeward.write.tagging.tagging_kinds import Tagging
from lakeward.write.target import Assignment, TargetResult, Workload, WriteContext

Item = TypeVar("Item")
R = TypeVar("R")


def run_items(
    dispatcher: Dispatcher,
    run_item: Callable[[WriteContext, Item, int], R],
    context: WriteContext,
    items: Sequence[Item],
    what: str,
    named: Sequence[GroupId],
    on_progress: Callable[[Progress], None],
) -> list[R]:
    """Raises the first failure.

    Args:
        run_item: called where the work runs; has its own access to the storage.
        what: the tasks do.
        named: the file group of each.
    """
    outcomes = dispatcher.run(
        partial(run_item, context), items, description=f"{what} {context.instant}", on_progress=on_progress
    )
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            outcome.error.file_group = named[outcome.index]
    return results_of(outcomes)


class WithoutRows:
    """What is the same in all flows to which no rows come."""

    def tag(self, keying: Keying, tagging: Tagging, *, on_progress: Callable[[Progress], None]) -> Workload:
        raise AssertionError("no rows come")

    def close(self) -> None:
        """There is nothing to let go of."""


class RowlessFlow(WithoutRows, Generic[Item]):
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

    def write(
        self, context: WriteContext, assignment: Assignment, *, on_progress: Callable[[Progress], None]
    ) -> list[TargetResult]:
        named = [(target.partition_path, target.file_id) for target in assignment.targets]
        items = self._items_of(assignment)
        return run_items(self._dispatcher, self._write_item, context, items, self._description, named, on_progress)
