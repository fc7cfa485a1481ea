"""The names of what an attempt leaves below `.hoodie/.temp/<instant>/` until its instant is completed.

    attempt-<number>/              what is staged: results, the commit, the metadata table's part of it
    dead-attempt-<number>-<by>/    the same of an attempt that was fenced off
    attempt-<number>-undoing/      into which a process rolls back what is on the metadata table's timeline
    <partition>/<file>.marker.*    that a file may stand in the table: by each task, in an object store
    MARKERS<number>, MARKERS.type  the same in one list, as Hudi's timeline server writes it

Hudi rolls an attempt of Lakeward back by these markers. It takes every file in the folder for a marker, and finds none
as soon as one is no marker, as what is staged; where `MARKERS.type` says so it reads the lists, and nothing else.

Touches: nothing.
Source:  MarkerBasedRollbackUtils, DirectWriteMarkers, MarkerUtils (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakeward.base.paths import join

COMMIT_FILE = "commit"
"""The name of a file in the attempt's folder: what will be the completed file."""

ROLLING_BACK = "-undoing"
"""Ends the name of a folder into which an attempt is rolled back, instead of out of which it is published."""

ATTEMPT = "attempt-"
FENCED_OFF = "dead-attempt-"

MARKERS = "MARKERS"
MARKERS_TYPE = "MARKERS.type"
MARKERS_IN_LISTS = b"TIMELINE_SERVER_BASED"
MARKER = ".marker."


@dataclass(frozen=True, slots=True)
class Winner:
    """A file that will belong to the commit."""

    partition_path: str
    file_name: str
    replaces_base_file: bool
    """Whether the slice had a base file: the marker's type says so."""

    @property
    def path(self) -> str:
        """The path below the table."""
        return join(self.partition_path, self.file_name)

    @property
    def marker(self) -> str:
        """The marker's path below the instant's folder."""
        return f"{self.path}{MARKER}{'MERGE' if self.replaces_base_file else 'CREATE'}"


def temp_folder(root: str, instant: str) -> str:
    return join(root, ".hoodie/.temp", instant)


def attempt_folder(root: str, instant: str, number: int) -> str:
    return join(temp_folder(root, instant), f"{ATTEMPT}{number}")


def rollback_folder(root: str, instant: str, number: int) -> str:
    """Named like an attempt's, so that a process that fences an attempt off fences off one that rolls it back, too."""
    return attempt_folder(root, instant, number) + ROLLING_BACK


def marker_files(number: int, markers: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The marker list of an attempt, by name and content. The list comes first: by the type alone there is none."""
    yield f"{MARKERS}{number}", "".join(f"{marker}\n" for marker in markers).encode()
    yield MARKERS_TYPE, MARKERS_IN_LISTS
