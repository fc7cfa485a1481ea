"""The archive for executors: what it holds, and an executor that lives on it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from deploy.executor_env import SPARK, without
from tests.deploy.tools import PROJECT, run


def test_spark_is_left_out_and_nothing_else() -> None:
    """Executors have their own Spark; every other entry of the lock stays as it is, with its hashes."""
    lock = (PROJECT / "requirements-run.lock").read_text()
    kept = without(lock, SPARK)
    assert [line for line in lock.splitlines() if line not in kept.splitlines() and "==" in line] == [
        line for line in lock.splitlines() if line.startswith(("py4j==", "pyspark=="))
    ]
    assert kept.count("--hash") < lock.count("--hash")
    assert kept.startswith(lock[:20])


@pytest.mark.slow
@pytest.mark.wide
@pytest.mark.timeout(600)
def test_an_executor_lives_on_the_archive(tmp_path: Path) -> None:
    """A bare Python with the archive and Spark passes the probe of versions."""
    archive = tmp_path / "env.tar.gz"
    subprocess.run([sys.executable, "-m", "deploy.executor_env", "--output", archive], cwd=PROJECT, check=True)
    with tarfile.open(archive) as packed:
        paths = packed.getnames()
    names = {path.split("/")[0] for path in paths}
    assert {"lakeward", "pyarrow", "numba", "fastavro"} <= names
    assert "lakeward/compiled/made-for" in paths
    assert not names & set(SPARK)
    bare = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    cluster = PROJECT / "tests" / "deploy" / "archive_cluster.py"
    assert "the driver's versions" in run(sys.executable, cluster, archive, bare)
