"""The options by which a verb is told what its operations run on, and what they come to (`dispatch/engine_rule`).

Touches: child processes, or a Spark session: once an operation needs them, and until `stop`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.options.lock import parse_option
from lakeward.cli.options.pairs import parse_pairs
from lakeward.errors import UsageError
from lakeward.quantities import parse_size

if TYPE_CHECKING:
    from lakeward.config.settings import SparkSettings
    from lakeward.dispatch.dispatcher import Dispatcher
    from lakeward.dispatch.engine_rule import EngineRule
    from lakeward.dispatch.spark import SparkDispatcher


@dataclass(frozen=True, slots=True)
class StatedEngine:
    """What a command line says about where operations run: a group of options."""

    local: Annotated[
        bool | None,
        typer.Option(
            "--local/--spark",
            help="Run all plans in processes of this machine, one for each core, or all on Spark; else their size "
            "decides (--local-below).",
            show_default=False,
        ),
    ] = None
    local_below: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Run plans that read less than this on this machine instead of on Spark; default 16GiB, or 0 where a "
            "master is named.",
        ),
    ] = None
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master that runs the operations; default local[*].")
    ] = None
    spark_conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting. Repeatable.")] = (
        None
    )

    def by_option(self) -> dict[str, object]:
        """What was given, by the option's name."""
        return {
            "--local": self.local is True,
            "--spark": self.local is False,
            "--local-below": self.local_below,
            "--master": self.master,
            "--spark-conf": self.spark_conf,
        }

    def over(self, configured: SparkSettings, *, memory_bytes: int) -> CommandEngines:
        """What is asked for here, and else in the configuration. Raises `UsageError`.

        Args:
            memory_bytes: peak memory of one operation.
        """
        if self.local_below is not None and self.local is not None:
            raise UsageError(
                "--local-below goes with neither --local nor --spark.",
                why="They say the same for all plans.",
                remedy="Leave one of them out.",
            )
        if self.local and (self.master is not None or self.spark_conf):
            raise UsageError(
                "--master and --spark-conf do not go with --local.",
                why="With --local nothing runs on Spark.",
                remedy="Leave them or --local out.",
            )
        from lakeward.dispatch.engine_rule import ALL_BYTES, rule_of_commands
        from lakeward.printable import printable_url

        said: tuple[int, str] | None = None
        if self.local is not None:
            said = (ALL_BYTES, "--local") if self.local else (0, "--spark")
        elif self.local_below is not None:
            said = (parse_option(parse_size, "--local-below", self.local_below, 0), "--local-below")
        elif configured.local_below is not None:
            said = (configured.local_below, "spark.local_below")
        rule = rule_of_commands(
            said,
            master=configured.where if self.master is None else printable_url(self.master),
            is_named=self.master is not None or configured.is_named,
            memory_bytes=memory_bytes,
        )
        return CommandEngines(configured, rule, self.master, parse_pairs(self.spark_conf, like=_LIKE))


_LIKE = "--spark-conf spark.executor.memory=2g"


class CommandEngines:
    """Each is started with the first plan that is for it."""

    def __init__(self, configured: SparkSettings, rule: EngineRule, master: str | None, conf: dict[str, str]) -> None:
        self.rule = rule
        self._configured = configured
        self._master = master
        self._conf = conf
        self._spark: SparkDispatcher | None = None
        self._local: Dispatcher | None = None

    def choose(self, input_bytes: int) -> Dispatcher:
        """The dispatcher for a plan that reads so many bytes."""
        from lakeward.dispatch.dispatcher import Engine

        chosen = self.rule.choose(input_bytes).engine
        if chosen is Engine.SPARK:
            return self.spark()
        if chosen is Engine.IN_PROCESS:
            from lakeward.dispatch.in_process import InProcessDispatcher

            return InProcessDispatcher()
        if self._local is None:
            from lakeward.dispatch.local import LocalDispatcher, places_of_machine

            self._local = LocalDispatcher(places_of_machine(), memory_bytes=self.rule.memory_bytes)
        return self._local

    def check(self) -> None:
        """Raises what would keep Spark from starting, where all plans are for it, before anything is begun."""
        if self.rule.local_below == 0:
            self.spark().check()

    def stop(self) -> None:
        if self._spark is not None:
            self._spark.stop()

    def spark(self, *, moves_rows: bool = False) -> SparkDispatcher:
        """The Spark that was asked for, or else configured; its session starts when it is needed.

        Args:
            moves_rows: whether rows will go through it, and not operations alone.
        """
        if self._spark is None:
            from lakeward.dispatch.local import places_of_machine
            from lakeward.dispatch.spark import SparkDispatcher
            from lakeward.dispatch.spark_memory import SparkMemory

            configured = self._configured
            remote = None if configured.remote is None or self._master else configured.remote.get_secret_value()
            self._spark = SparkDispatcher(
                self._master or configured.master,
                configured.conf | self._conf,
                memory=SparkMemory.on(places_of_machine(), self.rule.memory_bytes),
                pool=configured.pool,
                remote=remote,
                moves_rows=moves_rows,
            )
        return self._spark
