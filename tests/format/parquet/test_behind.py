"""Work behind its caller's back, and ahead of him."""

import threading
from dataclasses import dataclass

import pytest

from lakeward.format.parquet.behind import AHEAD_BYTES_MAX, Ahead, Behind


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


@dataclass
class Item:
    number: int
    nbytes: int = 1


def test_one_item_is_made_ahead():
    """While an item is in use the next one is made, and no other. Keeps 3 of format/parquet/behind."""
    ahead, made = Ahead("test"), [threading.Event() for _ in range(3)]

    def items():
        for number, event in enumerate(made):
            assert threading.current_thread().name == "test_0"
            event.set()
            yield Item(number)

    found = ahead.over(items())
    assert next(found).number == 0
    assert made[1].wait(60)
    assert not made[2].is_set()
    assert [item.number for item in found] == [1, 2]
    ahead.close()


def test_none_is_made_while_a_large_one_is_in_use():
    """A large item is let go of before the next one is made. Keeps 3 of format/parquet/behind."""
    ahead, begun = Ahead("test"), []

    def items():
        for number in range(3):
            begun.append(number)
            yield Item(number, nbytes=AHEAD_BYTES_MAX + 1)

    for at, item in enumerate(ahead.over(items())):
        assert begun == list(range(at + 1)) and item.number == at
    ahead.close()
    assert begun == [0, 1, 2]


def test_an_error_comes_in_its_place():
    """What came before an error is given out first; closing waits for what is being made. Keeps 3 of
    format/parquet/behind."""
    ahead = Ahead("test")

    def items():
        yield Item(0)
        raise ZeroDivisionError

    found = ahead.over(items())
    assert next(found).number == 0
    with pytest.raises(ZeroDivisionError):
        next(found)
    other = ahead.over(Item(number) for number in range(3))
    next(other)
    ahead.close()
