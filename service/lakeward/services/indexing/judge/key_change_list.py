"""What commits of a table did to the places of its keys, read from the commits and their files: no index is asked.

    key is there      the commit put it there, or it was there already and was written again
    key went          the commit took it from the file group; where it went, another change of the commit says

A file group whose files a clean took away since is reported as it is now, by the last of these commits that touched it.

Touches: storage, reading: commits, and the files that they wrote or wrote over.
Keeps:   all changes are counted, and no more than were asked for are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lakeward.base.errors import Refused
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.index import Indexed
from lakeward.index.key_changes.group_changes import TableFiles, choose_changes
from lakeward.index.key_changes.key_reader import KeyReader
from lakeward.index.key_changes.marked_keys import IS_THERE
from lakeward.index.key_changes.table_commits import commits_behind
from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

COMMITS_MAX = 1000
"""The most commits that are reported at once: what each says is held in memory."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    key: str
    partition_path: str
    file_id: str
    is_there: bool


@dataclass(frozen=True, slots=True)
class ChangesOfCommit:
    instant: str
    completed: str
    action: str
    there: int
    gone: int
    read_again: int
    """File groups that are reported as they are now, since files of the commit are gone."""
    changes: tuple[KeyChange, ...]
    """The first ones."""


def changes_between(
    storage: Storage,
    snapshot: TableSnapshot,
    *,
    after: str | None,
    until: str | None,
    is_global: bool = True,
    kept: int,
    on_commit: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[ChangesOfCommit, ...]:
    """The commits that completed after the one and until the other, in that order.

    Args:
        after: the instant of a completed commit, or a time; None: from the beginning of what is known.
        until: the same; None: until now.
        is_global: whether a key is one in all of the table, or in its partition.
        kept: changes that are kept, of all commits together.
        on_commit: called before each commit how many are done, and of how many.

    Raises `Refused` for more commits than `COMMITS_MAX`, or a table whose commits do not say; `Unsupported`,
    `BrokenFile`, and `NotFound` where a clean was faster.
    """
    first, last = (None if each is None else _completion(snapshot, each) for each in (after, until))
    found = commits_behind(storage, snapshot, Indexed(first), number=COMMITS_MAX)
    wanted = [
        each for each in found.commits if last is None or comparable_time(each.completed) <= comparable_time(last)
    ]
    if len(wanted) == len(found.commits) < found.count:
        raise Refused(
            f"More than {COMMITS_MAX:,} commits lie between.",
            why=f"There are {found.count:,} since then, and what each says is held in memory.",
            remedy="Ask for fewer at once with --from and --to.",
        )
    reader, listed = KeyReader(storage, snapshot), []
    for done, chosen in enumerate(choose_changes(wanted, TableFiles.of(snapshot), frozenset())):
        on_commit(done, len(wanted))
        there = gone = 0
        changes: list[KeyChange] = []
        for batch in reader.changes(chosen, is_global=is_global):
            count = batch.column(IS_THERE).true_count
            there, gone = there + count, gone + batch.num_rows - count
            if len(changes) < kept:
                changes += _named(batch.slice(0, kept - len(changes)))
        kept -= len(changes)
        commit = chosen.commit
        listed.append(
            ChangesOfCommit(
                commit.instant, commit.completed, commit.action, there, gone, len(chosen.read_again), tuple(changes)
            )
        )
    return tuple(listed)


def _completion(snapshot: TableSnapshot, given: str) -> str:
    """When that instant completed; what is no instant of the active timeline counts as a time."""
    completed = (each.completion_time for each in snapshot.timeline.completed if each.time == given)
    return next((time for time in completed if time is not None), given)


def _named(batch: pa.RecordBatch) -> list[KeyChange]:
    columns = (batch.column(name).to_pylist() for name in (RECORD_KEY, PARTITION_PATH, FILE_ID, IS_THERE))
    return [KeyChange(*each) for each in zip(*columns, strict=True)]
