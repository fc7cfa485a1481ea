"""What was decided for file groups at a time."""

from __future__ import annotations

import random
from collections.abc import Callable

from sqlalchemy import create_engine, text

from lakeward.state.records import DecisionRecord, Retention
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock
from tests.state.state_records import NOW, decision

DAY = 86400.0


def test_a_choice_that_was_followed_by_another_is_found_by_its_time(store: Store) -> None:
    """Keeps 3 of state/observations. Figures that change alone begin nothing: the choice has its last ones."""
    record = store.observations.record_decisions
    record("orders", NOW, None, [decision("fg1"), decision("fg2")])
    record("orders", NOW + 10, None, [decision("fg1", numbers={"log_bytes": 8}), decision("fg2")])
    record("orders", NOW + 20, None, [decision("fg1", "NONE"), decision("fg2")])
    record("orders", NOW + 30, None, [decision("fg1", "NONE")])
    record("other", NOW, None, [decision("fg1", "LOG")])

    def then(seconds: float) -> tuple[float | None, tuple[DecisionRecord, ...]]:
        return store.observations.decided_at("orders", NOW + seconds)

    full = decision("fg1", numbers={"log_bytes": 8}, chosen_at=NOW, decided_at=NOW + 10)
    none = decision("fg1", "NONE", chosen_at=NOW + 20, decided_at=NOW + 20)
    second = decision("fg2", chosen_at=NOW, decided_at=NOW)
    assert then(-1) == (NOW, ())
    assert then(0) == then(19.9) == (NOW, (full, second))
    assert then(20) == then(29.9) == (NOW, (none, second))
    assert then(30) == then(9999) == (NOW, (none,))
    assert store.observations.decided_at("unknown", NOW) == (None, ())


def test_any_history(store: Store) -> None:
    """Keeps 1 of state/past_decisions: against a list of all choices that were made. Where the store is emptied,
    nothing is known until the next planning."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    choices: dict[str, list[tuple[float, str | None]]] = {f"fg{number}": [] for number in range(4)}
    for step in range(40):
        found = []
        for group, made in choices.items():
            choice = chance.choice([*("FULL", "LOG", "NONE"), *([made[-1][1]] * 3 if made else []), None])
            if made and made[-1][1] is None and choice is None:
                continue
            if not made or made[-1][1] != choice:
                made.append((NOW + step, choice))
            if choice is not None:
                found.append(decision(group, choice, numbers={"log_bytes": chance.randrange(3)}))
        store.observations.record_decisions("orders", NOW + step, None, found)
        if chance.random() < 0.1:
            store.observations.clear(NOW + step + 0.5)
            for made in choices.values():
                if made and made[-1][1] is not None:
                    made.append((NOW + step + 0.5, None))
    for at in (NOW + half / 2 for half in range(-1, 82)):
        expected = []
        for group, made in choices.items():
            if (before := [choice for since, choice in made if since <= at]) and before[-1] is not None:
                expected.append((group, before[-1]))
        _, then = store.observations.decided_at("orders", at)
        assert [(each.file_id, each.choice) for each in then] == expected, f"seed {seed}, {at - NOW} s"


def test_past_decisions_grow_thinner_with_age(url: str, clock: SettableClock) -> None:
    """Keeps 2 of state/past_decisions, by the defaults, over 100 days: each choice of 14 days, then the last one of a
    day, after 90 days none; at most so many rows; a group that vanished is not thought to be there."""
    store = open_store(url, clock=clock)
    record = store.observations.record_decisions
    looks = 6
    """A day, each of which finds another choice."""
    hours = 4 * 3600.0
    for number in range(100 * looks):
        at = NOW + number * hours
        gone = [decision("gone", "LOG")] if number == 80 * looks + 3 else []
        record("orders", at, None, [decision("fg1", ("FULL", "NONE")[number % 2]), *gone])
    now = NOW + 100 * DAY
    store.trim(now)
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        kept = [
            (NOW + 100 * DAY - each) / DAY
            for (each,) in connection.execute(
                text("SELECT ended_at FROM past_decisions WHERE file_id = 'fg1' ORDER BY ended_at")
            )
        ]
    engine.dispose()
    assert max(kept) <= 90
    assert sum(age > 14 for age in kept) in (76, 77)
    assert sum(age < 14 for age in kept) == 14 * looks - 1
    vanished = NOW + (80 * looks + 3) * hours
    # One that was there for four hours.
    assert [each.file_id for each in store.observations.decided_at("orders", vanished)[1]] == ["fg1", "gone"]
    assert [each.file_id for each in store.observations.decided_at("orders", vanished + hours)[1]] == ["fg1"]
    store.close()

    few = open_store(url, clock=clock, retention=Retention(past_decision_rows=5))
    few.trim(now)
    # The newest ones stay.
    assert few.observations.decided_at("orders", now)[0] == NOW + (100 * looks - 6) * hours
    few.close()


def test_another_base_path_is_another_table(store: Store) -> None:
    store.observations.watch("orders", "/lake/orders", NOW)
    store.observations.record_decisions("orders", NOW, None, [decision("fg1")])
    store.observations.record_decisions("orders", NOW + 1, None, [decision("fg1", "NONE")])
    store.observations.watch("orders", "/lake/orders2", NOW + 2)
    assert store.observations.decided_at("orders", NOW + 3) == (None, ())


def test_a_release_that_does_not_say_when_it_chose(store: Store, url: str, open_again: Callable[[], Store]) -> None:
    """One without the column may write beside this one: its decisions count from when they were made."""
    store.observations.record_decisions("orders", NOW, None, [decision("fg1")])
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text("UPDATE decisions SET chosen_at = NULL"))
    engine.dispose()
    assert store.observations.decided_at("orders", NOW)[1] == (decision("fg1", chosen_at=NOW, decided_at=NOW),)
    store.observations.record_decisions("orders", NOW + 1, None, [decision("fg1", "NONE")])
    assert store.observations.decided_at("orders", NOW)[1] == (decision("fg1", chosen_at=NOW, decided_at=NOW),)
