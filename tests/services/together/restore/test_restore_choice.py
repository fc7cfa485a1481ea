"""What a restore rolls back, and when it is refused. The cases as text are in `restoring.cases`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.format.file_name import LogFileName
from lakeward.format.timeline.clean_plan import Retained
from lakeward.format.timeline.instant import State
from lakeward.services.clean.plan.undo_plan import UndoPlan
from lakeward.services.together.restore.restore_choice import (
    check_nothing_in_the_way,
    check_readable,
    choose_undos,
    find_later,
    find_target,
)
from lakeward.table.file_group import FrozenGroup
from lakeward.table.file_system_view import FileSystemView
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.savepoints import Savepoint
from lakeward.table.timeline.timeline import Timeline
from tests.services.compaction.plan.planner_cases import Case, read_cases
from tests.synthetic_table import TOKEN, _instant, completed, log_compacted, pending

CASES = read_cases(Path(__file__).with_name("restoring.cases"))[1]
NOTHING = FileSystemView((), (), (), ())


def at(number: str | int) -> str:
    return f"20260101000000{int(number):03}"


def later(table: str) -> list[str]:
    instants, target, merge_on_read = [], "", True
    for line in table.splitlines():
        match line.split():
            case ["copy-on-write"]:
                merge_on_read = False
            case ["to", number]:
                target = at(number)
            case ["compaction", number, "at", completion]:
                instants += completed(at(number), "commit", at(completion))
            case ["logcompaction", number, "at", completion]:
                instants += log_compacted(at(number), at(completion))
            case ["clustering", number, "at", completion]:
                instants += pending(at(number), "clustering")
                instants.append(_instant(at(number), "replacecommit", State.COMPLETED, at(completion)))
            case [action, number, "at", completion]:
                instants += completed(at(number), action, at(completion))
            case [action, number]:
                instants += pending(at(number), action)
            case other:
                raise AssertionError(f"no such line: {other}")
    timeline = Timeline(tuple(instants))
    found = find_later(timeline, find_target(timeline, target), merge_on_read=merge_on_read)
    return [f"{each.action} {int(each.time[-3:])}" for each in found]


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_each_case(case: Case) -> None:
    """Keeps 1 of services/together/restore/restore_choice."""
    assert (later(case.table) or ["nothing"]) == case.expected.strip().splitlines()


@pytest.mark.parametrize(("target", "why"), [(30, "not on the active timeline"), (20, "inflight, not completed")])
def test_only_a_completed_commit_is_gone_back_to(target: int, why: str) -> None:
    """A savepoint's time is its commit's."""
    timeline = Timeline((*completed(at(10), "deltacommit"), *pending(at(20), "deltacommit")))
    with pytest.raises(UsageError, match=f"cannot go back to {at(target)}") as error:
        find_target(timeline, at(target))
    assert why in error.value.why


def test_a_later_savepoint_is_in_the_way() -> None:
    """Hudi would fail when it reaches it, half-way. One of the commit itself is not."""
    instants = [*completed(at(10), "deltacommit"), *completed(at(20), "deltacommit")]
    for number, raises in ((10, False), (20, True)):
        saved = _instant(at(number), "savepoint", State.COMPLETED, at(30))
        timeline = Timeline((*instants, saved))
        after = find_later(timeline, find_target(timeline, at(10)), merge_on_read=True)
        if raises:
            with pytest.raises(Refused, match="has a savepoint"):
                check_nothing_in_the_way(timeline, at(10), after)
        else:
            check_nothing_in_the_way(timeline, at(10), after)


def test_a_pending_rollback_is_in_the_way() -> None:
    """It is ended by what ends rollbacks."""
    timeline = Timeline((*completed(at(10), "deltacommit"), *pending(at(20), "rollback")))
    with pytest.raises(Refused, match=r"rollback .* is pending"):
        check_nothing_in_the_way(timeline, at(10), ())


LOG = LogFileName("g", at(5), 1, TOKEN).text
LATER_LOG = LogFileName("g", at(12), 1, TOKEN).text
GONE_LOG = LogFileName("g", at(10), 1, TOKEN).text
CLEANED = {"p": (f"g_{TOKEN}_{at(8)}.parquet",)}


@pytest.mark.parametrize(
    ("says", "why"),
    [
        pytest.param({}, None, id="all is there"),
        pytest.param({"earliest": at(10)}, None, id="all as of the commit was kept"),
        pytest.param({"earliest": at(11)}, "this is before it", id="a clean kept later ones only"),
        pytest.param({"earliest": at(11), "kept": {"p": {LOG}}}, None, id="a savepoint kept its files"),
        pytest.param({"kept": {"p": {"other"}}}, "names p/other, which is gone", id="not all of them"),
        pytest.param({"kept": {"p": {LATER_LOG}}}, None, id="but for a log that an earlier restore rolled back"),
        pytest.param(
            {"kept": {"p": {GONE_LOG}}}, f"names p/{GONE_LOG}, which is gone", id="a log of a commit that is there"
        ),
        pytest.param({"deleted": CLEANED}, "deleted p/g_", id="by file versions, a base file of it"),
        pytest.param(
            {"earliest": at(11), "kept": {"p": {LOG}}, "deleted": CLEANED}, "deleted p/g_", id="beside a savepoint"
        ),
        pytest.param({"frozen": True}, "a file is missing", id="a file group that would lack a file"),
        pytest.param({"archived": True}, "archived already", id="what came after it was archived"),
    ],
)
def test_what_is_gone_is_not_gone_back_to(says: dict[str, object], why: str | None) -> None:
    """Keeps 2 of services/together/restore/restore_choice."""
    # With a savepoint the archiver may leave the commit behind and go on with what came after it.
    start = at(20) if "archived" in says else at(1)
    saved = [_instant(at(10), "savepoint", State.COMPLETED, at(11))] if "archived" in says else []
    timeline = Timeline((*completed(start, "deltacommit"), *completed(at(10), "deltacommit"), *saved))
    kept = says.get("kept")
    frozen = (FrozenGroup("p", "g", at(5), "a file is missing"),) if "frozen" in says else ()

    def check() -> None:
        check_readable(
            find_target(timeline, at(10)),
            frozenset(),
            FileSystemView((), frozen, (), ()),
            {},
            [Clean(at(30), True, str(says.get("earliest", "")), says.get("deleted", {}))],  # type: ignore[arg-type]
            None if kept is None else Savepoint(at(10), "", "", 0.0, {k: frozenset(v) for k, v in kept.items()}),  # type: ignore[attr-defined]
            {"p": {LOG, LATER_LOG} if "archived" in says else {LOG}},
            timeline,
            native=False,
        )

    if why is None:
        check()
        return
    with pytest.raises(Refused, match=f"cannot go back to {at(10)}") as error:
        check()
    assert why in error.value.why


@pytest.mark.parametrize(
    ("cleans", "enough", "kept", "undone"),
    [
        pytest.param([20, 30, 40], 0, [20, 30, 40], [], id="nothing is missing"),
        pytest.param([20, 30, 40], 2, [20, 30, 40], [40, 30], id="the newest first, and no more than it takes"),
        pytest.param(
            [20, 30, 40], 2, [30], "Clean 40 took", id="one that cannot be undone is in the way of those before"
        ),
        pytest.param([5, 20], 2, [5, 20], "is missing", id="a clean before the commit took nothing of it"),
        pytest.param([20], 2, [20], "is missing", id="none where that is not enough"),
    ],
)
def test_which_cleans_are_undone(cleans: list[int], enough: int, kept: list[int], undone: list[int] | str) -> None:
    """Keeps 3 of services/together/restore/restore_choice."""
    took = [Clean(at(number), True, at(number), {"p": ("f",)}) for number in cleans]
    before = sorted([*took, Clean(at(25), True, at(20), {})], key=lambda each: each.instant)

    def undo(clean: str, then: Sequence[Clean]) -> UndoPlan:
        assert [each.undoes for each in then[len(before) :]] == [e.instant for e in took[::-1] if e.instant > clean]
        if int(clean[-3:]) not in kept:
            raise Refused("It cannot be undone.", why="It was deleted at once.")
        return UndoPlan(clean, (), Retained(at(1), "commit", "COMPLETED"))

    def check(then: Sequence[Clean], undos: Sequence[UndoPlan]) -> None:
        if len(undos) < enough:
            raise Refused("It cannot go back.", why="A file is missing.")

    def choose() -> list[int]:
        timeline = Timeline(tuple(completed(at(10), "deltacommit")))
        chosen = choose_undos(find_target(timeline, at(10)), before, undo=undo, check=check)
        return [int(each.run[-3:]) for each in chosen]

    if isinstance(undone, list):
        assert choose() == undone
        return
    with pytest.raises(Refused, match="cannot go back") as error:
        choose()
    assert undone.replace("Clean 40", f"Clean {at(40)}") in error.value.why
