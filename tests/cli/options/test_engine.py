"""What operations run on, by the plan's size, the options and the configuration."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from lakeward.base.errors import UsageError
from lakeward.cli.main import run
from lakeward.cli.options.engine import CommandEngines, EngineArguments
from lakeward.config.settings import ServiceSettings, Settings, SparkSettings
from lakeward.engine.dispatch.engine_rule import COMMANDS_SPARK_BYTES, IN_PROCESS_BELOW_BYTES, EngineSetting
from lakeward.protocol.progress import Engine

MEMORY = 512 * 1024**2
DEFAULTS = Settings()
CLUSTER = Settings(spark=SparkSettings(master="spark://elsewhere:7077"))
CONNECT = Settings(spark=SparkSettings(remote=SecretStr("sc://elsewhere")))
ON_SPARK = Settings(service=ServiceSettings(engine="spark"))
NOT_ON_SPARK = Settings(service=ServiceSettings(engine="local"))
SIZES = (IN_PROCESS_BELOW_BYTES - 1, IN_PROCESS_BELOW_BYTES, COMMANDS_SPARK_BYTES - 1, COMMANDS_SPARK_BYTES)
BY_SIZE = (Engine.IN_PROCESS, Engine.LOCAL, Engine.LOCAL, Engine.SPARK)
ALL = (Engine.SPARK,) * 4
NONE = (Engine.IN_PROCESS, Engine.LOCAL, Engine.LOCAL, Engine.LOCAL)


def engines(given: EngineArguments, configured: Settings) -> CommandEngines:
    return given.over(configured, memory_bytes=MEMORY)


@pytest.mark.parametrize(
    ("given", "configured", "chosen", "why"),
    [
        (EngineArguments(), DEFAULTS, BY_SIZE, "since it reads"),
        (EngineArguments(), CLUSTER, ALL, "by the master that is named"),
        (EngineArguments(), CONNECT, ALL, "by the master that is named"),
        (EngineArguments(), ON_SPARK, ALL, 'by service.engine = "spark"'),
        (EngineArguments(), NOT_ON_SPARK, NONE, 'by service.engine = "local"'),
        (EngineArguments(master="local[1]"), DEFAULTS, ALL, "by the master that is named"),
        (EngineArguments(master="local[1]"), NOT_ON_SPARK, ALL, "by the master that is named"),
        (EngineArguments(EngineSetting.AUTO, master="local[1]"), DEFAULTS, ALL, "by the master that is named"),
        (EngineArguments(EngineSetting.AUTO), ON_SPARK, BY_SIZE, "since it reads"),
        (EngineArguments(EngineSetting.LOCAL), CLUSTER, NONE, "by --engine local"),
        (EngineArguments(EngineSetting.SPARK), NOT_ON_SPARK, ALL, "by --engine spark"),
    ],
)
def test_the_size_decides_unless_something_is_said(
    given: EngineArguments, configured: Settings, chosen: tuple[Engine, ...], why: str
) -> None:
    """A master that is named is where the work belongs; an option wins over all that is configured. Keeps 1 of
    engine/dispatch/engine_rule."""
    choosing = engines(given, configured)
    assert tuple(choosing.choose(size).engine for size in SIZES) == chosen
    assert choosing.choose(SIZES[-1]) is choosing.choose(SIZES[-1] + 1), "one of each for all plans"
    assert choosing.rule.choose(SIZES[-1]).why.startswith(why)
    assert choosing.rule.master == (given.master or configured.spark.where)


@pytest.mark.parametrize(
    "given",
    [
        EngineArguments(EngineSetting.LOCAL, master="local[1]"),
        EngineArguments(EngineSetting.LOCAL, spark_conf=["spark.ui.enabled=true"]),
        EngineArguments(spark_conf=["spark.ui.enabled"]),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: EngineArguments) -> None:
    """Before the table is read."""
    with pytest.raises(UsageError):
        engines(given, DEFAULTS)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("compact", "TABLE", "--local"), "There is no option --local any more.\nWrite --engine local."),
        (("write", "TABLE", "--spark"), "There is no option --spark any more.\nWrite --engine spark."),
        (
            ("service", "TABLE", "--local-below", "1GiB"),
            "There is no option --local-below any more.\nWrite --engine local, spark or auto.",
        ),
        (
            ("index", "build", "TABLE", "--local-below=0"),
            "There is no option --local-below any more.\nWrite --engine local, spark or auto.",
        ),
        (("inspect", "TABLE", "--local"), "No such option: --local\n"),
    ],
)
def test_options_of_before_name_what_to_write(
    words: tuple[str, ...], error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error says so where the verb takes what is in their place."""
    assert run(list(words)) == 2
    assert error in capfd.readouterr().err
