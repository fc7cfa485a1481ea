"""When a clean can be undone, and what the table can be read as of then, by timelines as text.

write:T  replace:T@C     completed commits
clean:T keep=E took      a completed clean: its earliest instant, and whether it took files away
undo:T of=R keep=E       a completed clean that undoes another
pendingclean:T  restore:T
"""

from __future__ import annotations

import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.services.clean.plan.undo_plan import UndoPlan, plan_undo
from lakeward.table.quarantine import Manifest, QuarantinedFile, QuarantinedRun, QuarantineKind
from lakeward.table.timeline.cleans import Clean, not_undone
from lakeward.table.timeline.timeline import Timeline
from tests.synthetic_table import TOKEN, completed, minute, pending


def parse(text: str) -> tuple[Timeline, list[Clean]]:
    instants, cleans = [], []
    for line in text.split(","):
        head, *words = line.split()
        kind, _, number = head.partition(":")
        time = minute(int(number))
        said = dict(word.partition("=")[::2] for word in words)
        keep = minute(int(said["keep"])) if "keep" in said else ""
        match kind:
            case "write":
                instants += completed(time, "deltacommit")
            case "replace":
                instants += completed(time, "replacecommit")
            case "restore":
                instants += completed(time, "restore")
            case "clean":
                instants += completed(time, "clean")
                cleans.append(Clean(time, True, keep, {"p": ("f",)} if "took" in said else {}))
            case "undo":
                instants += completed(time, "clean")
                cleans.append(Clean(time, True, keep, {}, minute(int(said["of"]))))
            case "pendingclean":
                instants += pending(time, "clean")
                cleans.append(Clean(time, False, keep))
    return Timeline(tuple(instants)), cleans


def file(instant: int, replaced_by: int | None = None) -> QuarantinedFile:
    return QuarantinedFile(
        "p", f"g_{TOKEN}_{minute(instant)}.parquet", 10, None if replaced_by is None else minute(replaced_by)
    )


def held(*files: QuarantinedFile, **state: object) -> QuarantinedRun:
    manifest = Manifest(QuarantineKind.CLEAN, 0.0, 1.0, False, files or (file(10),))
    return QuarantinedRun(minute(30), QuarantineKind.CLEAN, (manifest,), **state)  # type: ignore[arg-type]


def plan(text: str, run: QuarantinedRun | None = None, **facts: object) -> UndoPlan:
    return plan_undo(minute(30), *parse(text), run or held(), **facts)  # type: ignore[arg-type]


PLAIN = "write:10,write:20,clean:30 keep=20 took,write:40"


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        (PLAIN, 10),
        ("write:10,clean:12 keep=10 took,write:20,clean:30 keep=20 took", 10),
        ("write:8,clean:9 keep=8 took,write:10,clean:12 keep=10,write:20,clean:30 keep=20 took", 10),
        ("write:5,write:10,clean:12 keep=10 took,undo:13 of=12 keep=5,write:20,clean:30 keep=20 took", 5),
        ("write:10,clean:12,write:20,clean:30 keep=20 took", 10),
        ("write:10,clean:30 keep=20 took,clean:31 keep=25 took,undo:32 of=31 keep=20,write:40", 10),
        ("write:10,clean:30 keep=20 took,clean:31 keep=25", 10),
    ],
)
def test_the_earliest_instant_is_that_of_the_clean_before(text: str, keep: int):
    """It is what the last clean that stands kept, else the start of the timeline, never before what an earlier one took
    away. Keeps 3 of services/clean/plan/undo_plan."""
    assert plan(text).earliest.time == minute(keep)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{PLAIN},clean:50 keep=40 took", "came after it"),
        (f"{PLAIN},pendingclean:50 keep=40", "came after it"),
        (f"{PLAIN},restore:50", "Restore"),
        ("write:40", "not on the active timeline"),
        ("write:10,pendingclean:30 keep=20", "pending"),
    ],
)
def test_it_is_the_last_that_took_something_away(text: str, why: str):
    """After a later clean, or a restore, nothing comes back. Keeps 1 of services/clean/plan/undo_plan."""
    with pytest.raises(Refused, match="cannot be undone") as error:
        plan(text)
    assert why in error.value.why


@pytest.mark.parametrize(
    ("run", "facts", "why"),
    [
        (held(problem="torn"), {}, "torn"),
        (held(is_purging=True), {}, "being purged"),
        (QuarantinedRun(minute(30), QuarantineKind.CLEAN, ()), {}, "deleted at once"),
        (held(), {"missing": ["p/f"]}, "nowhere any more"),
        (held(), {"partitions_gone": ["p"]}, "no partition any more"),
        (held(file(15)), {}, "rolled back"),
        (held(file(10, replaced_by=5)), {}, "None of its files"),
    ],
)
def test_nothing_comes_back_that_is_not_whole(run: QuarantinedRun, facts: dict[str, list[str]], why: str):
    """It says by name what is not there, or not of the table any more. Keeps 2 of services/clean/plan/undo_plan."""
    with pytest.raises(Refused) as error:
        plan(PLAIN, run, **facts)
    assert why in error.value.why


def test_replaced_files_without_their_replacecommit_stay_away():
    """One that is archived, or that the archiver may take, would let them be read again; the others come back."""
    text = "write:8,replace:9,write:10,clean:12 keep=10 took,replace:15,write:20,clean:30 keep=20 took"
    files = [
        QuarantinedFile("p", f"{name}_{TOKEN}_{minute(8)}.parquet", 10, at)
        for name, at in {"kept": None, "lately": minute(15), "before": minute(9), "gone": minute(14)}.items()
    ]
    found = plan(text, held(*files))

    assert {each.name.split("_")[0] for each in found.files} == {"kept", "lately"}
    assert {path.split("/")[1].split("_")[0] for path in found.left} == {"before", "gone"}


def test_what_is_not_there_is_a_slip_of_the_hand():
    """No clean of that instant, and one that is undone already."""
    for text in ("write:10,write:20", f"{PLAIN},undo:50 of=30 keep=10"):
        with pytest.raises(UsageError):
            plan(text)


def test_cleans_that_stand():
    """One that was undone does not count any more, and its undo does."""
    _, cleans = parse(f"{PLAIN},undo:50 of=30 keep=10")
    assert [clean.instant for clean in not_undone(cleans)] == [minute(50)]
