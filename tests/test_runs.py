from __future__ import annotations

import subprocess

import pytest

from tests import runs
from tests.runs import spread


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "ASKED", None)
    monkeypatch.setattr(runs, "MOST", None)
    monkeypatch.setattr(runs, "NIGHTLY", False)
    monkeypatch.setattr(runs, "TAKE_TURNS", False)


def test_four_offsets_take_a_whole_series(monkeypatch: pytest.MonkeyPatch):
    """Whatever the length, no case is out of reach, and four are run where a series has as many."""
    for length in range(60):
        taken = []
        for offset in range(runs.STEP):
            monkeypatch.setattr(runs, "OFFSET", offset)
            taken.append(spread(range(length)))
            assert len(taken[-1]) >= min(4, length)
        assert {case for each in taken for case in each} == set(range(length))
    assert taken == [list(range(offset, 59, 4)) for offset in range(4)]


def test_of_a_short_and_long_series_as_many_as_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    """A series of few cases that each take long is halved; the next commits take what is left."""
    for least, lengths in ((3, [4, 3, 4, 3]), (1, [2, 2, 2, 1])):
        taken = []
        for offset in range(runs.STEP):
            monkeypatch.setattr(runs, "OFFSET", offset)
            taken.append(spread(range(7), least=least))
        assert [len(each) for each in taken] == lengths
        assert {case for each in taken for case in each} == set(range(7))


def test_nightly_takes_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "NIGHTLY", True)
    assert spread(range(20)) == list(range(20))
    monkeypatch.setattr(runs, "EXAMPLES", 300)
    assert runs.extent() == "of each series: all, 300 examples of a property"


def test_the_offset_is_printed_and_taken_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "EXAMPLES", 40)
    monkeypatch.setattr(runs, "OFFSET", 3)
    assert runs.extent() == "of each series: one case in 4, 40 examples of a property; LAKEWARD_OFFSET=3 repeats it"
    monkeypatch.setenv("LAKEWARD_OFFSET", "3")
    assert runs._offset() == 3
    monkeypatch.delenv("LAKEWARD_OFFSET")
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout
    assert runs._offset() == int(head or "0", 16) % 16


def test_a_number_that_is_asked_for_reaches_from_the_first_to_the_last(monkeypatch: pytest.MonkeyPatch):
    assert spread([]) == []
    monkeypatch.setattr(runs, "ASKED", "1000")
    assert spread(range(20)) == list(range(20))
    monkeypatch.setattr(runs, "ASKED", "4")
    assert spread(range(10)) == [0, 3, 6, 9]
    assert spread("abc") == ["a", "b", "c"]
    monkeypatch.setattr(runs, "ASKED", "1")
    assert spread(range(10)) == [0]


def test_what_is_asked_for_is_cut_never_raised(monkeypatch: pytest.MonkeyPatch):
    """A bound leaves a short series as short as it is in CI."""
    monkeypatch.setattr(runs, "MOST", "8")
    assert (runs.runs(100), runs.runs(2)) == (8, 2)
    assert len(spread(range(100))) == 8
    assert spread(range(3)) == [0, 1, 2]


def test_heavy_tests_take_turns(monkeypatch: pytest.MonkeyPatch):
    """Each is run in one commit of four, and all quarters take about as long; by itself and at night each is run. The
    offset of a commit reaches each quarter with each fourth of a series."""
    tests = {"b": 10.0, "a": 30.0, "c": 70.0, "d": 40.0, "e": 45.0}
    assert runs.in_turn(tests) == {*"abcde"}
    monkeypatch.setattr(runs, "TAKE_TURNS", True)
    for quarter, taken in enumerate(["c", "e", "d", "ab"]):
        for of_series in range(runs.STEP):
            monkeypatch.setattr(runs, "OFFSET", quarter * runs.STEP + of_series)
            assert runs.in_turn(tests) == {*taken}
    monkeypatch.setattr(runs, "NIGHTLY", True)
    assert runs.in_turn(tests) == {*"abcde"}


def test_tests_that_share_what_takes_long_take_turns_together():
    """The cases of a test are of one turn; so are tests whose marks name the same, with the seconds of all of them."""
    assert runs.turn_of("test_a.py::test_x[1]") == runs.turn_of("test_a.py::test_x[2]") == ("test_a.py::test_x", 10.0)
    assert runs.turn_of("test_a.py::test_x", 20.0) == ("test_a.py::test_x", 20.0)
    twins = [runs.turn_of(test, 30.0, together="twins") for test in ("test_a.py::test_x[1]", "test_b.py::test_y")]
    assert twins == [("twins", 30.0)] * 2
