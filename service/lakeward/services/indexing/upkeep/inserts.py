"""Keys that a writer put into base files although logs have them, looked for by the daemon.

    plan    where keys may be in logs alone (`index/log_inserts`), commits with base files that are not looked through
            -> due at once
    job     one task looks through all of them; what it finds fails the job, by name and with the remedy, until one row
            of each such key is gone

Touches: the folder of `index/log_inserts`; the table, reading, through a task.
Keeps:   1. nothing is due below a table that may not be written to;
         2. what is found keeps no update and no check back.
See:     docs/decisions/0133-new-keys-in-logs.md
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import DoubledKeys, LakewardError
from lakeward.base.quantities import format_count
from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import commits_behind
from lakeward.index.log_inserts import read_log_inserts
from lakeward.protocol.job_report import WorkProblem
from lakeward.protocol.problem import problem_of
from lakeward.services.indexing.index_memory import IndexCare
from lakeward.services.indexing.upkeep.tasks import IndexTasks, look_through_at
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class Looked:
    """What happened to the look that was due."""

    was_due: bool = False
    problems: tuple[WorkProblem, ...] = ()


def commits_to_look_through(table: IndexCare, snapshot: TableSnapshot) -> tuple[int, int]:
    """How many commits are to be looked through, and what they wrote, in bytes; (0, 0) while none of them made a base
    file. Raises what `read_log_inserts` and `commits_behind` do."""
    said = read_log_inserts(table.storage, snapshot.base_path)
    if not said.may_hold_keys or not table.may_write:
        return 0, 0
    behind = commits_behind(table.storage, snapshot, Indexed(said.through))
    makes_base_files = any(
        not file.is_log for commit in behind.commits if not commit.is_compaction for file in commit.files
    )
    if not makes_base_files and behind.count == len(behind.commits):
        return 0, 0
    return behind.count, sum(commit.bytes for commit in behind.commits)


def describe_look(commits: int) -> str:
    """A few words for what is to be looked through."""
    return f"{format_count(commits, 'commit')} are to be looked through for keys that logs have, too"


def look_for_doubled_keys(table: IndexCare, tasks: IndexTasks) -> Looked:
    """Look through what was due at the plan. Raises what the guard and the engine raise."""
    commits, size = table.memory.unlooked
    if not commits:
        return Looked()
    # (The cache of filters rules out slices, and the spec of a cache says how the table is read.)
    spec = tasks.spec(IndexType.BLOOM)
    found = tasks.run(look_through_at, spec, input_bytes=size, description="search for doubled keys")
    if isinstance(found, DoubledKeys):
        table.memory.doubled_keys = found.keys
    else:  # what else ends a look says nothing of keys
        table.memory.doubled_keys = None if isinstance(found, LakewardError) else 0
    if isinstance(found, LakewardError):
        problem = problem_of(found)
        return Looked(True, (WorkProblem(problem.kind, problem.text),))
    table.memory.unlooked = (0, 0)
    return Looked(True)
