from __future__ import annotations

from lakeward.daemon.web.timeline_strip import WIDTH, strip_of
from tests.daemon.synthetic_status import NOW, instants


def test_each_instant_is_on_the_lane_of_its_action():
    """The action with the most is at the top; marks go from left to right, and none is beyond the strip."""
    strip = strip_of(instants(), NOW)

    assert strip is not None and strip.first_at == instants()[0].at
    assert [(lane.action, lane.number, lane.own) for lane in strip.lanes] == [
        ("deltacommit", 90, 0),
        ("clean", 15, 15),
        ("commit", 15, 15),
        ("compaction", 1, 1),
    ]
    for lane in strip.lanes:
        places = [mark.x for mark in lane.marks]
        assert places == sorted(places) and places[0] >= 0 and places[-1] <= WIDTH
    assert strip_of((), NOW) is None
    alone = strip_of(instants()[:1], NOW - 200_000)
    assert alone is not None and alone.lanes[0].marks[0].x == 0.0, "a clock that is behind moves no mark beyond the end"
