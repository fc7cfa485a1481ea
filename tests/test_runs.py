from __future__ import annotations

import pytest

from tests import runs
from tests.runs import spread


def test_all_is_run_unless_less_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    """CI leaves nothing out; what is run of a series reaches from its first case to its last."""
    monkeypatch.setattr(runs, "ASKED", None)
    monkeypatch.setattr(runs, "MOST", None)
    assert spread(range(20)) == list(range(20))
    assert spread([]) == []
    monkeypatch.setattr(runs, "ASKED", "4")
    assert spread(range(10)) == [0, 3, 6, 9]
    assert spread("abc") == ["a", "b", "c"]
    monkeypatch.setattr(runs, "ASKED", "1")
    assert spread(range(10)) == [0]


def test_what_is_asked_for_is_cut_never_raised(monkeypatch: pytest.MonkeyPatch):
    """A bound leaves a short series as short as it is in CI."""
    monkeypatch.setattr(runs, "ASKED", None)
    monkeypatch.setattr(runs, "MOST", "8")
    assert (runs.runs(100), runs.runs(2)) == (8, 2)
    assert len(spread(range(100))) == 8
    assert spread(range(3)) == [0, 1, 2]
