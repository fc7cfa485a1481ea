"""Run by test_executor_env in a process of its own: an executor whose packages come from the archive alone."""

from __future__ import annotations

import os
import sys

import pyspark

# An interpreter without our packages; what its workers import can only be the archive's, or Spark's own.
os.environ["PYSPARK_PYTHON"] = sys.argv[2]
os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ.pop("PYTHONPATH", None)

from lakeward.dispatch.spark import SparkDispatcher
from lakeward.dispatch.spark_memory import SparkMemory

dispatcher = SparkDispatcher(
    "local-cluster[1,1,1024]",
    {
        "spark.archives": f"{sys.argv[1]}#lakeward",
        "spark.executorEnv.PYTHONPATH": "./lakeward",
        "spark.executor.memory": "1g",
    },
    memory=SparkMemory(operation_bytes=1, here_bytes=1, here_at_once=1),
)
try:
    dispatcher.probe()
finally:
    dispatcher.stop()
print("the executor has the driver's versions")
