"""One at a time, unless a caller takes long."""

from __future__ import annotations

import threading

from lakeward.daemon.turn import Turn


def test_a_thread_waits_for_the_one_that_is_there() -> None:
    """And begins as soon as that one has ended."""
    turn, order, begun = Turn(), [], threading.Event()

    def second() -> None:
        begun.set()
        with turn.taken(timeout=60.0):
            order.append("second")

    with turn.taken(timeout=60.0):
        thread = threading.Thread(target=second)
        thread.start()
        begun.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]


def test_no_thread_waits_for_one_that_hangs() -> None:
    """After its timeout a thread begins beside the one that hangs, to which the turn still belongs."""
    turn, order = Turn(), []
    with turn.taken(timeout=0.0):
        with turn.taken(timeout=0.0):
            order.append("beside")
        with turn.taken(timeout=0.0):
            order.append("and another")
    with turn.taken(timeout=0.0):
        assert order == ["beside", "and another"]
        assert not turn._lock.acquire(blocking=False), "it is ours"
