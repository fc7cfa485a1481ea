"""What `clean --dry-run` shows: until when a slice stays, and why nothing may go though something is dead."""

from __future__ import annotations

import io

from rich.console import Console

from lakeward.cli.services.clean_view import clean_as_json, render_clean
from lakeward.services.clean.plan.decision import CleanOutcome
from tests.services.clean.plan.clean_cases import read_table

HOURS = """policy hours 1
now 100
done commit 10 20 39 40 60
group a 10 20 39 60"""

LEFT = """policy versions 1
done commit 10
done replacecommit 30
group a 10 30
group q/b 10
replaced q/b by 30
only p"""


LEFT_IN_PLACE = """policy commits 1
done commit 10 20 30 40
group a 10 20 30 40
left_in_place a@10 of 25 until 90"""


FEW = """policy commits 3
done commit 10 20
group a 10 20"""

HELD = """policy commits 1
pending deltacommit 5
done commit 10 20 30
group a 10 20 30"""

TWO_REASONS = """policy commits 1
done commit 10 20 30
group a 10 20 30
savepoint 20 a@20"""


def shown(outcome: CleanOutcome) -> str:
    console = Console(file=io.StringIO(), width=400)
    render_clean(outcome, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_until_when_a_slice_stays() -> None:
    """A policy of hours has a moment, for people and for scripts."""
    outcome = read_table(HOURS).plan()
    (kept,) = clean_as_json(outcome)["kept"]
    assert kept["reasons"][0]["not_before"] == "2026-01-01T02:00:00.000Z"
    assert "the first can go from 2026-01-01 02:00:00 UTC on" in shown(outcome)


def test_why_nothing_may_go() -> None:
    """A slice is dead, and the clean is refused for a replaced file that it would leave."""
    outcome = read_table(LEFT).plan()
    assert clean_as_json(outcome)["files"] == 1
    assert "Hudi may archive that instant" in clean_as_json(outcome)["hindrance"]
    assert "Nothing would go now. Files of file groups that" in shown(outcome)


def test_what_an_earlier_clean_took_away_is_distinguished() -> None:
    """What stays until it is deleted is not among what would go, and is shown with its clean and the moment."""
    outcome = read_table(LEFT_IN_PLACE).plan()
    reported = clean_as_json(outcome)
    assert (reported["files"], [each["base_instant"] for each in reported["dead"]]) == (1, ["20260101002000000"])
    assert [(each["reasons"][0]["reason"], each["reasons"][0]["not_before"]) for each in reported["kept"][-1:]] == [
        ("quarantined", "2026-01-01T01:30:00.000Z")
    ]
    assert (
        "Kept, quarantined: 1 file of 1 slice, 10 B, taken away by clean 20260101002500000 already, they stand until "
        "they are deleted; the first can go from 2026-01-01 01:30:00 UTC on." in shown(outcome)
    )


def test_a_pending_instant_is_named_where_there_is_one() -> None:
    """None is spoken of where a table has too few commits."""
    assert shown(read_table(FEW).plan()).startswith(
        "By commits, 3: 2 commits have completed, no more than are kept, so all stays.\n"
    )
    assert shown(read_table(HELD).plan()).startswith(
        "By commits, 1: 20260101000500000 is pending, and no commit before it has completed, so all stays.\n"
    )


def test_a_file_that_two_things_keep_is_counted_once() -> None:
    """The lines of what is kept add up to what the table of partitions says."""
    reported = shown(read_table(TWO_REASONS).plan())
    kept = [line for line in reported.splitlines() if line.startswith("Kept, ")]
    assert kept == [
        "Kept, retained and savepoint: 1 file of 1 slice, 10 B, read as of what the policy keeps; the first can go "
        "after 1 more commit; and pinned by the savepoint of 20260101002000000, until it is deleted."
    ]
