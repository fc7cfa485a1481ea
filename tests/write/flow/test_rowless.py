"""A write without rows of its own: the results and the failures of its tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.engine.dispatch.dispatcher import Progress
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.write.flow.rowless import RowlessFlow
from lakeward.write.target import Assignment, HandleKind, TargetResult, WriteContext, WriteTarget

CONTEXT = cast(WriteContext, SimpleNamespace(instant="20260101000000000"))
TARGETS = Assignment(tuple(WriteTarget(at, HandleKind.MERGE, "p", f"g{at}") for at in range(3)), {})


def nothing(progress: Progress) -> None:
    pass


def test_each_target_has_its_result() -> None:
    """In the order of the targets, with other items than these, too."""

    def task(context: WriteContext, item: str, attempt: int) -> TargetResult:
        return TargetResult(int(item), context.instant, ())

    flow = RowlessFlow(InProcessDispatcher(), task, lambda of: [str(each.index) for each in of.targets], description="")
    found = flow.write(CONTEXT, TARGETS, on_progress=nothing)
    assert [(each.index, each.partition_path) for each in found] == [(at, CONTEXT.instant) for at in range(3)]


def test_the_first_failure_names_its_file_group() -> None:
    """The others are beside it, each with its own."""

    def task(context: WriteContext, target: WriteTarget, attempt: int) -> TargetResult:
        if target.index:
            raise BrokenFile(f"{target.file_id} is broken.")
        return TargetResult(target.index, "p", ())

    flow = RowlessFlow(InProcessDispatcher(), task, lambda of: of.targets, description="")
    with pytest.raises(BrokenFile, match="g1 is broken") as raised:
        flow.write(CONTEXT, TARGETS, on_progress=nothing)
    assert raised.value.file_group == ("p", "g1")
    assert [error.file_group for error in raised.value.beside] == [("p", "g2")]
