"""What the archive for executors is made of. That they live on it is seen by tests/interop/test_cluster.py."""

from __future__ import annotations

from deploy.executor_env import SPARK, without
from tests.deploy.tools import PROJECT


def test_spark_is_left_out_and_nothing_else() -> None:
    """Executors have their own Spark; every other entry of the lock stays as it is, with its hashes."""
    lock = (PROJECT / "requirements-run.lock").read_text()
    kept = without(lock, SPARK)
    assert [line for line in lock.splitlines() if line not in kept.splitlines() and "==" in line] == [
        line for line in lock.splitlines() if line.startswith(("py4j==", "pyspark=="))
    ]
    assert kept.count("--hash") < lock.count("--hash")
    assert kept.startswith(lock[:20])
