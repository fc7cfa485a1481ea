"""A smoke test of Spark Connect, run where its extra is installed: it is no part of the matrix."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from lakeward.base.errors import UsageError
from lakeward.engine.dispatch.java import ensure_java
from lakeward.engine.dispatch.spark import SparkDispatcher
from tests.engine.dispatch import tasks

HAS_CONNECT = all(importlib.util.find_spec(name) is not None for name in ("grpc", "grpc_status"))
CONNECT_JAR = "org.apache.spark:spark-connect_2.12:3.5.7"
"""The newest of its line that could be fetched; the runtime's own patch level need not be the same."""
REPOSITORY = str(Path(__file__).parents[3])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A Connect server as a child process; its jar comes through Spark's own packages."""
    ensure_java()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join(filter(None, [REPOSITORY, os.environ.get("PYTHONPATH")]))
    with (tmp_path / "server.log").open("w") as log:
        child = subprocess.Popen(
            [
                str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *("--packages", CONNECT_JAR),
                *("--master", "local[2]"),
                *("--conf", f"spark.connect.grpc.binding.port={port}"),
                *("--conf", "spark.ui.enabled=false"),
                *("--conf", f"spark.local.dir={tmp_path}"),
            ],
            env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=tmp_path,
        )
        try:
            wait_for_port(port, child, tmp_path / "server.log")
            yield f"sc://127.0.0.1:{port}"
        finally:
            child.terminate()
            child.wait(timeout=30)


def wait_for_port(port: int, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while True:
        assert child.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_CONNECT, reason="needs the extra `connect`")
def test_work_runs_behind_a_connect_server(server: str, tmp_path: Path) -> None:
    """Outcomes, errors of Lakeward, the failed spec and a cancel are as on a driver of our own."""
    script = Path(__file__).with_name("connect_session.py")
    done = subprocess.run(
        [sys.executable, str(script), server, str(tmp_path)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    seen = json.loads(done.stdout.strip().splitlines()[-1])
    assert seen["outcomes"] == [0, ["VerificationFailed", "1 is odd."], 2]
    assert seen["progress"] == [3, 3]
    assert seen["failed spec"] == 2
    assert seen["cancelled after"] < 60
    assert seen["ticks"] < 600
    assert seen["alive"] is True


@pytest.mark.skipif(HAS_CONNECT, reason="the extra `connect` is installed")
def test_without_the_extra_it_says_which_one_is_needed() -> None:
    """It starts nothing."""
    with pytest.raises(UsageError, match=r"lakeward\[connect\]"):
        SparkDispatcher("not used", remote="sc://127.0.0.1:1", memory=tasks.MEMORY).probe()
