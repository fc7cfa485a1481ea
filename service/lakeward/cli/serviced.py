"""The table that a command services, for as long as it does: progress on standard error, and Ctrl-C is heard, also
where Python loses its `KeyboardInterrupt`.

    SIGINT -> KeyboardInterrupt, wherever the main thread is -> the attempt is rolled back
           -> remembered -> the guard raises `Cancelled` at the next fence or report of progress

2026-11-22: of 500 compactions that were interrupted at a random moment one committed and ended with 0. Its SIGINT came
while a thread object was collected: what is raised in a weak reference's callback, in `__del__`, or in a callback that
C calls, is printed and goes no further. Another's came inside a library in C, and left it as a SystemError.

Touches: standard error, and the handler of SIGINT, in the main thread, as long as it lasts.
Keeps:   1. after SIGINT nothing more is published, whatever happened to its exception;
         2. a process that was started with SIGINT ignored, as a shell script's `&` does, goes on ignoring it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Cancelled
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.progress import open_view
from lakeward.cli.terminal import Terminal
from lakeward.config.settings import LockSettings, Writers
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.table.listing_source import listing_source


@contextmanager
def serviced_table(opened: ConfiguredTable, options: LockSettings | CompactionOptions) -> Iterator[ServicedTable]:
    """One attempt of this process at the table.

    Args:
        options: those of the whole attempt, or the locks beside which the configuration says the others.
    """
    clock = SystemClock()
    with open_view(Terminal(stderr=True), clock) as view, interruptible() as guard:
        view.step(f"reading {opened.base_path}")
        yield ServicedTable.for_one_attempt(
            opened.storage,
            opened.base_path,
            options if isinstance(options, CompactionOptions) else compaction_options(opened, options),
            clock=clock,
            processes=Processes(),
            observer=view,
            guard=guard,
        )


@contextmanager
def interruptible() -> Iterator[Guard]:
    """Gives the guard for the work that is done meanwhile."""
    heard = False

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        heard = True
        signal.default_int_handler(number, frame)

    def guard() -> None:
        if heard:
            raise Cancelled("Interrupted.")

    is_own = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_own:
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield guard
    except SystemError as error:  # how an extension in C ends on an exception that it did not expect
        if heard:
            raise Cancelled("Interrupted.") from error
        raise
    finally:
        if is_own:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def judge_of(opened: ConfiguredTable, locks: LockSettings) -> Judge:
    """Decides which pending services are dead."""
    stopped = locks.writers is Writers.STOPPED
    place = (opened.storage, opened.base_path, SystemClock(), Processes())
    return Judge(*place, opened.table.silent_after, writers_stopped=stopped)


def compaction_options(opened: ConfiguredTable, locks: LockSettings) -> CompactionOptions:
    """What the configuration says of the table; a command replaces what its own options say otherwise."""
    table = opened.table
    return CompactionOptions(
        writers_stopped=locks.writers is Writers.STOPPED,
        lock=locks.options,
        yielding=locks.yielding,
        silent_after=table.silent_after,
        timezone=table.timezone,
        listing=listing_source(opened.base_path),
        codec=table.codec.value,
        verify=table.verify,
        memory_bytes=table.memory,
    )
