"""The table that a command services, for as long as it does: progress on standard error, Ctrl-C heard.

Import it inside of a command: it loads what servicing needs.

Touches: standard error, and the handler of SIGINT, while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.interrupts import interruptible
from lakeward.cli.options.compaction import compaction_options
from lakeward.cli.views.progress import open_view
from lakeward.cli.views.terminal import Terminal
from lakeward.config.settings import LockSettings
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable


@contextmanager
def serviced_table(
    opened: ConfiguredTable, locks: LockSettings, *, timezone: str | None = None
) -> Iterator[ServicedTable]:
    """One attempt of this process at the table.

    Args:
        timezone: as `--timezone` has it.
    """
    clock = SystemClock()
    with open_view(Terminal(stderr=True), clock) as view, interruptible() as guard:
        view.step(f"reading {opened.base_path}")
        yield ServicedTable.for_one_attempt(
            opened.storage,
            opened.base_path,
            compaction_options(opened, locks, timezone=timezone),
            clock=clock,
            processes=Processes(),
            observer=view,
            guard=guard,
        )
