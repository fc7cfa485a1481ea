"""What follows for Spark from the memory of an operation."""

from __future__ import annotations

import pytest

from lakeward.engine.dispatch.local import Places
from lakeward.engine.dispatch.spark_memory import SparkMemory

MIB = 1024 * 1024
MEMORY = SparkMemory.on(Places(8, 2048 * MIB), 512 * MIB)
YARN, KUBERNETES = {"spark.master": "yarn"}, {"spark.master": "k8s://https://somewhere"}
OVERHEAD = "spark.executor.memoryOverhead"
PYSPARK = "spark.executor.pyspark.memory"


@pytest.mark.parametrize(
    ("settings", "overhead"),
    [
        (YARN, "896m"),
        (KUBERNETES, "896m"),
        (YARN | {"spark.executor.cores": "4"}, "2432m"),
        (YARN | {"spark.executor.cores": "4", "spark.task.cpus": "2"}, "1408m"),
        (YARN | {"spark.executor.memory": "10g"}, "1536m"),
        (YARN | {"spark.executor.memory": "10240"}, "1536m"),
        (KUBERNETES | {"spark.kubernetes.memoryOverheadFactor": "0.5", "spark.executor.memory": "2g"}, "1536m"),
        (YARN | {"spark.executor.memoryOverheadFactor": "0.5", "spark.executor.memory": "2g"}, "1536m"),
        (YARN | {"spark.executor.minMemoryOverhead": "1g"}, "1536m"),
        (YARN | {PYSPARK: "256m"}, "640m"),
        (YARN | {PYSPARK: "64g"}, "384m"),
        (KUBERNETES | {PYSPARK: "256m"}, "896m"),
        (YARN | {"spark.executor.memory": "much"}, None),
        (YARN | {"spark.executor.memoryOverheadFactor": "much"}, None),
        (YARN | {OVERHEAD: "1m"}, None),
        ({"spark.master": "spark://somewhere:7077"}, None),
        ({"spark.master": "local[2]"}, None),
    ],
)
def test_the_overhead_holds_what_java_takes_and_all_workers(settings: dict[str, str], overhead: str | None) -> None:
    """It is derived for containers, unless the operator set it. Keeps 1, 2 of engine/dispatch/spark_memory."""
    assert MEMORY.derived(settings.get) == ({} if overhead is None else {OVERHEAD: overhead})
    assert MEMORY.shortfall((settings | MEMORY.derived(settings.get)).get) is None or settings.keys() & {
        OVERHEAD,
        PYSPARK,
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            KUBERNETES | {"spark.executor.cores": "2", OVERHEAD: "1g"},
            "spark.executor.memoryOverhead is 1.0 GiB, and an executor with 2 operations of 512.0 MiB at once needs "
            "1.4 GiB beside Java's heap. What is killed for it fails its attempt; leave it out to have it set, or give "
            "1408m.",
        ),
        (KUBERNETES | {"spark.executor.cores": "2", OVERHEAD: "1408m"}, None),
        ({"spark.master": "spark://somewhere:7077", OVERHEAD: "1m"}, None),
        (
            YARN | {OVERHEAD: "8g", PYSPARK: "4g", "spark.executor.cores": "4"},
            "spark.executor.pyspark.memory leaves each worker 1.0 GiB of addresses, of which an operation of 512.0 MiB "
            "may take 1.5 GiB. Leave it out: the operation holds itself to its memory.",
        ),
        (YARN | {OVERHEAD: "8g", PYSPARK: "6g", "spark.executor.cores": "4"}, None),
        (
            {"spark.master": "local[8]"},
            "local[8] runs 8 operations at once, which may take 4.0 GiB; 2.0 GiB is what they have here. local[4] or "
            "local[*] fits.",
        ),
        ({"spark.master": "local[4]"}, None),
        ({"spark.master": "local[8]", "spark.task.cpus": "2"}, None),
        ({"spark.master": "local"}, None),
    ],
)
def test_what_the_operator_set_too_low_is_said(settings: dict[str, str], said: str | None) -> None:
    """With what would be enough. Keeps 1 of engine/dispatch/spark_memory."""
    assert MEMORY.shortfall(settings.get) == said


def test_a_master_without_a_number_runs_as_many_as_have_memory() -> None:
    """Others are as they are said. Keeps 3 of engine/dispatch/spark_memory."""
    masters = ("local[*]", "local[*,3]", "local[8]", "local", "spark://local[*]", "yarn")
    assert tuple(map(MEMORY.local_master, masters)) == ("local[4]", "local[4,3]", *masters[2:])
