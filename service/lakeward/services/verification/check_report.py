"""The result of checks of a table: what was checked, what is wrong, and what could not be checked.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.format.metadata.partition import FILES
from lakeward.format.parquet.read_meter import ReadMeter


@dataclass(frozen=True, slots=True)
class Problem:
    check: str
    subject: str
    """A file below the base path, a partition, or a record key."""
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked."""

    name: str
    checked: int
    of: int | None
    """How many there are, where that is known."""
    unit: str
    note: str = ""
    read: ReadMeter | None = None
    """How much was read of the rows of the table's files, where the check needs rows."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    checks: tuple[Check, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be checked, and what is no fault but worth knowing."""

    def __add__(self, other: CheckReport) -> CheckReport:
        return CheckReport(self.checks + other.checks, self.problems + other.problems, self.notes + other.notes)


def metadata_remedy(partition: str) -> str:
    """How a partition of the metadata table is made right again."""
    command = "disable TABLE" if partition == FILES else f"drop TABLE {partition}"
    return f"Run `lakeward metadata {command}`, and let a Hudi writer write once with the metadata table on."
