"""One at a time, unless a caller takes long."""

from __future__ import annotations

import threading

from lakeward.daemon.work.worker import Turn


def test_a_thread_waits_for_the_one_that_is_there() -> None:
    """A thread begins as soon as the one before it has ended."""
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
    """A thread goes on beside a turn that lasts too long, and gives nothing back that is not its own."""
    turn, order = Turn(), []
    with turn.taken(timeout=0.0):
        with turn.taken(timeout=0.0):
            order.append("beside")
        with turn.taken(timeout=0.0):
            order.append("and another")
        assert not turn._take(0.0), "the first thread still has the turn"
    assert order == ["beside", "and another"]
    assert turn._take(0.0), "it is free again"


def test_a_queue_of_short_turns_is_waited_for() -> None:
    """What counts is how long one thread has the turn, not how long another has waited for it."""
    turn, together, most, lock = Turn(), 0, 0, threading.Lock()

    def work() -> None:
        nonlocal together, most
        with turn.taken(timeout=5.0):
            with lock:
                together += 1
                most = max(most, together)
            threading.Event().wait(0.01)
            with lock:
                together -= 1

    threads = [threading.Thread(target=work) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1
