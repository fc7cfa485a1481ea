"""The options that say where operations run, and the engine that results
(`engine/dispatch/engine_rule`).

Touches: child processes, or a Spark session: once an operation needs them, and until `stop`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.errors import UsageError
from lakeward.base.printable import printable_url
from lakeward.cli.options.values import parse_pairs
from lakeward.cli.verb_help import SharedPanel
from lakeward.engine.dispatch.engine_rule import EngineRule, EngineSetting, GivenEngine, rule_of_commands
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.local import LocalDispatcher, places_of_machine, processes_of
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.engine.dispatch.spark_memory import SparkMemory
from lakeward.protocol.progress import Engine

if TYPE_CHECKING:
    from lakeward.config.settings import Settings, SparkSettings
    from lakeward.engine.dispatch.dispatcher import Dispatcher


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What a command line says about where operations run: a group of options."""

    engine: Annotated[
        EngineSetting | None,
        typer.Option(
            rich_help_panel=SharedPanel.ENGINE,
            help="Where the work runs. auto: small plans in this process, others in processes of this machine, one for "
            "each core, from 16 GiB on or where a master is named on Spark; spark: all on Spark; local: none.",
            show_default=False,
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SharedPanel.ENGINE,
            metavar="URL",
            help="Spark master that runs the operations; default local[*].",
        ),
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=SharedPanel.ENGINE,
            metavar="KEY=VALUE",
            help="A Spark setting. Repeatable.",
        ),
    ] = None

    def by_option(self) -> dict[str, object]:
        """What was given, by the option's name."""
        return {
            "--engine": self.engine,
            "--master": self.master,
            "--spark-conf": self.spark_conf,
        }

    def over(self, settings: Settings, *, memory_bytes: int) -> CommandEngines:
        """What is asked for here, and else in the configuration. Raises `UsageError`.

        Args:
            memory_bytes: peak memory of one operation.
        """
        if self.engine is EngineSetting.LOCAL and (self.master is not None or self.spark_conf):
            raise UsageError(
                "--master and --spark-conf do not go with --engine local.",
                why="With --engine local nothing runs on Spark.",
                remedy="Leave them or --engine local out.",
            )

        configured = settings.spark
        of_config = EngineSetting(settings.service.engine)
        given = GivenEngine(of_config, f'service.engine = "{of_config}"')
        if self.engine is not None:
            given = GivenEngine(self.engine, f"--engine {self.engine}")
        elif self.master is not None:
            given = GivenEngine(EngineSetting.AUTO, "--master")
        rule = rule_of_commands(
            given,
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
        chosen = self.rule.choose(input_bytes).engine
        if chosen is Engine.SPARK:
            return self.spark()
        if chosen is Engine.IN_PROCESS:
            return InProcessDispatcher()
        if self._local is None:
            self._local = LocalDispatcher(places_of_machine(), memory_bytes=self.rule.memory_bytes)
        return self._local

    def check(self) -> None:
        """Raises what would keep Spark from starting, where all plans are for it, before anything is begun."""
        if self.rule.setting is EngineSetting.SPARK:
            self.spark().check()

    def __enter__(self) -> CommandEngines:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._spark is not None:
            self._spark.stop()

    def spark(self, *, moves_rows: bool = False) -> SparkDispatcher:
        """The Spark that was asked for, or else configured; its session starts when it is needed.

        Args:
            moves_rows: whether rows will go through it, and not operations alone.
        """
        if self._spark is None:
            configured = self._configured
            remote = None if configured.remote is None or self._master else configured.remote.get_secret_value()
            self._spark = SparkDispatcher(
                self._master or configured.master,
                configured.conf | self._conf,
                memory=SparkMemory.on(places_of_machine(), self.rule.memory_bytes),
                remote=remote,
                moves_rows=moves_rows,
            )
        return self._spark


def engine_as_json(input_bytes: int, rule: EngineRule) -> dict[str, Any]:
    """On what work that reads so many bytes would run."""
    chosen = rule.choose(input_bytes)
    return {
        "input_bytes": input_bytes,
        "engine": chosen.engine.value,
        "processes": _processes(rule) if chosen.engine is Engine.LOCAL else None,
        "master": rule.master if chosen.engine is Engine.SPARK else None,
        "why": chosen.why,
    }


def describe_engine(input_bytes: int, rule: EngineRule) -> str:
    """The same, as the end of a sentence that says that the work runs."""
    chosen = rule.choose(input_bytes)
    where = {
        Engine.IN_PROCESS: "in the process of the command",
        Engine.LOCAL: f"in processes of this machine, {_processes(rule)} at once",
        Engine.SPARK: f"on Spark, {rule.master}",
    }[chosen.engine]
    return f"{where}, {chosen.why}"


def _processes(rule: EngineRule) -> int:
    return processes_of(rule.memory_bytes, limit_bytes=rule.memory_limit_bytes)
