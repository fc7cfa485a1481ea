"""Work in this process, behind the same interface."""

from __future__ import annotations

from lakeward.dispatch.dispatcher import Done, Failure, Progress
from lakeward.dispatch.in_process import InProcessDispatcher
from tests.dispatch import tasks


def test_outcomes_come_in_the_order_of_the_specs() -> None:
    """An error of ours is an outcome and does not stop the others."""
    seen: list[Progress] = []
    outcomes = InProcessDispatcher().run(tasks.fail_on_odd, [4, 5, 6], description="test", on_progress=seen.append)
    assert outcomes[0] == Done(0, 4)
    assert isinstance(outcomes[1], Failure)
    assert outcomes[2] == Done(2, 6)
    assert seen == [Progress(0, 3), Progress(1, 3), Progress(2, 3), Progress(3, 3)]
