"""Run by test_spark in a process of its own, since a process has one Spark master: two executors on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

REPOSITORY = str(Path(__file__).parents[2])
sys.path.insert(0, REPOSITORY)
# Executors are processes of their own: they must find the tests' tasks, and the same interpreter.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [REPOSITORY, os.environ.get("PYTHONPATH")]))
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from lakeward.dispatch.dispatcher import Done  # noqa: E402
from lakeward.dispatch.spark import SparkDispatcher  # noqa: E402
from tests.dispatch import tasks  # noqa: E402

dispatcher = SparkDispatcher("local-cluster[2,1,1024]", {"spark.executor.memory": "1g"}, memory=tasks.MEMORY)
dispatcher.probe()
outcomes = dispatcher.run(tasks.which_process, list(range(6)), description="who", on_progress=lambda progress: None)
executors = {outcome.result[1] for outcome in outcomes if isinstance(outcome, Done)}
retried = dispatcher.run(tasks.fail_at_first, [sys.argv[1]], description="retry", on_progress=lambda progress: None)
assert isinstance(retried[0], Done)
dispatcher.stop()
print(f"{len(executors)} executors, retried as attempt {retried[0].result}")
