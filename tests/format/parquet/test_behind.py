"""Work behind its caller's back."""

import threading

import pytest

from lakeward.format.parquet.behind import Behind


def test_one_after_the_other_on_one_thread():
    """Calls end in the order in which they were begun, and never run at once. Keeps 1 of format/parquet/behind."""
    behind, seen = Behind("test"), []
    gate = threading.Event()

    def first():
        gate.wait()
        seen.append(threading.current_thread().name)

    behind.run(first)
    assert seen == []
    gate.set()
    behind.run(lambda: seen.append(threading.current_thread().name))
    behind.close()
    assert seen == ["test_0", "test_0"]


def test_an_error_comes_with_the_next_call():
    """An error is raised once, where the caller waits, and work can go on. Keeps 2 of format/parquet/behind."""
    behind = Behind("test")
    behind.run(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        behind.run(lambda: None)
    behind.wait()
    behind.close()
