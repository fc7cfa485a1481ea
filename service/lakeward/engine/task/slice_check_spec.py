"""What the check of one file slice needs to know, and what it found: the values that travel to executors and back.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.read.slice_input import SliceInput


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """What the commit that wrote a file says of it."""

    path: str
    """Relative to the base path."""
    size_bytes: int | None
    """None where the commit is not on the active timeline or does not say."""
    rows: int | None = None
    """Rows of a base file."""


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """What a task needs to know; picklable."""

    slice: SliceInput
    files: tuple[ExpectedFile, ...]


@dataclass(frozen=True, slots=True)
class CheckedSlice:
    """What was found."""

    rows: int
    keys: int
    """How many were merged again the slow way."""
    problems: tuple[str, ...]
    not_merged: str | None = None
    """Why the slice was not read to its end, where this release cannot."""
    read: ReadMeter = field(default_factory=ReadMeter)
