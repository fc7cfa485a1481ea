from __future__ import annotations

import re
from itertools import pairwise

from lakeward.daemon.web.history_chart import bars, curve


def test_a_curve_runs_from_the_first_to_the_last():
    """Nothing is at the bottom, and the most at the top; the area below is closed."""
    found = curve([(10.0, 0.0), (15.0, 8.0), (20.0, 4.0)], width=100, height=50)

    assert found is not None
    assert found.line == "M0 50 L50 0 L100 25"
    assert found.area == "M0 50 L50 0 L100 25 L100 50 L0 50Z"
    assert (found.first_at, found.last_at, found.most, found.last) == (10.0, 20.0, 8.0, 4.0)


def test_what_is_no_line():
    """One value alone has no line, none has no curve, and values of nothing lie at the bottom."""
    assert curve([]) is None
    alone = curve([(1.0, 5.0)])
    assert alone is not None and alone.line == "" and alone.last == 5.0
    flat = curve([(0.0, 0.0), (1.0, 0.0)], width=10, height=9)
    assert flat is not None and set(re.findall(r" (\d+)", flat.line)) == {"9"}


def test_a_bar_for_each_day():
    """A day with anything at all is to be seen, one with nothing is not; none lies over the next."""
    found = bars([("a", 0.0), ("b", 1e6), ("c", 1.0)], width=90, height=40)

    assert [bar.height for bar in found] == [0.0, 40.0, 1.0]
    assert all(before.x + before.width < after.x for before, after in pairwise(found))
    assert all(round(bar.y + bar.height, 3) == 40 for bar in found)
    assert bars([]) == () and [bar.height for bar in bars([("a", 0.0)])] == [0.0]
