"""What is planned, by whom, and on whose word."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.errors import Refused
from lakeward.format.timeline.compaction_plan import read_compaction_plan
from lakeward.plan.decision import Choice, Reason
from tests.crash.compacting import check_finished, instants
from tests.execute.bench import GROUP, Bench, pending_states
from tests.golden_tables import copy_golden
from tests.our_reader import scan


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


@pytest.mark.parametrize("reason", [Reason.PARKED, Reason.PAUSED])
def test_a_group_to_be_left_alone_is_not_planned(bench: Bench, reason: Reason) -> None:
    """And the decision says what was due, and why it is not done. Keeps 4 of execute/compaction/compactor."""
    bench.excluded = {GROUP: reason}
    (decision,) = bench.compactor().compact().outcome.decisions
    assert (decision.choice, decision.reason, decision.instead_of) == (Choice.NONE, reason, Choice.FULL)
    assert pending_states(bench.base) == set()


def test_a_plan_says_who_planned_it(bench: Bench) -> None:
    """What the caller adds stands beside our own word, which it cannot change. Keeps 3 of
    execute/compaction/scheduling."""
    bench.planned_by = {"planned_by_service": "night", "planned_by": "another service"}
    bench.compactor().compact()
    (name,) = [i.file_name for i in instants(bench.base) if i.file_name.endswith("compaction.requested")]
    plan = read_compaction_plan((bench.base / ".hoodie/timeline" / name).read_bytes(), file=name)
    assert plan.extra_metadata == {"planned_by_service": "night", "planned_by": "lakeward"}


def test_a_given_snapshot_is_for_choosing_only(bench: Bench) -> None:
    """A snapshot of before a write makes a plan that is made again under the lock, on the table as it is."""
    old = scan(bench.base)
    before = [slice_ for slice_ in old.latest_slices if slice_.log_files]
    newest = max(bench.base.glob("p/.*.log.*"), key=lambda path: path.name)
    deltacommit = next(bench.base.glob(f".hoodie/timeline/{newest.name.split('_')[1].partition('.')[0]}_*.deltacommit"))
    kept = deltacommit.read_bytes()
    deltacommit.unlink()
    older = scan(bench.base)
    deltacommit.write_bytes(kept)
    assert [len(s.log_files) for s in older.latest_slices] == [len(before[0].log_files) - 1]
    bench.snapshot = lambda: older
    (plan,) = bench.compactor().compact().plans
    assert plan.operations[0].counts.log_files == len(before[0].log_files)
    check_finished(bench.base)


def test_a_given_snapshot_at_a_table_that_we_may_not_change_refuses(bench: Bench) -> None:
    """The refusals are considered also when the caller took the snapshot. Keeps 1 of execute/compaction/scheduling."""
    properties = bench.base / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=10"))
    snapshot = scan(bench.base)
    bench.snapshot = lambda: snapshot
    with pytest.raises(Refused):
        bench.compactor().preview()
