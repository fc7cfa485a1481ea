"""The words of `lakeward doctor`: patterns that it knows, what it found of each in a table, and what it did not see.

    Pattern    what can be wrong, how bad that is, why, and what looks for it: the same for all tables
    Symptom    one place where this table has it: the instant or the file, the evidence, what to do
    Diagnosis  the patterns of a table with their symptoms, and those that could not be looked for; as JSON the same for
               `lakeward doctor --json`, the store and the table's page

Touches: nothing.
Keeps:   1. a diagnosis is as bad as its worst pattern, and one that did not see everything is never healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeward.services.together.doctor.doctor_view import DoctorView


class Grade(StrEnum):
    """How bad a pattern is. Stable names: scripts match on them."""

    DANGER = "danger"
    """Rows are lost or doubled, or readers fail; or it happens at the next step of some engine."""
    WARNING = "warning"
    """No row is wrong, but work is stuck, and gets worse until an operator acts."""
    ADVICE = "advice"
    """The table is right, and slower or larger than it has to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One place where a table has a pattern."""

    subject: str
    """The instant, the file, the partition or the property that it is about."""
    evidence: tuple[str, ...]
    """What shows it, in files, instants and figures of this table."""
    remedy: str
    """What to do, in a sentence or two."""
    command: str | None = None
    """The command that does it; None where only a person can."""
    dry_run: str | None = None
    """The same command where it only says what it would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What breaks tables, by experience."""

    code: str
    """Stable: scripts and pages name it."""
    grade: Grade
    title: str
    """What is wrong, as a sentence without its full stop."""
    why: str
    """What happens because of it."""
    source: str
    """The issues that report it, or what proves it."""
    tried: str
    """What Hudi 1.2.0 makes of a table that has it, in a sentence or two."""
    check: Callable[[DoctorView], Iterable[Symptom]]
    needs: str = ""
    """The option without which it is not looked for, since that takes long on a large table; else empty."""


class LeftOut(Exception):
    """Raised by a check that this release does not make in a table of this kind, whatever its state is."""


@dataclass(frozen=True, slots=True)
class PatternFound:
    pattern: Pattern
    symptoms: tuple[Symptom, ...]


@dataclass(frozen=True, slots=True)
class PatternUnseen:
    """A pattern of which it is not known whether the table has it."""

    pattern: Pattern
    why: str
    is_chosen: bool = False
    """It was left out on purpose: it was not asked for, or this release never looks for it in a table of this kind.
    Otherwise the check failed."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    found: tuple[PatternFound, ...]
    """The worst first."""
    unseen: tuple[PatternUnseen, ...]
    absent: tuple[Pattern, ...]
    """The patterns that were looked for and that the table does not have."""

    @property
    def failed(self) -> tuple[PatternUnseen, ...]:
        """The patterns that could not be looked for."""
        return tuple(each for each in self.unseen if not each.is_chosen)

    @property
    def worst(self) -> Grade | None:
        """None where nothing was found."""
        grades = {each.pattern.grade for each in self.found}
        return next((grade for grade in Grade if grade in grades), None)

    @property
    def is_healthy(self) -> bool:
        """Nothing was found, and everything was looked for but what was left out on purpose."""
        return self.worst is None and not self.failed


def diagnosis_as_json(base_path: str, diagnosis: Diagnosis, *, most: int | None = None) -> dict[str, Any]:
    """
    Args:
        most: how many symptoms of a pattern are named, and how many lines of evidence of each; None for all.
    """
    return {
        "base_path": base_path,
        "healthy": diagnosis.is_healthy,
        "worst": diagnosis.worst and diagnosis.worst.value,
        "found": [
            {
                **_pattern_as_json(each.pattern),
                "places": len(each.symptoms),
                "symptoms": [_symptom_as_json(symptom, most) for symptom in each.symptoms[:most]],
            }
            for each in diagnosis.found
        ],
        "unseen": [
            {"code": each.pattern.code, "why": each.why, "by_choice": each.is_chosen} for each in diagnosis.unseen
        ],
        "absent": [pattern.code for pattern in diagnosis.absent],
    }


def _pattern_as_json(pattern: Pattern) -> dict[str, str]:
    return {
        "code": pattern.code,
        "grade": pattern.grade.value,
        "title": pattern.title,
        "why": pattern.why,
        "source": pattern.source,
        "tried": pattern.tried,
    }


def _symptom_as_json(symptom: Symptom, most: int | None) -> dict[str, Any]:
    return {
        "subject": symptom.subject,
        "evidence": list(symptom.evidence[:most]),
        "remedy": symptom.remedy,
        "command": symptom.command,
        "dry_run": symptom.dry_run,
    }
