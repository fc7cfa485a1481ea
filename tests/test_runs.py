from __future__ import annotations

import pytest

from tests import runs
from tests.runs import spread


def test_all_is_run_unless_less_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    """CI leaves nothing out; what is run of a series reaches from its first case to its last."""
    monkeypatch.setattr(runs, "ASKED", None)
    assert spread(range(20)) == list(range(20))
    assert spread([]) == []
    monkeypatch.setattr(runs, "ASKED", "4")
    assert spread(range(10)) == [0, 3, 6, 9]
    assert spread("abc") == ["a", "b", "c"]
    monkeypatch.setattr(runs, "ASKED", "1")
    assert spread(range(10)) == [0]
