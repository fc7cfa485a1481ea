"""How rows get from the input to the handles, whatever carries them.

    tag       rows are keyed, tagged and counted
    write     they are brought together by target, sorted by (key as UTF-8, place in the input), and handed to handles
    close     what was kept of them goes

Touches: what the implementations touch.
Keeps:   all rows of a key and place go to one target, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lakeward.engine.dispatch.dispatcher import Progress
from lakeward.write.flow.row_keys import Keying
from lakeward.write.tagging.tagging_kinds import Tagging
from lakeward.write.target import Assignment, TargetResult, Workload, WriteContext


class Flow(Protocol):
    """Made with its input, and asked again where a write begins again."""

    def tag(self, keying: Keying, tagging: Tagging, *, on_progress: Callable[[Progress], None]) -> Workload:
        """How many rows there are for each partition and place. What `on_progress` raises ends it.

        Raises `Conflict` where it had read the input with another keying.
        """

    def write(
        self, context: WriteContext, assignment: Assignment, *, on_progress: Callable[[Progress], None]
    ) -> list[TargetResult]:
        """One result for each target that got rows, by index. Raises the first failure of a target."""

    def close(self) -> None:
        """Let go of the rows; may be called at any time, and again."""
