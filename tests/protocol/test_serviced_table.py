"""For when a plan is chosen."""

from __future__ import annotations

from pathlib import Path

from lakeward.format.timeline.instant import comparable_time, parse_instant_time
from lakeward.protocol.serviced_table import planned_at
from tests.our_reader import scan
from tests.write.writing import new_table, write


def test_a_plan_is_behind_all_that_completed(tmp_path: Path) -> None:
    """2026-11-29: a write completed by a clock that was 0.3 s ahead; the plan left its log out, and got an instant
    behind it, so that the log was in the slice that the plan rewrites. Lakeward refused it ever after (LW-CONFLICT)."""
    table = new_table(tmp_path / "t")
    write(table, [("k1", 1, "a", None)])
    snapshot = scan(table)
    newest, zone = snapshot.timeline.latest_time, snapshot.zone.zone
    assert newest is not None and zone is not None
    completed = parse_instant_time(newest, zone) / 1000
    assert comparable_time(planned_at(snapshot, completed - 0.3)) > comparable_time(newest)
    later = planned_at(snapshot, completed + 5)
    assert parse_instant_time(later, zone) / 1000 == completed + 5
