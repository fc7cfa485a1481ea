"""Every pattern ends up as found, absent or unseen, whatever happens to a check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import pytest

from lakeward.base.errors import BrokenFile, Cancelled
from lakeward.services.together.doctor.diagnosis import Diagnosis, Grade, Pattern, Symptom
from lakeward.services.together.doctor.doctor_view import DoctorView
from lakeward.services.together.doctor.examination import examine

ONE = Symptom(subject="f1", evidence=("it is so",), remedy="Do that.")
OTHER = Symptom(subject="f2", evidence=("it is so",), remedy="Do that.")


class Views:
    """Gives numbers in place of views: how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> DoctorView:
        self.asked += 1
        return cast(DoctorView, self.asked)


def pattern(
    code: str, *by_view: Iterable[Symptom] | Exception, grade: Grade = Grade.DANGER, needs: str = ""
) -> Pattern:
    """It finds in each view what is given for that."""

    def check(view: DoctorView) -> Iterator[Symptom]:
        found = by_view[min(cast(int, view), len(by_view)) - 1]
        if isinstance(found, Exception):
            raise found
        yield from found

    return Pattern(code=code, grade=grade, title="T", why="W.", source="S", tried="H.", check=check, needs=needs)


def codes(diagnosis: Diagnosis) -> tuple[list[str], list[str], list[str]]:
    return (
        [each.pattern.code for each in diagnosis.found],
        [each.pattern.code for each in diagnosis.unseen],
        [each.code for each in diagnosis.absent],
    )


def test_it_can_be_stopped() -> None:
    """Keeps 4 of services/together/doctor/examination: before each pattern, and nothing is made of what was seen."""
    asked: list[int] = []

    def guard() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        examine([pattern("a", []), pattern("b", [ONE])], Views(), guard=guard)


@pytest.mark.parametrize("error", [BrokenFile("It is torn.", why="So it is."), OSError("gone"), KeyError("partition")])
def test_a_check_that_fails_silences_no_other_one(error: Exception) -> None:
    """Keeps 1 of services/together/doctor/examination and of services/together/doctor/diagnosis: what it would have
    found is unknown, the table does not count as healthy, and the other checks go on."""
    diagnosis = examine([pattern("broken", error), pattern("sick", [ONE]), pattern("well", [])], Views())

    assert codes(diagnosis) == (["sick"], ["broken"], ["well"])
    assert str(error.args[0]) in diagnosis.unseen[0].why
    alone = examine([pattern("broken", error), pattern("well", [])], Views())
    assert (alone.worst, alone.is_healthy, len(alone.failed)) == (None, False, 1)


def test_a_check_that_fails_on_the_second_view() -> None:
    """What it found once counts neither as found nor as absent."""
    assert codes(examine([pattern("torn", [ONE], BrokenFile("It is torn."))], Views())) == ([], ["torn"], [])


def test_an_interruption_is_no_failed_check() -> None:
    """Ctrl-C ends the command."""
    with pytest.raises(Cancelled):
        examine([pattern("broken", Cancelled("Interrupted."))], Views())


def test_what_is_seen_once_is_a_step_of_a_writer() -> None:
    """Keeps 2 of services/together/doctor/examination: of two places the one counts that both views show; a table
    where nothing is found is looked at once."""
    views = Views()
    patterns = [pattern("gone", [ONE, OTHER], [OTHER]), pattern("new", [ONE], [ONE, OTHER]), pattern("no", [ONE], [])]
    diagnosis = examine(patterns, views)

    assert codes(diagnosis) == (["gone", "new"], [], ["no"])
    assert [each.symptoms for each in diagnosis.found] == [(OTHER,), (ONE,)]
    assert views.asked == 2
    examine([pattern("well", [])], views)
    assert views.asked == 3


def test_a_pattern_that_is_not_asked_for() -> None:
    """Keeps 3 of services/together/doctor/examination: it is named as left out, which is no failure."""
    patterns = [pattern("costly", [ONE], needs="--keys"), pattern("well", [])]

    left = examine(patterns, Views())
    assert codes(left) == ([], ["costly"], ["well"])
    assert left.is_healthy and not left.failed and "--keys" in left.unseen[0].why
    assert codes(examine(patterns, Views(), with_options={"--keys"})) == (["costly"], [], ["well"])


def test_the_worst_is_first() -> None:
    """Keeps 1 of services/together/doctor/diagnosis: a danger comes before a warning, whatever was looked for first."""
    diagnosis = examine(
        [pattern("b", [ONE], grade=Grade.WARNING), pattern("c", [ONE], grade=Grade.ADVICE), pattern("a", [ONE])],
        Views(),
    )
    assert codes(diagnosis)[0] == ["a", "b", "c"]
    assert diagnosis.worst is Grade.DANGER
    assert examine([pattern("b", [ONE], grade=Grade.WARNING)], Views()).worst is Grade.WARNING
