"""On what a plan runs, by how much it reads, and why.

    reads < in_process_below    in the process that plans; commands only
    reads < local_below         in processes of this machine, one a core
    else                        on Spark

Touches: nothing.
Keeps:   what is said wins over what a named master and the default say.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.dispatch.dispatcher import Engine
from lakeward.quantities import format_size

IN_PROCESS_BELOW_BYTES = 64 * 1024**2
"""What one core merges in the time in which two processes have started and merged half of it each
(benchmarks/README.md)."""
LOCAL_BELOW_BYTES = 16 * 1024**3
"""Spark on this machine is never done sooner than processes of it are; from here on its start is less than a hundredth
of the work (benchmarks/README.md)."""
ALL_BYTES = 2**63
"""More than any plan reads."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    engine: Engine
    why: str
    """What goes on a sentence that says on what the plan runs."""


@dataclass(frozen=True, slots=True)
class EngineRule:
    in_process_below: int
    """Bytes; so the other."""
    local_below: int
    said_by: str
    """The option or setting that says `local_below`, or what it follows from."""
    master: str
    """The Spark that is meant, as it may be printed."""
    memory_bytes: int
    """Peak memory of one operation."""
    memory_limit_bytes: int | None = None
    """What all operations on this machine may take; None: what the machine has."""

    def choose(self, input_bytes: int) -> EngineChoice:
        """What a plan that reads so many bytes runs on."""
        reads, below = f"it reads {format_size(input_bytes)}", format_size(self.local_below)
        if input_bytes >= self.local_below:
            more = "" if self.local_below == 0 else f": {reads}, no less than {below}"
            return EngineChoice(Engine.SPARK, f"by {self.said_by}{more}")
        if input_bytes < self.in_process_below:
            bound = format_size(self.in_process_below)
            return EngineChoice(
                Engine.IN_PROCESS,
                f"since {reads}, and below {bound} other processes take longer to start than they save",
            )
        more = "" if self.local_below == ALL_BYTES else f": {reads}, less than {below}"
        return EngineChoice(Engine.LOCAL, f"by {self.said_by}{more}")

    @property
    def for_spark(self) -> str:
        """Which plans Spark is for, and what says so."""
        plans = "all plans" if self.local_below == 0 else f"plans of {format_size(self.local_below)} and more"
        return f"for {plans}, by {self.said_by}"


def rule_of_commands(
    local_below: tuple[int, str] | None, *, master: str, is_named: bool, memory_bytes: int
) -> EngineRule:
    """The rule of a command.

    Args:
        local_below: what options or the configuration say, and which of them; None: nothing.
        is_named: the master was named, and is not the default.
    """
    below, said_by = local_below or _unless_said(is_named)
    return EngineRule(IN_PROCESS_BELOW_BYTES, below, said_by, master, memory_bytes)


def rule_of_daemon(
    local_below: int | None, *, master: str, is_named: bool, memory_bytes: int, memory_limit_bytes: int
) -> EngineRule:
    """The rule of a daemon, by its settings. It merges nothing in its own process, which all tables share."""
    below, said_by = _unless_said(is_named) if local_below is None else (local_below, "spark.local_below")
    return EngineRule(0, below, said_by, master, memory_bytes, memory_limit_bytes)


def _unless_said(is_named: bool) -> tuple[int, str]:
    if is_named:
        return 0, "the master that is named, without spark.local_below"
    return LOCAL_BELOW_BYTES, "the default of spark.local_below"
