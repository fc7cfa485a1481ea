"""Look for every pattern in a table.

Writers work meanwhile, and half of one of their steps may look like a pattern: a compaction completes and its files are
cleaned after the timeline was listed and before the files are. So a pattern that is found is looked for again on a
fresh view, and counts only where both show the same place.

Touches: the table, reading only, through `doctor_view`.
Keeps:   1. a check that fails silences no other one, and its pattern is unseen, never absent;
         2. a symptom counts only if two views show it;
         3. a pattern that needs an option is looked for only with it, and one that a table of this kind is never
            examined for is not: both are named as left out;
         4. the guard is asked before each pattern, and what it raises ends the examination.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from lakeward.base.errors import Cancelled, LakewardError
from lakeward.protocol.lock.table_lock import Guard
from lakeward.services.together.doctor.diagnosis import (
    Diagnosis,
    Grade,
    LeftOut,
    Pattern,
    PatternFound,
    PatternUnseen,
    Symptom,
)
from lakeward.services.together.doctor.doctor_view import DoctorView


def examine(
    patterns: Sequence[Pattern],
    view_now: Callable[[], DoctorView],
    *,
    with_options: Collection[str] = (),
    guard: Guard = lambda: None,
) -> Diagnosis:
    """Every pattern is among those that are found, unseen or absent.

    Args:
        view_now: gives a fresh view of the table; asked again where something is found.
        with_options: the options that were given, of those that patterns need.
        guard: raises where the examination has to stop.
    """
    first = view_now()
    second: DoctorView | None = None
    found: list[PatternFound] = []
    unseen: list[PatternUnseen] = []
    absent: list[Pattern] = []
    for pattern in patterns:
        if pattern.needs and pattern.needs not in with_options:
            unseen.append(
                PatternUnseen(pattern, f"It takes long on a large table: {pattern.needs} looks for it.", is_chosen=True)
            )
            continue
        guard()
        try:
            symptoms = tuple(pattern.check(first))
            if symptoms:
                second = view_now() if second is None else second
                symptoms = _seen_twice(symptoms, pattern.check(second))
        except Cancelled:
            raise
        except LeftOut as limit:
            unseen.append(PatternUnseen(pattern, str(limit), is_chosen=True))
            continue
        except Exception as error:  # a table may be broken in a way that no check expects; the others go on
            unseen.append(PatternUnseen(pattern, _reason(error)))
            continue
        if symptoms:
            found.append(PatternFound(pattern, symptoms))
        else:
            absent.append(pattern)
    found.sort(key=lambda each: list(Grade).index(each.pattern.grade))
    return Diagnosis(tuple(found), tuple(unseen), tuple(absent))


def _seen_twice(first: Iterable[Symptom], second: Iterable[Symptom]) -> tuple[Symptom, ...]:
    before = {symptom.subject for symptom in first}
    return tuple(symptom for symptom in second if symptom.subject in before)


def _reason(error: Exception) -> str:
    if isinstance(error, LakewardError):
        return f"{error.what} {error.why}".strip()
    return f"{type(error).__name__}: {error}"
