"""Leases of one daemon beside others, on one store in memory and clocks that tests hold."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import StoreUnavailable
from lakeward.daemon.loop.leases import Leases
from lakeward.protocol.owner import Owner, Processes
from lakeward.state.records import DaemonRecord
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock

SECONDS = 60.0


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(now=1_000_000.0)


@pytest.fixture
def store(clock: SettableClock) -> Store:
    return open_store("sqlite://", clock=clock)


def daemon(
    store: Store, name: str, clock: SettableClock, *, owner: Owner | None = None, processes: Processes | None = None
) -> Leases:
    line = None if owner is None else owner.to_line().decode()
    record = DaemonRecord(name, "lakeward", "1", started_at=clock.now(), beat_at=clock.now(), process=line)
    return Leases(store, record, seconds=SECONDS, clock=clock, processes=processes or Processes())


@pytest.fixture
def killed() -> Owner:
    """A process of this machine that was killed, as it said of itself while it lived."""
    with subprocess.Popen(["sleep", "600"]) as process:
        ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        owner = replace(Processes().new_owner(), pid=process.pid, start_ticks=ticks)
        assert not Processes().is_provably_dead(owner)
        process.kill()
    return owner


def test_one_daemon_takes_all_tables(store: Store, clock: SettableClock) -> None:
    """A daemon that is alone services everything."""
    a = daemon(store, "a", clock)

    assert set(a.keep(["x", "y"], busy=frozenset()).gained) == {"x", "y"}
    assert a.is_safe("x") and a.is_safe("y") and not a.is_safe("z")


def test_who_holds_all_tables_reads_no_leases_of_others(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to take, so an idle daemon spares its store two questions every few seconds."""
    a = daemon(store, "a", clock)
    a.keep(["x", "y"], busy=frozenset())
    asked: list[float] = []

    def held(now: float) -> tuple[()]:
        asked.append(now)
        return ()

    monkeypatch.setattr(store.leases, "held", held)

    a.keep(["x", "y"], busy=frozenset())
    assert asked == []
    a.keep(["x", "y", "z"], busy=frozenset())
    assert asked


def test_tables_are_shared_among_living_daemons(store: Store, clock: SettableClock) -> None:
    """A daemon that comes later gets its share: the first gives back what is idle and too much."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    tables = ["t1", "t2", "t3", "t4"]
    a.keep(tables, busy=frozenset())
    b.keep(tables, busy=frozenset())
    assert b.held == frozenset()

    given_back = a.keep(tables, busy={"t1", "t2", "t3"})
    b.keep(tables, busy=frozenset())

    assert set(given_back.lost) == {"t4"}, "a table at work is not given back"
    assert b.held == {"t4"}


def test_work_moves_when_a_daemon_dies(store: Store, clock: SettableClock) -> None:
    """What a dead daemon held is taken when its lease is over, with a greater token, and not before."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    a.keep(["t"], busy=frozenset())
    token = a.token("t")
    b.keep(["t"], busy=frozenset())
    clock.sleep(SECONDS - 1)
    assert b.keep(["t"], busy=frozenset()).held_by == {"t": "a"}

    clock.sleep(2)

    assert b.keep(["t"], busy=frozenset()).gained == ("t",)
    assert (b.token("t") or 0) > (token or 0)


def test_what_a_killed_daemon_of_this_machine_held_is_free_at_once(
    store: Store, clock: SettableClock, killed: Owner
) -> None:
    """Its process is provably dead, so nothing is waited for, and it has no share any more."""
    dead = daemon(store, "dead", clock, owner=killed)
    dead.keep(["t1", "t2"], busy=frozenset())

    found = daemon(store, "new", clock, owner=Processes().new_owner()).keep(["t1", "t2"], busy=frozenset())

    assert (set(found.gained), found.daemons, found.held_by) == ({"t1", "t2"}, 1, {})
    assert [each.holder for each in store.daemons.known()] == ["new"]


def test_of_another_machines_daemon_nothing_is_guessed(store: Store, clock: SettableClock, killed: Owner) -> None:
    """Keeps 6 of daemon/loop/leases: nor of one of another boot or process namespace, of a process that is there, or of
    a daemon that does not say which process it is. Each keeps its leases until they are over."""
    others = {
        "host": replace(killed, host="elsewhere"),
        "boot": replace(killed, boot_id="another"),
        "namespace": replace(killed, pid_namespace="pid:[1]"),
        "lives": Processes().new_owner(),
        "silent": None,
    }
    for name, owner in others.items():
        daemon(store, name, clock, owner=owner).keep([name], busy=frozenset())

    found = daemon(store, "new", clock, owner=Processes().new_owner()).keep(list(others), busy=frozenset())

    assert found.gained == () and set(found.held_by) == set(others)


