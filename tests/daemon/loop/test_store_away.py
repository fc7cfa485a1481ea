"""The store goes away under a running daemon, and comes back: nothing is serviced without it, and then all goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakeward.state import engine
from lakeward.state.migration import migrate
from lakeward.state.store import Store, open_store
from tests.clocks import SkippingClock
from tests.daemon.serving import Serving
from tests.golden_tables import copy_golden

Away = Callable[[], None]
BACKENDS = [
    "file",
    pytest.param("server", marks=pytest.mark.services),
    pytest.param("standby", marks=[pytest.mark.services, pytest.mark.wide]),
]


@contextmanager
def opened(url: str) -> Iterator[Store]:
    migrate(url)
    store = open_store(url, clock=SkippingClock(), timeout=0.05)
    yield store
    store.close()


@pytest.fixture(params=BACKENDS)
def store_that_goes_away(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Away, Away]]:
    """A store, what takes it away and what brings it back."""
    if request.param == "file":
        path = tmp_path / "lakeward.db"

        def replace() -> None:
            path.rename(tmp_path / "aside")
            path.write_bytes(b"no database at all" * 500)

        with opened(f"sqlite:///{path}") as store:
            yield store, replace, lambda: os.replace(tmp_path / "aside", path)
        return
    from tests.servers import PostgresServer

    with PostgresServer() as server:

        def leave() -> None:
            server.down()
            if request.param == "standby":
                server.up(standby=True)

        def come_back() -> None:
            if request.param == "standby":
                server.execute("SELECT pg_promote()")
            else:
                server.up()
            server.execute(
                "UPDATE leases SET until = 0"
            )  # its clock did not use a minute meanwhile, as that of the daemon did

        with opened(server.url()) as store:
            yield store, leave, come_back


def test_a_daemon_goes_on_when_its_store_is_back(
    store_that_goes_away: tuple[Store, Away, Away], tmp_path: Path
) -> None:
    """The daemon is not ready and has no leases while it is away; then it is ready, has them, and works on what came
    meanwhile."""
    store, leave, come_back = store_that_goes_away
    root = tmp_path / "tables"
    first = copy_golden("v9", root / "first")
    serving = Serving(root, tmp_path / "state", store=store)
    serving.run(30)
    assert serving.status().is_ready
    assert serving.service.held_tables == {str(first)}

    leave()
    serving.run(50)
    assert not serving.status().is_ready
    assert "The store does not answer" in serving.status().limitations[0].what
    assert serving.service.held_tables == frozenset()
    second = copy_golden("v9", root / "second")

    come_back()
    serving.run(100)
    assert serving.status().is_ready
    assert not serving.status().limitations
    assert serving.service.held_tables == {str(first), str(second)}
    assert "committed" in [job.result for job in store.jobs.latest(str(second))]


def test_a_daemon_whose_file_is_deleted_does_not_even_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there again with the next call, with leases, jobs and identity."""
    monkeypatch.setattr(engine, "MISSING_SECONDS", 0.0)
    path = tmp_path / "store" / "lakeward.db"
    with opened(f"sqlite:///{path}") as store:
        table = copy_golden("v9", tmp_path / "tables" / "orders")
        serving = Serving(tmp_path / "tables", tmp_path / "state", store=store)
        serving.run(30)
        jobs = store.jobs.latest(str(table))
        path.unlink()
        serving.run(60)
        assert path.exists()
        assert serving.status().is_ready
        assert serving.service.held_tables == {str(table)}
        assert store.jobs.latest(str(table))[-len(jobs) :] == jobs
        assert serving.sample("lakeward_lease_changes_total", change="lost") in (None, 0.0)
