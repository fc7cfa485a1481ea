"""Why a file still holds a key, until when, and which command ends that: a place in, sentences out.

    data          a file of a slice, or an orphan: as `explain --file` says, by the cleaning settings in force
    quarantine    set aside, until the quarantine's own time
    metadata      of the metadata table, newest or older; its own commits and archive with it
    index         an index of Lakeward, or the cache of filters; of the first also the files at a location of its own
    elsewhere     an index on a server: of Lakeward in PostgreSQL, of Hudi in HBase
    timeline      an instant of the active timeline
    archive       the archived timeline
    attempt       what an attempt at a write or service left, or is making
    other         a file that nothing of the table explains

Touches: nothing.
Keeps:   1. every file below the table has one place, and each place its reason and what ends it;
         2. no command is named that passes over a savepoint, a reader's window or consumer, or the quarantine's time
            without a sentence that says so; among the steps that are planned is none that ends one of these, or that
            takes an index or the metadata table from what uses it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from lakeward.base.quantities import format_time
from lakeward.format.file_name import is_change_log, parse_any_data_file
from lakeward.index.index_type import IndexType
from lakeward.services.clean.plan.keeper import KeepReason
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.together.erasure.file_contents import HeldAs
from lakeward.services.together.erasure.outside_index import AskedIndex
from lakeward.services.together.explaining.file_explanation import FileExplanation, Gone
from lakeward.table.quarantine import FILES, QUARANTINE, Quarantine, set_aside_sentence

_OUTSIDE: Final = re.compile(r"/|[a-z][a-z0-9]*://")
_IN_QUARANTINE: Final = re.compile(rf"\.hoodie/{re.escape(QUARANTINE)}/([^/]+)/(.*)")


class HeldPlace(StrEnum):
    """Which part of the table a file belongs to. Scripts match on these ids."""

    DATA = "data"
    QUARANTINE = "quarantine"
    METADATA = "metadata"
    INDEX = "index"
    ELSEWHERE = "elsewhere"
    TIMELINE = "timeline"
    ARCHIVE = "archive"
    ATTEMPT = "attempt"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ReleaseCommand:
    """A command of Lakeward about the table."""

    verb: str
    """With its group."""
    options: tuple[str, ...] = ()

    def text(self, base_path: str) -> str:
        return shlex.join(["lakeward", *self.verb.split(), base_path, *self.options])


@dataclass(frozen=True, slots=True)
class HeldBecause:
    """Why a file is there, and what ends it."""

    place: HeldPlace
    kind: str
    """What it is, in words."""
    why: tuple[str, ...]
    until: float | None = None
    """It may go then, in seconds since the epoch; None where that is no moment."""
    release: tuple[ReleaseCommand, ...] = ()
    """The commands that end it, in their order."""
    held_by: str | None = None
    """What an operator promised or set aside, which no planned step ends: a savepoint, a reader, the quarantine."""


def place_of(path: str) -> HeldPlace:
    """
    Args:
        path: below the table, or the whole one of a file that is not.
    """
    if _OUTSIDE.match(path):
        return HeldPlace.INDEX
    if not path.startswith(".hoodie/"):
        name = path.rpartition("/")[2]
        return HeldPlace.OTHER if parse_any_data_file(name, native=True) is None else HeldPlace.DATA
    below = path.removeprefix(".hoodie/")
    for start, place in _FOLDERS.items():
        if below.startswith(start):
            return place
    return HeldPlace.TIMELINE


_FOLDERS: Final[Mapping[str, HeldPlace]] = {
    f"{QUARANTINE}/": HeldPlace.QUARANTINE,
    "metadata/": HeldPlace.METADATA,
    ".lakeward/index/": HeldPlace.INDEX,
    ".lakeward/": HeldPlace.OTHER,
    ".temp/": HeldPlace.ATTEMPT,
    ".heartbeat/": HeldPlace.ATTEMPT,
    ".schema/": HeldPlace.OTHER,
    ".aux/": HeldPlace.OTHER,
    "archived/": HeldPlace.ARCHIVE,
    "timeline/history/": HeldPlace.ARCHIVE,
}


@dataclass(frozen=True, slots=True)
class HoldingJudge:
    """Judges the files of one table."""

    quarantine: Quarantine
    has_newer: Mapping[str, bool]
    """Whether its file group has a newer base file, for each base file and log of the metadata table."""

    def judge(
        self, path: str, forms: Sequence[HeldAs], explained: FileExplanation | None, why: Sequence[str]
    ) -> HeldBecause:
        """
        Args:
            explained: of a data file that the table or the quarantine names.
            why: its sentences.
        """
        place = place_of(path)
        match place:
            case HeldPlace.DATA if explained is not None:
                return self._data(path, forms, explained, why)
            case HeldPlace.DATA:
                return HeldBecause(
                    place, "file of no slice", ("The listing of the table's partitions does not have it.",), None
                )
            case HeldPlace.QUARANTINE:
                return self._quarantined(path)
            case HeldPlace.METADATA:
                return self._metadata(path)
            case HeldPlace.INDEX:
                return self._index(path)
            case HeldPlace.TIMELINE:
                said = "It stays on the active timeline until it is archived, and then in the archive for good."
                return HeldBecause(place, "timeline file", (said,))
            case HeldPlace.ARCHIVE:
                return HeldBecause(
                    place, "archived instants", ("Archived instants are kept for good: no service deletes them.",)
                )
            case HeldPlace.ATTEMPT:
                said = "An attempt at a write or a service left it, or is at work; its rollback deletes it."
                return HeldBecause(place, "file of an attempt", (said,), None, (ReleaseCommand("rollback"),))
            case _:
                return HeldBecause(
                    place, "other file", ("Nothing of the table names it: delete it by hand, once it is known.",)
                )

    def _data(self, path: str, forms: Sequence[HeldAs], file: FileExplanation, why: Sequence[str]) -> HeldBecause:
        name = path.rpartition("/")[2]
        kind = "change log" if is_change_log(name) else "base file" if file.log_name is None else "log"
        release: tuple[ReleaseCommand, ...] = ()
        until = held_by = None
        match file.verdict:
            case FileState.LIVE:
                if file.log_name is not None or HeldAs.ROW in forms:
                    release = (ReleaseCommand("compact", (*_FULL, _GROUP, file.file_id)), ReleaseCommand("clean"))
            case FileState.PINNED:
                savepoints = [keeper.instant for keeper in file.keepers if keeper.reason is KeepReason.SAVEPOINT]
                times = [time for time in savepoints if time is not None] or [
                    pinned.savepoint.instant for pinned in file.pinned
                ]
                held_by = f"savepoint {', '.join(times)}"
                release = (*(ReleaseCommand("savepoint delete", (time,)) for time in times), ReleaseCommand("clean"))
            case FileState.RETAINED:
                until, held_by = _kept(file)
                release = (ReleaseCommand("clean", ("--retain", "1")),)
            case FileState.DEAD:
                release = (ReleaseCommand("clean"),)
            case FileState.QUARANTINED if (run := file.quarantined) is not None:
                until, held_by = run.keep_until, f"the quarantine, until {format_time(run.keep_until)}"
                release = (_PURGE,)
            case FileState.ORPHAN:
                release = (ReleaseCommand("quarantine orphans"),)  # which keeps it for its time, like any other
            case FileState.UNCOMMITTED:
                release = (ReleaseCommand("rollback"),)
            case FileState.FROZEN | Gone():
                why = (*why, "`lakeward verify` says what is wrong with it.")
            case _:
                pass
        return HeldBecause(HeldPlace.DATA, kind, tuple(why), until, release, held_by)

    def _quarantined(self, path: str) -> HeldBecause:
        match = _IN_QUARANTINE.fullmatch(path)
        run = None if match is None else self.quarantine.find(match[1])
        if match is None or run is None:
            return HeldBecause(
                HeldPlace.QUARANTINE, "file of no run", ("No run of the quarantine explains it.",), None, (_PURGE,)
            )
        kind = "file set aside" if match[2].startswith(f"{FILES}/") else "record of the quarantine"
        held_by = f"the quarantine, until {format_time(run.keep_until)}"
        why = set_aside_sentence(run.run, run.keep_until)
        return HeldBecause(HeldPlace.QUARANTINE, kind, (why,), run.keep_until, (_PURGE,), held_by)

    def _metadata(self, path: str) -> HeldBecause:
        compact, clean, disable = map(ReleaseCommand, ("metadata compact", "metadata clean", "metadata disable"))
        if path.startswith(".hoodie/metadata/.hoodie/"):
            said = "It is on the metadata table's own timeline, until that is archived."
            return HeldBecause(HeldPlace.METADATA, "timeline file of the metadata table", (said,), None, (disable,))
        partition = path.split("/")[2]
        if self.has_newer.get(path, False):
            said = (
                "A compaction of the metadata table replaced it. Its cleaner keeps what a reader that began up to 20 "
                "commits ago may need, and what a savepoint could go back to. Without the metadata table, which the "
                "next writer builds again, it goes at once."
            )
            return HeldBecause(HeldPlace.METADATA, f"older file of {partition}", (said,), None, (clean, disable))
        said = (
            "Readers of the metadata table read it, until the entry is deleted and a compaction of the metadata table "
            "merges that."
        )
        return HeldBecause(HeldPlace.METADATA, f"file of {partition}", (said,), None, (compact, clean))

    def elsewhere(self, index: AskedIndex) -> HeldBecause:
        """An index on a server."""
        if index.type is IndexType.HBASE:
            said = "Hudi's writers up to release 1.0 delete its entries; Lakeward only reads it. Delete its rows there."
            return HeldBecause(HeldPlace.ELSEWHERE, "index hbase", (said,))
        said = (
            "An update takes the key out of what it answers. Its entries stay until the commit that deleted the key is "
            "archived: dropping the index ends that; then build it again."
        )
        commands = _of_index(index.type, *index.options)
        return HeldBecause(HeldPlace.ELSEWHERE, "index postgres", (said,), None, commands)

    def _index(self, path: str) -> HeldBecause:
        kind = IndexType.RECORD.value if _OUTSIDE.match(path) else path.split("/")[3]
        said = (
            "An update takes the key out of Lakeward's index. Files that the update replaces stay for an hour and for "
            "16 more changes of the index, for lookups that run: dropping the index ends that; then build it again."
        )
        return HeldBecause(HeldPlace.INDEX, f"index {kind}", (said,), None, _of_index(kind))


def _of_index(*options: str) -> tuple[ReleaseCommand, ...]:
    """
    Args:
        options: its type, and what else names it.
    """
    return (ReleaseCommand("index update", ("--type", *options)), ReleaseCommand("index drop", ("--type", *options)))


def _kept(file: FileExplanation) -> tuple[float | None, str | None]:
    """(from when the file can go, the promise to readers that keeps it)"""
    times = [keeper.not_before for keeper in file.keepers if keeper.not_before is not None]
    for keeper in file.keepers:
        if keeper.reason is KeepReason.CONSUMER:
            return max(times, default=None), f"consumer {keeper.consumer}"
        if keeper.reason is KeepReason.PENDING_PLAN:
            return max(times, default=None), f"the pending plan of {keeper.instant}"
        if keeper.reason is KeepReason.READER_WINDOW:
            return max(times, default=None), "the window of running queries"
    return max(times, default=None), "the clean policy"


@dataclass(frozen=True, slots=True)
class ErasureSteps:
    """What ends the holdings sooner."""

    steps: tuple[ReleaseCommand, ...]
    """In their order; they break no promise."""
    held: Mapping[str, tuple[ReleaseCommand, ...]]
    """What an operator promised or set aside, or running work relies on, and the commands that release it."""
    left: tuple[str, ...]
    """Paths of files that no command ends."""

    def as_json(self, base_path: str) -> dict[str, Any]:
        return {
            "steps": [step.text(base_path) for step in self.steps],
            "held": {by: [step.text(base_path) for step in steps] for by, steps in self.held.items()},
            "left": list(self.left),
        }


def plan_steps(holdings: Sequence[tuple[str, HeldBecause]]) -> ErasureSteps:
    """
    Args:
        holdings: files by their paths.
    """
    steps: dict[ReleaseCommand, None] = {}
    held: dict[str, dict[ReleaseCommand, None]] = {}
    groups: dict[str, None] = {}
    for _, because in holdings:
        for command in because.release:
            by = because.held_by or _RELIED_ON.get(command.verb)
            if by is not None:
                held.setdefault(by, {})[command] = None
            elif command.verb == "compact":
                groups[command.options[-1]] = None
            else:
                steps[command] = None
    if groups:
        named = (option for group in groups for option in (_GROUP, group))
        steps[ReleaseCommand("compact", (*_FULL, *named))] = None
    released = {by: tuple(sorted(commands, key=_order)) for by, commands in held.items()}
    left = tuple(path for path, because in holdings if not because.release)
    return ErasureSteps(tuple(sorted(steps, key=_order)), released, left)


def _order(command: ReleaseCommand) -> int:
    """What a step needs done before: files are compacted before they are cleaned, the table before its metadata table,
    and the indexes last, which follow both."""
    return _ORDER.index(command.verb)


_FULL: Final = ("--type", "full")
_GROUP: Final = "--file-group"
_PURGE: Final = ReleaseCommand("quarantine purge", ("--older-than", "0s"))
_ORDER: Final = (
    *("rollback", "savepoint delete", "compact", "clean", "quarantine orphans", "quarantine purge"),
    *("metadata compact", "metadata clean", "metadata disable", "index update", "index drop"),
)
_RELIED_ON: Final = {
    "metadata disable": "readers of the metadata table, those that began up to 20 commits ago among them",
    "index drop": "lookups and writes that use the index",
}
"""What takes the ground from running work, and is planned for no file."""
