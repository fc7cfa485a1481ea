"""Run by test_through_spark in a process of its own: one compaction on a cluster of two executors, with zombies.

python spark_session.py TABLE SCRATCH
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pyspark

REPOSITORY = str(Path(__file__).parents[2])
sys.path.insert(0, REPOSITORY)
# Executors are processes of their own: they must find the tests' task, and the same interpreter.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [REPOSITORY, os.environ.get("PYTHONPATH")]))
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from lakeward.base.clock import SystemClock  # noqa: E402
from lakeward.engine.dispatch.spark import SparkDispatcher  # noqa: E402
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions  # noqa: E402
from lakeward.protocol.options import CompactionOptions  # noqa: E402
from lakeward.protocol.owner import Processes  # noqa: E402
from lakeward.protocol.serviced_table import ServicedTable  # noqa: E402
from lakeward.services.compaction.run.compactor import Compactor  # noqa: E402
from lakeward.storage.local import LocalStorage  # noqa: E402
from tests.crash.compacting import FULL  # noqa: E402
from tests.crash.zombie_task import run_twice  # noqa: E402
from tests.engine.dispatch import tasks  # noqa: E402

table, scratch = sys.argv[1:]
spark = SparkDispatcher("local-cluster[2,1,1024]", {"spark.executor.memory": "1g"}, memory=tasks.MEMORY)
compactor = Compactor(
    ServicedTable.for_one_attempt(
        LocalStorage(),
        table,
        CompactionOptions(
            writers_stopped=True, lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=5.0), timezone="UTC"
        ),
        clock=SystemClock(),
        processes=Processes(),
    ),
    planner=FULL,
    choose_dispatcher=lambda input_bytes: spark,
    run_operation=partial(run_twice, scratch, table),
)
(plan,) = compactor.compact().plans
spark.stop()
print(f"{len(plan.operations)} operations, {plan.operations[0].file_name}")
