"""Run by test_spark_event_log in a process of its own: one job on a Spark that was given secrets in its settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

REPOSITORY = str(Path(__file__).parents[3])
sys.path.insert(0, REPOSITORY)
# Workers must find the tests' tasks.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [REPOSITORY, os.environ.get("PYTHONPATH")]))

from lakeward.engine.dispatch.spark import SparkDispatcher  # noqa: E402
from tests.engine.dispatch import tasks  # noqa: E402

os.environ["AWS_SESSION_TOKEN"] = "c4n4ry-variable"
dispatcher = SparkDispatcher(
    "local[2]",
    {
        "spark.driver.memory": "512m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": Path(sys.argv[1]).as_uri(),
        "spark.hadoop.fs.s3a.access.key": "c4n4ry-access",
        "spark.hadoop.fs.s3a.secret.key": "c4n4ry-secret",
        "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net": "c4n4ry-account",
        "spark.hadoop.fs.azure.sas.lake.acc.blob.core.windows.net": "c4n4ry-sas",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY": "c4n4ry-environment",
    },
    memory=tasks.MEMORY,
)
dispatcher.run(tasks.double, [1, 2], description="two tasks", on_progress=lambda progress: None)
dispatcher.stop()
