"""A master that does not answer is told before a driver is started. Keeps of dispatch/spark_master."""

from __future__ import annotations

import socket

import pytest

from lakeward.dispatch.spark import SparkDispatcher
from lakeward.dispatch.spark_master import check_master
from lakeward.dispatch.spark_memory import SparkMemory
from lakeward.errors import LakewardError, UsageError


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_master_that_does_not_answer_is_called_that(closed_port: int) -> None:
    """Each host that was tried is told, and the remedy, but not the password of the URL."""
    url = f"spark://me:secret@127.0.0.1:{closed_port},127.0.0.2:{closed_port}"
    with pytest.raises(LakewardError) as told:
        check_master(url)
    assert told.value.what == (
        f"The Spark master spark://me:[hidden]@127.0.0.1:{closed_port},127.0.0.2:{closed_port} cannot be reached."
    )
    refused = "Connection refused"
    assert told.value.why == f"127.0.0.1:{closed_port}: {refused}; 127.0.0.2:{closed_port}: {refused}."
    assert "--master, spark.master" in told.value.remedy and "Nothing was started." in told.value.remedy


def test_one_master_of_several_that_answers_is_enough(closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("master", ["spark://nowhere", "spark://", "spark://nowhere:port", "spark://[nowhere:7077"])
def test_a_master_without_a_port_is_usage(master: str) -> None:
    with pytest.raises(UsageError, match="has no host with a port"):
        check_master(master)


@pytest.mark.parametrize("master", ["local[*]", "yarn", "k8s://https://nowhere:6443"])
def test_other_masters_are_left_to_spark(master: str) -> None:
    check_master(master)


def test_no_driver_is_started_for_it(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the work itself, as in the daemon, nor by a command that asks first."""
    monkeypatch.setattr("lakeward.dispatch.spark.ensure_java", lambda: None)
    dispatcher = SparkDispatcher(f"spark://127.0.0.1:{closed_port}", memory=SparkMemory(1, 1, 1))
    for begin in (dispatcher.check, dispatcher.probe):
        with pytest.raises(LakewardError, match="cannot be reached"):
            begin()
    assert not dispatcher.has_session
