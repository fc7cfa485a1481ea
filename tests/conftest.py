"""What the whole suite shares: the Spark session with released Hudi on it, and CI's refusal to skip it."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import settings

from lakeward.base.named_key import SHOW_KEYS
from lakeward.protocol import serviced_table
from tests.runs import ASKED, EXAMPLES, MOST, extent, in_turn, runs, spread, turn_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers import PostgresServer, S3Server, Server, ZooKeeperServer

ServerT = TypeVar("ServerT", bound="Server")

IN_CI = os.environ.get("CI") == "true"

# A JVM of a test lives for seconds: without its optimising compiler Spark starts at half the cost.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests read which key an error is about; that errors hide it otherwise is held by tests/base/test_named_key.py.
os.environ.setdefault(SHOW_KEYS, "1")

# The first example of a property may compile a kernel, which no deadline forgives.
EXAMPLES_MAX = EXAMPLES if ASKED is None else runs(EXAMPLES)
settings.register_profile("lakeward", deadline=None, print_blob=True, max_examples=EXAMPLES_MAX)
settings.load_profile("lakeward")


def pytest_report_header() -> str:
    return extent()


@pytest.fixture(scope="session", autouse=True)
def power_that_stays_on() -> Iterator[None]:
    """No test cuts the power, so files need not reach the disk: waiting for it was a third of a compaction of a few
    rows. What is synced, and when, is held by the tests of the storage, which look at each call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service does not wait six real seconds for a calm moment, where the only writer wrote before it in this very
    process. That it waits, and for how long, is held on clocks that are moved
    (tests/services/compaction/run/test_writer_wait.py)."""
    monkeypatch.setattr(serviced_table, "CALM_SECONDS_MAX", 0.2)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """What takes minutes begins first, so that in the end no worker is left alone with it. A test that uses `spark` and
    is not marked `interop` would start a JVM in `make check`, and be skipped in CI unseen: there is none."""
    uses_hudi = [item for item in items if "spark" in getattr(item, "fixturenames", ())]
    if unmarked := [item.nodeid for item in uses_hudi if item.get_closest_marker("interop") is None]:
        raise pytest.UsageError(f"Real Hudi is used without the mark `interop`: {', '.join(unmarked)}")
    yield  # what is not asked for goes
    _leave_to_other_commits(config, items)
    if MOST is not None:
        _cut_short(config, items)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def _leave_to_other_commits(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Heavy tests take turns; those that a mark names `together` do so at once, since what they share is what takes
    long."""
    names, seconds = {}, {}
    for item in items:
        if (mark := item.get_closest_marker("turns")) is not None:
            names[item], took = turn_of(item.nodeid, *mark.args, **mark.kwargs)
            seconds[names[item]] = took
    due = in_turn(seconds)
    config.hook.pytest_deselected(items=[item for item, name in names.items() if name not in due])
    items[:] = [item for item in items if names.get(item) in {None, *due}]


def _cut_short(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The cases of a test are a series, too: the first and the last are run, and others between them."""
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = {item for each in cases.values() for item in spread(each)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with released Hudi, one for each pytest process. Where it cannot be had: skipped, but red in CI."""
    from tests.hudi.spark import HudiMissing, start_spark

    scratch: Path = tmp_path_factory.mktemp("spark")
    try:
        session = start_spark(scratch=scratch)
    except HudiMissing as missing:
        (pytest.fail if IN_CI else pytest.skip)(str(missing))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL, one for each pytest process. Where it cannot be had: skipped, but red in CI."""
    from tests.servers import PostgresServer

    yield from _running(PostgresServer)


@pytest.fixture
def postgresql_url(postgresql_server: PostgresServer) -> Iterator[str]:
    """An empty database of its own. A test that uses it is marked `services`."""
    name = postgresql_server.create_database()
    yield postgresql_server.url(name)
    postgresql_server.drop_database(name)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper, one for each pytest process. Where it cannot be had: skipped, but red in CI. Who uses it is
    marked `services`, and has a place of its own there."""
    from tests.servers import ZooKeeperServer

    yield from _running(ZooKeeperServer)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3-compatible server, one for each pytest process. Where it cannot be had: skipped, but red in CI."""
    from tests.servers import S3Server

    yield from _running(S3Server)


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty bucket, and the environment by which it is reached. Who uses it is marked `services`."""
    for key, value in s3_server.environment.items():
        monkeypatch.setenv(key, value)
    # One that another test started has the environment of then, and gives it to each worker.
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # there for tests
    return f"s3://{s3_server.create_bucket()}"


def _running(server: type[ServerT]) -> Iterator[ServerT]:
    from tests.servers import ServiceMissing

    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(server())
        except ServiceMissing as missing:
            (pytest.fail if IN_CI else pytest.skip)(str(missing))
        yield running


_skipped_interop: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and "interop" in report.keywords and not hasattr(report, "wasxfail"):
        _skipped_interop.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Runs in the process that collects the reports; with xdist that is the controller.
    if IN_CI and _skipped_interop and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if IN_CI and _skipped_interop:
        terminalreporter.section("interop tests may not be skipped in CI")
        for nodeid in _skipped_interop:
            terminalreporter.write_line(nodeid)
