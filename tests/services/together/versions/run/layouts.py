"""One change of a table's layout, in this process, with or without a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lakeward.base.clock import Clock
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.order_check import OrderCheck, check_order
from lakeward.protocol.owner import Processes
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.together.versions.plan.layout_change import LayoutChange, StorageLayout
from lakeward.services.together.versions.run.layout_step import (
    SORTED_AT_ONCE,
    LayoutWork,
    change_layout,
    preview_layout_change,
)
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_order import FileOrder
from lakeward.write.file_sort import sort_slices
from lakeward.write.handles.handle import sort_target
from tests.clocks import SkippingClock
from tests.crash.compacting import compact
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table


class Conversion:
    """A command that changes the layout of a table, or says what it would do. It counts the files that it reads."""

    def __init__(
        self,
        base: Path | str,
        storage: Storage | None = None,
        processes: Processes | None = None,
        clock: Clock | None = None,
        *,
        sorted_at_once: int = SORTED_AT_ONCE,
        **options: object,
    ) -> None:
        self.base = base
        self.read: list[str] = []
        storage, processes = storage or LocalStorage(), processes or ScriptedProcesses()
        processes.stillness = LookedOn()
        table = serviced_table(str(base), storage, processes, **options)
        self.table = replace(table, clock=clock or SkippingClock())
        dispatcher = InProcessDispatcher()

        def merge(file_ids: Sequence[str]) -> None:
            planner = planner_of(CompactionType.FULL, GroupFilter(file_groups=tuple(file_ids)), {})
            compact(base, storage, processes, planner, clock=self.table.clock, sorts=True, **options)  # type: ignore[arg-type]

        def sort(slices: Sequence[FileSlice]) -> None:
            sort_slices(self.table, slices, lambda _: dispatcher, partial(sort_target, storage))

        self.work = LayoutWork(merge, sort, lambda _: dispatcher, partial(self._check_order, storage), sorted_at_once)

    def run(self, layout: str = "lsm_tree") -> LayoutChange:
        return change_layout(self.table, StorageLayout(layout), self.work)

    def preview(self, layout: str = "lsm_tree") -> LayoutChange:
        return preview_layout_change(self.table, StorageLayout(layout), self.work)

    def _check_order(self, storage: Storage, check: OrderCheck, task_attempt: int) -> FileOrder:
        self.read.append(check.path)
        return check_order(storage, check, task_attempt)