@pytest.mark.parametrize("step", [1.0, -1.0, 600.0, -600.0])
def test_a_step_of_the_clock_takes_no_lease(store: Store, clock: SettableClock, step: float) -> None:
    """The daemon that renews the lease keeps it, however long it is over by the new time; a machine that wakes up is
    the same. Nor does a daemon take it that starts only then."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    a.keep(["t"], busy={"t"})
    b.keep(["t"], busy=frozenset())
    clock.step(step)
    c = daemon(store, "c", clock)
    for _ in range(20):
        for other in (b, c):
            assert not other.keep(["t"], busy=frozenset()).gained
        assert a.is_safe("t")
        clock.sleep(SECONDS / 4)
        assert not a.keep(["t"], busy={"t"}).lost


def test_a_lease_that_is_over_is_taken_by_a_daemon_that_watched_its_row(store: Store, clock: SettableClock) -> None:
    """A daemon that did not watch the row does so for as long as its holder might work without a renewal, and says
    so."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    a.keep(["t"], busy=frozenset())
    assert not b.keep(["t"], busy=frozenset()).is_watching
    clock.sleep(SECONDS + 1)
    late = daemon(store, "late", clock)
    first = late.keep(["t"], busy=frozenset())
    assert (first.gained, first.is_watching, first.held_by) == ((), True, {"t": "a"})
    clock.sleep(SECONDS * 2 / 3 + 1)
    assert late.keep(["t"], busy=frozenset()).gained == ("t",)

    late.release(["t"])
    b.keep(["u"], busy=frozenset())
    late.keep(["u"], busy=frozenset())
    clock.sleep(SECONDS + 1)
    assert late.keep(["u"], busy=frozenset()).gained == ("u",)


def test_a_holder_stops_before_anybody_else_may_begin(store: Store, clock: SettableClock) -> None:
    """Not renewed in time, a lease is given up on the holder's own clock while the store still grants it."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    a.keep(["t"], busy=frozenset())

    clock.sleep(SECONDS * 0.7)

    assert not a.is_safe("t")
    assert set(a.expire()) == {"t"}
    assert b.keep(["t"], busy=frozenset()).gained == (), "the store still keeps it for a"


def test_renewal_keeps_a_lease_for_ever(store: Store, clock: SettableClock) -> None:
    """A daemon that comes round in time never loses a lease."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    a.keep(["t"], busy=frozenset())
    for _ in range(50):
        clock.sleep(SECONDS / 2)
        assert not a.keep(["t"], busy={"t"}).lost
        assert a.is_safe("t")
        assert b.keep(["t"], busy=frozenset()).gained == ()


def test_released_tables_are_free_at_once(store: Store, clock: SettableClock) -> None:
    """A daemon that ends lets the others begin without waiting."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    a.keep(["t"], busy=frozenset())
    a.release(["t"])
    store.daemons.leave("a")

    assert b.keep(["t"], busy=frozenset()).gained == ("t",)


def test_tables_that_are_not_serviced_any_more_are_given_back(store: Store, clock: SettableClock) -> None:
    """A table that was disabled or removed is free for others."""
    a = daemon(store, "a", clock)
    a.keep(["t", "u"], busy=frozenset())

    assert set(a.keep(["t"], busy=frozenset()).lost) == {"u"}
    assert a.held == {"t"}


def test_a_table_at_work_is_not_given_back(store: Store, clock: SettableClock) -> None:
    """One that was disabled or removed while a job runs keeps its lease until the job has ended."""
    a, b = daemon(store, "a", clock), daemon(store, "b", clock)
    a.keep(["t"], busy=frozenset())

    assert not a.keep([], busy={"t"}).lost
    assert a.is_safe("t") and b.keep(["t"], busy=frozenset()).gained == ()

    assert set(a.keep([], busy=frozenset()).lost) == {"t"}


def test_what_was_done_before_the_store_failed_is_shown(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that was gained or given back in a round that failed later is not forgotten: a table that is held and
    whose scheduler never hears of it would be serviced by no daemon."""
    a = daemon(store, "a", clock)
    a.keep(["old"], busy=frozenset())
    take, taken = store.leases.acquire, []

    def take_one(*given: Any) -> Any:
        if taken:
            raise StoreUnavailable("away")
        taken.append(take(*given))
        return taken[0]

    monkeypatch.setattr(store.leases, "acquire", take_one)

    changes = a.keep(["t1", "t2"], busy=frozenset())

    assert changes.gained == ("t1",) and set(changes.lost) == {"old"}
    assert isinstance(changes.problem, StoreUnavailable)
    assert a.held == {"t1"}


def test_who_holds_a_table_is_shown_by_process_host_and_store(tmp_path: Path, clock: SettableClock) -> None:
    """The text has the URL of the store, without what opens it; a daemon of the release before has its name alone."""
    store = open_store("sqlite://", clock=clock)
    owner = replace(Processes().new_owner(), host="vm-7", pid=16180)
    daemon(store, "vm-7-16180-ab", clock, owner=owner).keep(["t"], busy=frozenset())
    b = daemon(store, "b", clock)
    assert b.keep(["t"], busy=frozenset()).held_by == {"t": f"process 16180 on vm-7, store {store.name}"}
