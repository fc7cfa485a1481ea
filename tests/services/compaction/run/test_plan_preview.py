"""When a choice that was made without the lock is still right under it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.run.group_selection import choose
from lakeward.services.compaction.run.log_checks import CheckedLogs
from lakeward.services.compaction.run.plan_preview import Preview, only_writes_began, timeline_if_unchanged
from lakeward.table.timeline.timeline import Timeline
from tests.crash.compacting import FULL
from tests.golden_tables import copy_golden
from tests.services.bench import Bench
from tests.synthetic_table import completed, log_compacted, minute, pending

AT = 1_000.0


def timeline(instants: Iterable[Instant]) -> Timeline:
    names = [instant.file_name for instant in instants]
    return Timeline(tuple(instants), modified=dict.fromkeys(names, AT), sizes=dict.fromkeys(names, 100))


BEFORE = timeline(
    [
        *completed(minute(1), "deltacommit"),
        *pending(minute(2), "deltacommit", State.REQUESTED),
        *completed(minute(3), "deltacommit", at=minute(4)),
    ]
)
THE_SAME = list(BEFORE.instants)
ITS_INFLIGHT = [each for each in pending(minute(2), "deltacommit") if each.state is State.INFLIGHT]
LAST = THE_SAME[-1].file_name

CASES: dict[str, tuple[Timeline, bool]] = {
    "nothing happened": (BEFORE, True),
    "a write began": (timeline([*THE_SAME, *pending(minute(5), "deltacommit", State.REQUESTED)]), True),
    "a write began and went on": (timeline([*THE_SAME, *pending(minute(5), "deltacommit")]), True),
    "a pending write went on": (timeline([*THE_SAME, *ITS_INFLIGHT]), True),
    "a write began that took its time before a commit": (
        timeline([*THE_SAME, *pending(minute(3) + "1", "deltacommit", State.REQUESTED)]),
        False,
    ),
    "a write ended": (timeline([*THE_SAME, *completed(minute(5), "deltacommit")]), False),
    "a pending write ended": (timeline([*THE_SAME, *completed(minute(2), "deltacommit", at=minute(5))[1:]]), False),
    "a log compaction ended": (timeline([*THE_SAME, *log_compacted(minute(5))]), False),
    "an instant was archived": (timeline(THE_SAME[3:]), False),
    "a file was rewritten": (replace(BEFORE, modified={**BEFORE.modified, LAST: AT + 1}), False),
    "a file grew": (replace(BEFORE, sizes={**BEFORE.sizes, LAST: 101}), False),
    "an unknown action": (replace(BEFORE, unknown=(minute(5) + ".magic",)), False),
    **{
        f"a {action} was planned": (timeline([*THE_SAME, *pending(minute(5), action, State.REQUESTED)]), False)
        for action in ("compaction", "logcompaction", "clustering", "replacecommit", "clean", "rollback", "restore")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_what_may_happen_beside_a_choice(case: str) -> None:
    """Only writes that began after all that was there, or went on, leave it right. Keeps of
    services/compaction/run/plan_preview."""
    now, stands = CASES[case]
    assert only_writes_began(BEFORE, now) is stands


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


def table_of(bench: Bench) -> ServicedTable:
    return bench.compactor()._table


def previewed(bench: Bench) -> Preview:
    table = table_of(bench)
    return choose(table, FULL, table.snapshot(), CheckedLogs())


def begin_a_write(base: Path) -> None:
    (base / ".hoodie/timeline/20991231235959999.deltacommit.requested").touch()


def change_properties(base: Path) -> None:
    properties = base / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.name=", "hoodie.table.name=x"))


def begin_schema_history(base: Path) -> None:
    (base / ".hoodie/.schema").mkdir(exist_ok=True)
    (base / ".hoodie/.schema/20260101000000000.schemacommit").write_text("{}")


ON_STORAGE: dict[str, tuple[Callable[[Path], object], bool]] = {
    "nothing happened": (lambda base: None, True),
    "a write began": (begin_a_write, True),
    "other properties": (change_properties, False),
    "a schema history": (begin_schema_history, False),
}


@pytest.mark.parametrize("case", ON_STORAGE)
def test_the_table_is_compared(bench: Bench, case: str) -> None:
    """A choice that stands is the one that would be made now; the timeline that was compared is given back. Keeps of
    services/compaction/run/plan_preview."""
    happen, stands = ON_STORAGE[case]
    preview = previewed(bench)
    happen(bench.base)
    found = timeline_if_unchanged(table_of(bench), preview)
    assert (found is not None) is stands
    if found is not None:
        now = previewed(bench)
        assert found == now.snapshot.timeline
        assert preview.outcome.operations == now.outcome.operations != ()


def test_a_choice_for_a_time_before_a_commit_does_not_stand(bench: Bench) -> None:
    """A clock that is behind leaves the commit out as one of later, and the plan's own time would lie behind it. Keeps
    of services/compaction/run/plan_preview."""
    preview = previewed(bench)
    newest = preview.snapshot.timeline.latest_time
    assert newest is not None and comparable_time(newest) < preview.at
    assert timeline_if_unchanged(table_of(bench), preview) is not None
    assert timeline_if_unchanged(table_of(bench), replace(preview, at=newest)) is None
