"""On what work runs: each row of the table in the module's head, with its reason."""

from __future__ import annotations

import pytest

from lakeward.engine.dispatch.engine_rule import (
    COMMANDS_SPARK_BYTES,
    DAEMON_SPARK_BYTES,
    DAEMON_SPARK_UP_BYTES,
    IN_PROCESS_BELOW_BYTES,
    EngineRule,
    EngineSetting,
    GivenEngine,
    rule_of_commands,
    rule_of_daemon,
)
from lakeward.protocol.progress import Engine

MEMORY = 512 * 1024**2
HERE, PROCESSES, SPARK = Engine.IN_PROCESS, Engine.LOCAL, Engine.SPARK
AUTO, ALL_ON_SPARK, NONE_ON_SPARK = EngineSetting.AUTO, EngineSetting.SPARK, EngineSetting.LOCAL
MISSING = "No Java 17 or newer was found."


def of_daemon(setting: EngineSetting, *, is_named: bool = False, missing: str | None = None) -> EngineRule:
    return rule_of_daemon(
        setting,
        master="local[*]",
        is_named=is_named,
        why_no_spark=missing,
        memory_bytes=MEMORY,
        memory_limit_bytes=MEMORY,
    )


def of_commands(setting: EngineSetting, *, is_named: bool = False) -> EngineRule:
    given = GivenEngine(setting, f"--engine {setting}")
    return rule_of_commands(given, master="local[*]", is_named=is_named, memory_bytes=MEMORY)


@pytest.mark.parametrize(
    ("setting", "is_named", "missing", "cold", "up"),
    [
        (AUTO, False, None, (PROCESSES, PROCESSES, PROCESSES, SPARK), (PROCESSES, SPARK, SPARK, SPARK)),
        (AUTO, False, MISSING, (PROCESSES,) * 4, (PROCESSES,) * 4),
        (AUTO, True, None, (SPARK,) * 4, (SPARK,) * 4),
        (AUTO, True, MISSING, (SPARK,) * 4, (SPARK,) * 4),
        (ALL_ON_SPARK, False, MISSING, (SPARK,) * 4, (SPARK,) * 4),
        (NONE_ON_SPARK, False, None, (PROCESSES,) * 4, (PROCESSES,) * 4),
        (NONE_ON_SPARK, True, None, (PROCESSES,) * 4, (PROCESSES,) * 4),
    ],
)
def test_jobs_of_the_daemon(
    setting: EngineSetting,
    is_named: bool,
    missing: str | None,
    cold: tuple[Engine, ...],
    up: tuple[Engine, ...],
) -> None:
    """Nothing is merged in its own process; without Java only what was meant for Spark by name is. Keeps 2 of
    engine/dispatch/engine_rule."""
    rule = of_daemon(setting, is_named=is_named, missing=missing)
    sizes = (DAEMON_SPARK_UP_BYTES - 1, DAEMON_SPARK_UP_BYTES, DAEMON_SPARK_BYTES - 1, DAEMON_SPARK_BYTES)
    assert tuple(rule.choose(size).engine for size in sizes) == cold
    assert tuple(rule.choose(size, is_up=True).engine for size in sizes) == up


def test_a_job_for_which_a_session_was_started_runs_on_it() -> None:
    """It is asked again where it runs once its plan is written down. Keeps 3 of engine/dispatch/engine_rule."""
    for rule in (of_daemon(AUTO), of_commands(AUTO)):
        assert rule.spark_from_while_up <= rule.spark_from
        assert rule.choose(rule.spark_from, is_up=True).engine is SPARK


@pytest.mark.parametrize(
    ("setting", "is_named", "engines"),
    [
        (AUTO, False, (HERE, PROCESSES, PROCESSES, SPARK)),
        (AUTO, True, (SPARK,) * 4),
        (ALL_ON_SPARK, False, (SPARK,) * 4),
        (NONE_ON_SPARK, False, (HERE, PROCESSES, PROCESSES, PROCESSES)),
        (NONE_ON_SPARK, True, (HERE, PROCESSES, PROCESSES, PROCESSES)),
    ],
)
def test_plans_of_commands(setting: EngineSetting, is_named: bool, engines: tuple[Engine, ...]) -> None:
    """A session would be for one command alone. Keeps of engine/dispatch/engine_rule."""
    rule = of_commands(setting, is_named=is_named)
    sizes = (IN_PROCESS_BELOW_BYTES - 1, IN_PROCESS_BELOW_BYTES, COMMANDS_SPARK_BYTES - 1, COMMANDS_SPARK_BYTES)
    assert tuple(rule.choose(size).engine for size in sizes) == engines


@pytest.mark.parametrize(
    ("rule", "input_bytes", "is_up", "why"),
    [
        (of_daemon(AUTO), 2**20, False, "since it reads 1.0 MiB, less than 128.0 MiB"),
        (of_daemon(AUTO), 2**20, True, "since it reads 1.0 MiB, less than 8.0 MiB, while a session is up"),
        (of_daemon(AUTO), 2**30, False, "since it reads 1.0 GiB, no less than 128.0 MiB"),
        (of_daemon(AUTO), 2**24, True, "since it reads 16.0 MiB, no less than 8.0 MiB, while a session is up"),
        (
            of_daemon(AUTO, missing=MISSING),
            2**30,
            False,
            "since Spark cannot start: No Java 17 or newer was found",
        ),
        (of_daemon(AUTO, is_named=True), 1, False, "by the master that is named"),
        (of_daemon(ALL_ON_SPARK), 1, False, 'by service.engine = "spark"'),
        (of_daemon(NONE_ON_SPARK, is_named=True), 2**40, True, 'by service.engine = "local"'),
        (
            of_commands(AUTO),
            10,
            False,
            "since it reads 10 B, and below 64.0 MiB other processes take longer to start than they save",
        ),
        (of_commands(AUTO), 2**30, False, "since it reads 1.0 GiB, less than 16.0 GiB"),
        (of_commands(AUTO), 2**35, False, "since it reads 32.0 GiB, no less than 16.0 GiB"),
        (of_commands(ALL_ON_SPARK), 1, False, "by --engine spark"),
        (of_commands(NONE_ON_SPARK), 2**40, False, "by --engine local"),
    ],
)
def test_each_choice_has_its_reason(rule: EngineRule, input_bytes: int, is_up: bool, why: str) -> None:
    """`plan`, `explain` and each --dry-run show it. Keeps 1 of engine/dispatch/engine_rule."""
    assert rule.choose(input_bytes, is_up=is_up).why == why


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (
            of_daemon(AUTO),
            "Jobs that read 128.0 MiB or more run on Spark, from 8.0 MiB on while a session is up; smaller ones in "
            "processes of this machine.",
        ),
        (
            of_daemon(AUTO, missing=MISSING),
            "All jobs run in processes of this machine, since Spark cannot start: No Java 17 or newer was found.",
        ),
        (of_daemon(AUTO, is_named=True), "All jobs run on Spark, by the master that is named."),
        (of_daemon(ALL_ON_SPARK), 'All jobs run on Spark, by service.engine = "spark".'),
        (of_daemon(NONE_ON_SPARK), 'All jobs run in processes of this machine, by service.engine = "local".'),
    ],
)
def test_a_sentence_says_where_work_runs(rule: EngineRule, sentence: str) -> None:
    """The daemon's page shows it."""
    assert rule.where_work_runs == sentence
