"""How subjects reach the database: strange text, many threads, what is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lakeward.base.errors import LakewardError
from lakeward.state.access import TEXT_LENGTH_MAX
from lakeward.state.records import (
    EventRecord,
)
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock
from tests.state.state_records import NOW, decision


def test_strange_text_is_stored(store: Store) -> None:
    """Keeps 3 of state/store_tables: names come from file systems and errors from anywhere: NUL and half a surrogate
    pair do not break a write."""
    odd = "a\x00b\udc80ü"
    store.events.record(EventRecord(NOW, "failed", odd, table=odd, file_group=(odd, "fg"), fields={odd: float("nan")}))
    store.observations.record_decisions("orders", NOW, None, [decision("fg1", partition_path=odd)])
    store.observations.record_decisions("orders", NOW + 1, None, [decision("fg1", partition_path=odd)])
    (event,) = store.events.latest()
    assert event.text == "a\\x00b\\udc80ü"
    assert store.observations.decisions("orders")[0].decided_at == NOW
    store.jobs.end("none", "failed", "x" * 100_000, at=NOW)
    store.events.record(EventRecord(NOW, "failed", "y" * 100_000))
    assert len(store.events.latest()[0].text) == TEXT_LENGTH_MAX


def test_many_threads_write_at_once(store: Store, open_again: Callable[[], Store]) -> None:
    """Keeps 1 of state/access: every write arrives once, from the threads of two processes' worth of stores."""
    other = open_again()
    errors: list[LakewardError] = []

    def write(to: Store, number: int) -> None:
        try:
            for n in range(8):
                to.events.record(EventRecord(NOW, "k", f"{number}.{n}"))
                to.observations.record_decisions(f"t{number}", NOW + n, None, [decision("fg1", numbers={"n": n})])
        except LakewardError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(each, n)) for n, each in enumerate((store, other) * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(event.text for event in store.events.latest(limit=1000)) == sorted(
        f"{number}.{n}" for number in range(6) for n in range(8)
    )


def test_operations_are_reported(url: str, clock: SettableClock) -> None:
    """Metrics get name, seconds and outcome of each."""
    seen: list[tuple[str, str]] = []
    store = open_store(url, clock=clock, on_operation=lambda name, seconds, outcome: seen.append((name, outcome)))
    store.controls.in_force(NOW)
    store.observations.tables()
    store.close()
    assert seen == [("controls", "ok"), ("tables", "ok")]
