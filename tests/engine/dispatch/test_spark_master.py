"""A master that does not answer is reported before a driver is started. Keeps of engine/dispatch/spark_master."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lakeward.base.errors import EngineAway, UsageError
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.engine.dispatch.spark_master import check_master
from lakeward.engine.dispatch.spark_memory import SparkMemory

SPARK = bytes.fromhex("0000000000000015 08 00000000 00000004 6e6f6e65")
"""What a server of Spark's answers to a request for a file that it does not have."""


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_master_that_does_not_answer_is_called_that(closed_port: int) -> None:
    """Each host that was tried is reported, and the remedy, but not the password of the URL."""
    url = f"spark://me:secret@127.0.0.1:{closed_port},127.0.0.2:{closed_port}"
    with pytest.raises(EngineAway) as caught:
        check_master(url)
    assert caught.value.what == (
        f"No Spark master answers at spark://me:[hidden]@127.0.0.1:{closed_port},127.0.0.2:{closed_port}."
    )
    refused = "Connection refused"
    assert caught.value.why == f"127.0.0.1:{closed_port}: {refused}; 127.0.0.2:{closed_port}: {refused}."
    assert "--master, spark.master" in caught.value.remedy and "Nothing was started." in caught.value.remedy


@contextmanager
def listener() -> Iterator[int]:
    """The port of a process that hangs: its connections are accepted by the kernel, and nothing is answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def black_hole() -> Iterator[int]:
    """A port that accepts no connection and refuses none."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("host", "fault"),
    [(listener, "it accepts connections and does not answer"), (black_hole, "no answer within 1 s")],
)
def test_silence_is_found_in_one_time_for_all_hosts(host: Callable[[], ExitStack], fault: str) -> None:
    """However many there are, they are asked side by side."""
    with ExitStack() as stack:
        ports = [stack.enter_context(host()) for _ in range(5)]
        began = time.monotonic()
        with pytest.raises(EngineAway) as error:
            check_master("spark://" + ",".join(f"127.0.0.1:{port}" for port in ports), seconds=1.0)
        assert time.monotonic() - began < 2.0
    assert error.value.why == "; ".join(f"127.0.0.1:{port}: {fault}" for port in ports) + "."


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Illegal character\r\n\r\n", b"SSH-2.0-x\r\n", b"short", b""])
def test_another_server_is_no_master(answer: bytes) -> None:
    """The master's own page, for one, is on another port. Spark would try for a minute."""
    with answering(answer) as port, pytest.raises(EngineAway) as error:
        check_master(f"spark://localhost:{port}")
    assert error.value.why == f"localhost:{port}: what listens there is no Spark master."


def test_one_master_of_several_that_answers_is_enough(closed_port: int) -> None:
    """It is not waited for the others. That a real master answers so is seen by tests/interop/test_cluster.py."""
    with listener() as hangs, answering(SPARK) as port:
        began = time.monotonic()
        check_master(f"spark://127.0.0.1:{hangs},127.0.0.1:{closed_port},127.0.0.1:{port}")
        assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("master", ["spark://nowhere", "spark://", "spark://nowhere:port", "spark://[nowhere:7077"])
def test_a_master_without_a_port_is_usage(master: str) -> None:
    with pytest.raises(UsageError, match="has no host with a port"):
        check_master(master)


@pytest.mark.parametrize("master", ["local[*]", "yarn", "k8s://https://nowhere:6443"])
def test_other_masters_are_left_to_spark(master: str) -> None:
    check_master(master)


def test_no_driver_is_started_for_it(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the work itself, as in the daemon, nor by a command that asks first."""
    monkeypatch.setattr("lakeward.engine.dispatch.spark.ensure_java", lambda: None)
    dispatcher = SparkDispatcher(f"spark://127.0.0.1:{closed_port}", memory=SparkMemory(1, 1, 1))
    for begin in (dispatcher.check, dispatcher.probe):
        with pytest.raises(EngineAway, match="No Spark master answers"):
            begin()
    assert not dispatcher.has_session and dispatcher.is_down
