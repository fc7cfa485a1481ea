"""What operations run on, by the plan's size, the options and the configuration."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from lakeward.cli.options.engine import CommandEngines, StatedEngine
from lakeward.config.settings import SparkSettings
from lakeward.dispatch.dispatcher import Engine
from lakeward.dispatch.engine_rule import IN_PROCESS_BELOW_BYTES, LOCAL_BELOW_BYTES
from lakeward.errors import UsageError

MEMORY = 512 * 1024**2
CLUSTER = SparkSettings(master="spark://elsewhere:7077")
SIZES = (IN_PROCESS_BELOW_BYTES - 1, IN_PROCESS_BELOW_BYTES, LOCAL_BELOW_BYTES - 1, LOCAL_BELOW_BYTES)
HERE, LOCAL, SPARK = Engine.IN_PROCESS, Engine.LOCAL, Engine.SPARK


def engines(stated: StatedEngine, configured: SparkSettings) -> CommandEngines:
    return stated.over(configured, memory_bytes=MEMORY)


@pytest.mark.parametrize(
    ("stated", "configured", "chosen"),
    [
        (StatedEngine(), SparkSettings(), (HERE, LOCAL, LOCAL, SPARK)),
        (StatedEngine(), CLUSTER, (SPARK, SPARK, SPARK, SPARK)),
        (StatedEngine(), SparkSettings(remote=SecretStr("sc://elsewhere")), (SPARK, SPARK, SPARK, SPARK)),
        (StatedEngine(), SparkSettings(local_below=IN_PROCESS_BELOW_BYTES), (HERE, SPARK, SPARK, SPARK)),
        (StatedEngine(master="local[1]"), SparkSettings(), (SPARK, SPARK, SPARK, SPARK)),
        (StatedEngine(master="local[1]", local_below="16GiB"), SparkSettings(), (HERE, LOCAL, LOCAL, SPARK)),
        (StatedEngine(local_below="0"), SparkSettings(), (SPARK, SPARK, SPARK, SPARK)),
        (StatedEngine(local=True), CLUSTER, (HERE, LOCAL, LOCAL, LOCAL)),
        (StatedEngine(local=False), SparkSettings(local_below=LOCAL_BELOW_BYTES), (SPARK, SPARK, SPARK, SPARK)),
    ],
)
def test_the_size_decides_unless_something_is_said(
    stated: StatedEngine, configured: SparkSettings, chosen: tuple[Engine, ...]
) -> None:
    """A master that is named is where the work belongs; --local and --spark win over all that is configured."""
    choosing = engines(stated, configured)
    assert tuple(choosing.choose(size).engine for size in SIZES) == chosen
    assert choosing.choose(SIZES[-1]) is choosing.choose(SIZES[-1] + 1), "one of each for all plans"


@pytest.mark.parametrize(
    "stated",
    [
        StatedEngine(local=True, local_below="1GiB"),
        StatedEngine(local=False, local_below="1GiB"),
        StatedEngine(local=True, master="local[1]"),
        StatedEngine(local=True, spark_conf=["spark.ui.enabled=true"]),
        StatedEngine(local_below="much"),
        StatedEngine(spark_conf=["spark.ui.enabled"]),
    ],
)
def test_options_that_contradict_each_other_are_refused(stated: StatedEngine) -> None:
    """Before the table is read."""
    with pytest.raises(UsageError):
        engines(stated, SparkSettings())


@pytest.mark.parametrize(
    ("stated", "configured", "input_bytes", "why"),
    [
        (StatedEngine(), SparkSettings(), 10, "since it reads 10 B, and below 64.0 MiB other processes"),
        (
            StatedEngine(),
            SparkSettings(),
            2**30,
            "by the default of spark.local_below: it reads 1.0 GiB, less than 16.",
        ),
        (
            StatedEngine(),
            SparkSettings(),
            2**35,
            "by the default of spark.local_below: it reads 32.0 GiB, no less than",
        ),
        (
            StatedEngine(),
            SparkSettings(local_below=2**20),
            2**20,
            "by spark.local_below: it reads 1.0 MiB, no less than",
        ),
        (
            StatedEngine(local_below="2GiB"),
            SparkSettings(local_below=1),
            2**30,
            "by --local-below: it reads 1.0 GiB, les",
        ),
        (
            StatedEngine(master="local[1]"),
            SparkSettings(),
            10,
            "by the master that is named, without spark.local_below",
        ),
        (StatedEngine(local=True), CLUSTER, 2**40, "by --local"),
        (StatedEngine(local=False), SparkSettings(), 10, "by --spark"),
    ],
)
def test_each_choice_has_its_reason(
    stated: StatedEngine, configured: SparkSettings, input_bytes: int, why: str
) -> None:
    """The option or setting that decides, and the sizes where these do. Keeps of dispatch/engine_rule."""
    rule = engines(stated, configured).rule
    assert rule.choose(input_bytes).why.startswith(why)
    assert rule.master == (stated.master or configured.master)
