"""The shadow of a tee held against its primary, a commit of the table after the other.

    keys of a commit     those that came and went by it, as `index/key_changes` lists them, a batch at a time
    rows beside them     drawn from the file groups that it wrote to: keys that it wrote over in place among them
    judged               where the answers differ, and of the rows that were drawn: by the rows

A writer may be at work, and a difference may be a step of its own. So a batch of which the shadow is wrong is asked for
once more, as of a fresh moment, and that counts.

Touches: reads the table and both indexes, and takes no lock; the folder of `index/tee`, by `compare_all` alone.
Keeps:   1. a commit is clean only if the shadow was right of each of its keys;
         2. commits come in the order in which they completed, none left out.
Memory:  a batch of keys with both answers, and what reading the changes takes.
See:     docs/decisions/0086-two-indexes-side-by-side.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.errors import Conflict, Unsupported
from lakeward.index.index import Index, Indexed
from lakeward.index.key_changes.group_changes import CommitChanges, TableFiles, choose_changes
from lakeward.index.key_changes.key_reader import KeyReader
from lakeward.index.key_changes.table_commits import commits_behind
from lakeward.index.location import RECORD_KEY
from lakeward.index.placed_keys import PLACED_KEYS, judge_by_rows
from lakeward.index.tee import ComparedCommit, Tee
from lakeward.protocol.index.choices import publish_compared
from lakeward.services.indexing.judge.comparison import Asked, ComparedIndex, Comparison, Difference, compare_indexes
from lakeward.services.indexing.judge.row_sample import sample_rows
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

KEYS_AT_ONCE = 50_000
ROWS_OF_COMMIT = 1_000
"""Rows that are drawn beside the keys of a commit."""
_MERGED_BYTES = 1024**3
"""Slices with logs that are merged for these."""
_DIFFERENCES = 20


@dataclass(frozen=True, slots=True)
class TeeMoment:
    """A table and both indexes as of one moment."""

    snapshot: TableSnapshot
    primary: Index
    shadow: Index


@dataclass(frozen=True, slots=True)
class TeeCheck:
    commits: tuple[ComparedCommit, ...] = ()
    left: int = 0
    """Commits that are still to be compared."""
    differences: tuple[Difference, ...] = ()
    """The first of the keys of which the two said different things."""

    def then(self, later: TeeCheck) -> TeeCheck:
        """Both, of which the one begins where the other ended."""
        return TeeCheck(self.commits + later.commits, later.left, self.differences + later.differences)


def check_tee(
    storage: Storage,
    moment_now: Callable[[], TeeMoment],
    *,
    after: str | None,
    seed: int,
    clock: Clock,
    rows: int = ROWS_OF_COMMIT,
    on_commit: Callable[[int, int], None] = lambda done, of: None,
) -> TeeCheck:
    """The next commits that completed after that time, at most `COMMITS_AT_ONCE`.

    Args:
        rows: so many are drawn beside the keys of a commit.
        on_commit: called before each commit how many are compared, and of how many.

    Raises what opening and looking up raise, and what `KeyReader.changes` does; `Unsupported` where both say different
    things of a key and no row can decide: such a commit is not clean.
    """
    moment = moment_now()
    behind = commits_behind(storage, moment.snapshot, Indexed(after))
    reader = KeyReader(storage, moment.snapshot)
    chosen = choose_changes(behind.commits, TableFiles.of(moment.snapshot), frozenset())
    commits: list[ComparedCommit] = []
    differences: list[Difference] = []
    for done, changes in enumerate(chosen):
        on_commit(done, len(chosen))
        keys = shadow_wrong = primary_wrong = 0
        for asked in _asked(storage, moment, reader, changes, rows=rows, seed=seed):
            found = _compared(storage, moment, asked, clock)
            if found.second.judged.wrong or found.unjudged:
                again = moment_now()
                found = _compared(storage, again, _still_there(storage, again.snapshot, asked), clock)
            if found.unjudged and found.notes:
                if commits:  # what was compared is recorded first; the next call begins here
                    return TeeCheck(tuple(commits), behind.count - len(commits), tuple(differences))
                raise Unsupported(
                    f"The commit {changes.commit.instant} cannot be compared: of {found.unjudged:,} keys the indexes "
                    "say different things, and no row can decide.",
                    why=" ".join(found.notes),
                    remedy="Compact the table (`lakeward compact`) and compare again, or end the trial (`lakeward "
                    "index tee TABLE --end`).",
                )
            keys += found.keys
            shadow_wrong += found.second.judged.wrong
            primary_wrong += found.first.judged.wrong
            differences += found.differences[: _DIFFERENCES - len(differences)]
        commit = changes.commit
        commits.append(ComparedCommit(commit.instant, commit.completed, keys, shadow_wrong, primary_wrong))
    return TeeCheck(tuple(commits), behind.count - len(commits), tuple(differences))


def compare_all(
    storage: Storage,
    base_path: str,
    moment_now: Callable[[], TeeMoment],
    held: Tee,
    *,
    clock: Clock,
    on_commit: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[Tee, TeeCheck]:
    """Compare both for all commits since, and record it: what holds then, and what was found. Where another process
    compares them too, or chose other indexes, commits are left. Raises what `check_tee` does."""
    all_found = TeeCheck()
    while True:
        found = check_tee(storage, moment_now, after=held.through, seed=held.number, clock=clock, on_commit=on_commit)
        if not found.commits:
            return held, replace(all_found, left=found.left)
        try:
            held = publish_compared(storage, base_path, held, found.commits)
        except Conflict:
            return held, replace(all_found, left=found.left + len(found.commits))
        all_found = all_found.then(found)
        if not found.left:
            return held, all_found


def _asked(
    storage: Storage, moment: TeeMoment, reader: KeyReader, changes: CommitChanges, *, rows: int, seed: int
) -> Iterator[Asked]:
    none = pa.array([], pa.string())
    held: list[pa.Array] = []
    for batch in reader.changes(changes, is_global=moment.primary.is_global):
        held.append(batch.column(RECORD_KEY))
        if sum(map(len, held)) >= KEYS_AT_ONCE:
            yield Asked(PLACED_KEYS.empty_table(), _whole(held), none)
            held = []
    groups = changes.commit.groups
    of = tuple(group for group in moment.snapshot.file_groups if (group.partition_path, group.file_id) in groups)
    drawn = sample_rows(
        storage,
        replace(moment.snapshot, file_groups=of),
        rows,
        seed,
        with_logs=moment.primary.can_index_log_files and moment.shadow.can_index_log_files,
        merged_bytes_max=_MERGED_BYTES,
    )
    if held or drawn.rows.num_rows:
        yield Asked(drawn.rows, _whole(held), none)


def _compared(storage: Storage, moment: TeeMoment, asked: Asked, clock: Clock) -> Comparison:
    primary = ComparedIndex("primary", lambda storage: moment.primary)
    shadow = ComparedIndex("shadow", lambda storage: moment.shadow)
    return compare_indexes(storage, moment.snapshot, primary, shadow, asked, clock=clock)


def _still_there(storage: Storage, snapshot: TableSnapshot, asked: Asked) -> Asked:
    """The same keys, with the places of those rows that are still where they were drawn."""
    return replace(asked, rows=judge_by_rows(storage, snapshot, asked.rows).there)


def _whole(keys: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([each.cast(pa.string()) for each in keys]) if keys else pa.array([], pa.string())
