"""The daemons that share a store."""

from __future__ import annotations

from dataclasses import replace

from lakeward.state.records import (
    DaemonRecord,
)
from lakeward.state.store import Store
from tests.clocks import SettableClock
from tests.state.state_records import NOW


def test_daemons_that_live(store: Store, clock: SettableClock) -> None:
    """Daemons live that beat lately, and have not left."""
    daemon = DaemonRecord("host:1", "lakeward", "0.1", NOW, "127.0.0.1:8490")
    store.daemons.beat(daemon, clock.now())
    store.daemons.beat(replace(daemon, holder="host:2"), clock.now())
    assert [(each.holder, each.version, each.address) for each in store.daemons.alive(clock.now())] == [
        ("host:1", "0.1", "127.0.0.1:8490"),
        ("host:2", "0.1", "127.0.0.1:8490"),
    ]
    store.daemons.leave("host:2")
    assert [each.holder for each in store.daemons.alive(clock.now())] == ["host:1"]
    assert store.daemons.alive(clock.now(), within=-1) == ()
