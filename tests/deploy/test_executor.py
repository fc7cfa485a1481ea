"""The executor image's entry point, with a stand-in for Java that says what it was given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY

ENTRY = DEPLOY / "executor" / "entrypoint"
KUBERNETES = {
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    return {"PATH": f"{java.parent}:{os.environ['PATH']}", "SPARK_HOME": "/spark"}


def start(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ENTRY, *words], env=environment, text=True, capture_output=True, check=False)


def test_spark_on_kubernetes_gets_what_it_put_into_the_environment(environment: dict[str, str]) -> None:
    """Every figure becomes the option of its name; Java's options come in their order, whole."""
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dn={n} with=blanks" for n in (10, 0, 2)}
    done = start(environment | KUBERNETES | options, "executor")
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert words[:3] == ["-Dn=0 with=blanks", "-Dn=2 with=blanks", "-Dn=10 with=blanks"]
    begin = words.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    assert words[begin - 4 : begin] == ["-Xms2g", "-Xmx2g", "-cp", "/spark/jars/*"]
    given = dict(zip(words[begin + 1 :: 2], words[begin + 2 :: 2], strict=True))
    assert given == {
        "--driver-url": "spark://driver:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "exec-3",
    }


def test_what_is_missing_is_said(environment: dict[str, str]) -> None:
    """A figure that Spark did not give is named, and nothing starts."""
    done = start({**environment, **KUBERNETES, "SPARK_DRIVER_URL": ""}, "executor")
    assert done.returncode != 0 and "SPARK_DRIVER_URL" in done.stderr and not done.stdout


def test_any_other_command_is_run_as_it_is(environment: dict[str, str]) -> None:
    """An operator can inspect the image that way; without a command it says what there is."""
    assert start(environment, "echo", "a b").stdout == "a b\n"
    assert start(environment).returncode == 2


def test_a_standalone_worker_is_spark_s_own(environment: dict[str, str], tmp_path: Path) -> None:
    """`worker URL` starts Spark's worker, whose folder is below /tmp."""
    spark_class = tmp_path / "spark" / "bin" / "spark-class"
    spark_class.parent.mkdir(parents=True)
    spark_class.write_text('#!/bin/sh\necho "$@"\n')
    spark_class.chmod(0o755)
    done = start(environment | {"SPARK_HOME": str(tmp_path / "spark")}, "worker", "spark://m:7077")
    assert done.stdout == "org.apache.spark.deploy.worker.Worker --work-dir /tmp/spark-work spark://m:7077\n"
