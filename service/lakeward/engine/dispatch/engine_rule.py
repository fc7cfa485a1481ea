"""On what a job or a plan runs, by what is said and by how much it reads, and why.

                                     commands                              daemon
    engine local                     this process, or processes            processes
    engine spark, a master named     Spark                                 Spark
    engine auto, Spark cannot start  by size                               processes
    engine auto, by size             reads < 64 MiB    this process        reads < bound    processes
                                     reads < 16 GiB    processes           else             Spark
                                     else              Spark               (the bound is lower while a session is up)

Touches: nothing.
Keeps:   1. what an option says wins over what the configuration says, and either over a master that is named;
         2. a command merges small plans in its own process, a daemon none;
         3. a job for which a session was started runs on it: no bound is higher while one is up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.quantities import format_size
from lakeward.protocol.progress import Engine

IN_PROCESS_BELOW_BYTES = 64 * 1024**2
"""What one core merges in the time in which two processes have started and merged half of it each
(benchmarks/README.md)."""
COMMANDS_SPARK_BYTES = 16 * 1024**3
"""A command starts a session for itself alone. On this machine that is never done sooner than processes of it are; from
here on its start is less than a hundredth of the work (benchmarks/README.md)."""
DAEMON_SPARK_BYTES = 128 * 1024**2
"""A session starts in some 5 s, in which two cores merge 200 MB: the first job of this size takes two to three times as
long, once, and the jobs that follow find the session up (benchmarks/README.md)."""
DAEMON_SPARK_UP_BYTES = 8 * 1024**2
"""The same while a session is up: it begins a job as soon as processes do, after 0.4 s, in which one core merges this.
With no bound, jobs of many small tables would keep a session up for ever."""


class EngineSetting(StrEnum):
    """What an operator says about where work runs."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    engine: Engine
    why: str
    """What goes on a sentence that says on what the plan runs."""


@dataclass(frozen=True, slots=True)
class EngineRule:
    setting: EngineSetting
    """What follows from all that is said; `auto`: the size decides."""
    said_by: str
    """What goes on a sentence that says that all work runs there; empty where the size decides."""
    in_process_below: int
    """Bytes; so the others."""
    spark_from: int
    spark_from_while_up: int
    """The same while a session is up."""
    master: str
    """The Spark that is meant, as it may be printed."""
    memory_bytes: int
    """Peak memory of one operation."""
    memory_limit_bytes: int | None = None
    """What all operations on this machine may take; None: what the machine has."""

    def choose(self, input_bytes: int, *, is_up: bool = False) -> EngineChoice:
        """What work that reads so many bytes runs on.

        Args:
            is_up: a session of Spark is running.
        """
        if self.setting is EngineSetting.SPARK:
            return EngineChoice(Engine.SPARK, self.said_by)
        reads = f"since it reads {format_size(input_bytes)}"
        by_size = self.setting is EngineSetting.AUTO
        bound = self.spark_from_while_up if is_up else self.spark_from
        while_up = ", while a session is up" if is_up and bound != self.spark_from else ""
        if by_size and input_bytes >= bound:
            return EngineChoice(Engine.SPARK, f"{reads}, no less than {format_size(bound)}{while_up}")
        if input_bytes < self.in_process_below:
            below = format_size(self.in_process_below)
            return EngineChoice(
                Engine.IN_PROCESS, f"{reads}, and below {below} other processes take longer to start than they save"
            )
        less = f"{reads}, less than {format_size(bound)}{while_up}"
        return EngineChoice(Engine.LOCAL, less if by_size else self.said_by)

    @property
    def where_work_runs(self) -> str:
        """A sentence on all jobs of a daemon."""
        if self.setting is EngineSetting.SPARK:
            return f"All jobs run on Spark, {self.said_by}."
        if self.setting is EngineSetting.LOCAL:
            return f"All jobs run in processes of this machine, {self.said_by}."
        return (
            f"Jobs that read {format_size(self.spark_from)} or more run on Spark, from "
            f"{format_size(self.spark_from_while_up)} on while a session is up; smaller ones in processes of this "
            "machine."
        )


@dataclass(frozen=True, slots=True)
class GivenEngine:
    setting: EngineSetting
    said_by: str
    """The option or the key that says it."""


def rule_of_commands(given: GivenEngine, *, master: str, is_named: bool, memory_bytes: int) -> EngineRule:
    """The rule of a command.

    Args:
        is_named: the master was named, and is not the default.
    """
    setting, said_by = _in_force(given, is_named=is_named)
    bound = COMMANDS_SPARK_BYTES
    return EngineRule(setting, said_by, IN_PROCESS_BELOW_BYTES, bound, bound, master, memory_bytes)


def rule_of_daemon(
    setting: EngineSetting,
    *,
    master: str,
    is_named: bool,
    why_no_spark: str | None,
    memory_bytes: int,
    memory_limit_bytes: int,
) -> EngineRule:
    """The rule of a daemon, by its settings. It merges nothing in its own process, which all tables share.

    Args:
        why_no_spark: why a session cannot be started here; None where it probably can.
    """
    setting, said_by = _in_force(GivenEngine(setting, f'service.engine = "{setting}"'), is_named=is_named)
    if setting is EngineSetting.AUTO and why_no_spark is not None:
        setting, said_by = EngineSetting.LOCAL, f"since Spark cannot start: {why_no_spark.rstrip('.')}"
    return EngineRule(
        setting,
        said_by,
        0,
        DAEMON_SPARK_BYTES,
        DAEMON_SPARK_UP_BYTES,
        master,
        memory_bytes,
        memory_limit_bytes,
    )


def _in_force(given: GivenEngine, *, is_named: bool) -> tuple[EngineSetting, str]:
    if given.setting is not EngineSetting.AUTO:
        return given.setting, f"by {given.said_by}"
    if is_named:
        return EngineSetting.SPARK, "by the master that is named"
    return EngineSetting.AUTO, ""
