"""Options that say where the tasks of an index build run, and what these verbs report of them.

Touches: the folder of the build; processes of this machine or a Spark session, by `cli/options/engine`; the store, by
         `remembered_build`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_size, parse_size
from lakeward.cli.index.remembered_build import remembered_build
from lakeward.cli.interrupts import interruptible
from lakeward.cli.options.engine import StatedEngine
from lakeward.cli.options.lock import parse_option
from lakeward.cli.views.engines import engine_as_json, engine_told
from lakeward.index.build_state import build_under_way
from lakeward.protocol.progress import Pace

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.engine.dispatch.engine_rule import EngineRule
    from lakeward.index.build_state import BuildState
    from lakeward.index.index_type import IndexType
    from lakeward.services.indexing.run.build_work import BuildWork
    from lakeward.table.snapshot import TableSnapshot

ByteRateOption = Annotated[
    str | None,
    typer.Option(
        "--bytes-per-second",
        metavar="SIZE",
        help="Read at most so much of the table per second, all tasks together; default no limit.",
    ),
]


@dataclass(frozen=True, slots=True)
class StatedBuild:
    """What a command line says of how the keys of the table are read."""

    engine: StatedEngine
    bytes_per_second: str | None

    @property
    def is_said(self) -> bool:
        return any((*self.engine.by_option().values(), self.bytes_per_second))

    def rule(self, opened: ConfiguredTable) -> EngineRule:
        return self.engine.over(opened.settings, memory_bytes=opened.table.memory).rule

    @contextmanager
    def work(
        self, opened: ConfiguredTable, kind: IndexType, folder: str, on_step: Callable[[str, int, int], None]
    ) -> Iterator[BuildWork]:
        """The work of one build. Raises `UsageError`."""
        from lakeward.engine.task.entry import make_checkpoint_at
        from lakeward.services.indexing.run.build_work import BuildWork

        rate = parse_option(_parse_rate, "--bytes-per-second", self.bytes_per_second, None)
        clock = SystemClock()
        engines = self.engine.over(opened.settings, memory_bytes=opened.table.memory)
        engines.check()
        read, pace = "", Pace()

        def on_read(read_bytes: int) -> None:
            nonlocal read
            rate = pace.rate(clock.monotonic(), read_bytes)
            read = f", {format_size(read_bytes)}" + ("" if rate is None else f", {format_size(rate)}/s")

        def on_group(done: int, of: int) -> None:
            on_step(f"read the keys of {{}} of {{}} file groups{read}", done, of)

        try:
            with interruptible() as guard, remembered_build(opened, kind, clock) as on_state:
                yield BuildWork(
                    folder,
                    engines.choose,
                    partial(make_checkpoint_at, opened.base_path),
                    memory_bytes=opened.table.memory,
                    bytes_per_second=rate,
                    clock=clock,
                    guard=guard,
                    on_group=on_group,
                    on_read=on_read,
                    on_state=on_state,
                )
        finally:
            engines.stop()


def _parse_rate(text: str) -> int | None:
    rate = parse_size(text)
    if not rate:
        raise ValueError("Nothing would ever be read.")
    return rate


def under_way_told(opened: ConfiguredTable, snapshot: TableSnapshot, folder: str) -> str:
    """A sentence on a build that is under way, or was stopped; empty where nothing is there of any."""
    found = build_under_way(opened.storage, snapshot, folder)
    return "" if found is None else f" {found.told(SystemClock().now())}"


def state_as_json(state: BuildState, rule: EngineRule) -> dict[str, Any]:
    """What a build would read."""
    return {
        "file_groups": len(state.slices),
        "file_groups_read": len(state.made),
        "bytes": state.bytes,
        **engine_as_json(state.bytes_missing, rule),
    }


def state_told(state: BuildState, rule: EngineRule) -> str:
    number, size = len(state.missing), state.bytes_missing
    told = f"Would read the keys of {number:,} file group{'' if number == 1 else 's'}, of {format_size(size)}, "
    told += f"{engine_told(size, rule)}."
    if state.made:
        told += f" What {len(state.made):,} others hold is there from a build that was stopped."
    return told
