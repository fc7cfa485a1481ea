"""The least that jobs and readers could have cost together: knowing all writes and reads to come.

It is a dynamic programme over intervals of the writes into one file group: the cost of having the writes i to m in one
component at m is the least, over all ways to divide i to m-1 into components, of their own costs, of what readers paid
for each until m, and of the job. No planner can be cheaper under the same jobs, which merge a suffix of the logs, or
all with the base. To merge later than right after a write saves nothing, so no other moments are looked at.

    component   the writes from i to b, both included; 0 is the base, so that 0 to b is the base after b
    cost        of a job: `job` + what it reads + `write` x what it writes; of a read: `reading`, the base left out

It takes O(n^3) for n writes. A group with more than `writes_max` is divided into windows of as many, each of which
begins with all merged, for nothing: the sum is less than the least that was possible, and never more.

It knows no objective, caps, budget or trigger, and counts no storage.

Touches: nothing.
Keeps:   1. no planner of a replay costs less than the optimum of its trace, with sizes by the same model;
         2. memory and time are bounded by `writes_max`, whatever a trace is like.
See:     docs/decisions/0178-the-best-that-could-have-been-done.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.cost import BYTES_PER_SECOND, OPERATION_SECONDS
from lakeward.services.compaction.plan.pay_back import BASE_OF_LOG, READER_MERGES_BYTES, READER_OPENS_SECONDS
from lakeward.services.compaction.simulation.replay import SizedGroup, SizedGroups, SizedLog, SizeModel, apply_commit
from lakeward.services.compaction.simulation.trace import CommitAuthor, Trace

Floats = NDArray[np.float64]

WRITES_MAX = 64
_AT_ONCE = 256
"""Windows of `WRITES_MAX` writes of which the tables are in memory: some 40 MiB."""


def least_costs(sizes: Floats, reading: Floats, reads: Floats, *, job: float, write: float) -> Floats:
    """The least cost of each of several histories of equally many writes.

    Args:
        sizes: what reading a component costs a job: `[history, i, b]`.
        reading: what a reader pays for it.
        reads: after each write, before the next: `[history, write]`.
        job: what a job costs beside what it reads and writes.
        write: what writing costs a job, over reading.
    """
    histories, count = reads.shape
    until = np.zeros((histories, count + 2))  # reads before the write of that number
    until[:, 2:] = np.cumsum(reads, axis=1)
    made = np.zeros((histories, count + 1, count + 1))
    rest = np.zeros((histories, count + 2))
    for m in range(1, count + 1):
        rest[:, m] = sizes[:, m, m]
        waited = until[:, m : m + 1] - until[:, :m]
        for i in range(m - 1, -1, -1):
            paid = made[:, i, i:m] + reading[:, i, i:m] * waited[:, i:] + sizes[:, i, i:m] + rest[:, i + 1 : m + 1]
            rest[:, i] = paid.min(axis=1)
            made[:, i, m] = job + write * sizes[:, i, m] + rest[:, i]
    rest[:, count + 1] = 0.0
    waited = until[:, count + 1 :] - until[:, : count + 1]
    for i in range(count, -1, -1):
        paid = made[:, i, i:] + reading[:, i, i:] * waited[:, i:] + rest[:, i + 1 :]
        rest[:, i] = paid.min(axis=1)
    return rest[:, 0].copy()


@dataclass(frozen=True, slots=True)
class Best:
    core_seconds: float
    """Jobs and readers of logs together."""
    groups_in_windows: int
    """Groups with more than `writes_max` writes, for which it is less than the least."""


@dataclass(slots=True)
class _Life:
    """A file group from its first log on, or from the beginning of the trace, until it is gone or the trace ends."""

    base_bytes: int = 0
    logs: list[SizedLog] = field(default_factory=list)
    superseded: int = 0
    rebased: list[tuple[int, int]] = field(default_factory=list)
    """Bases that writers wrote: behind how many logs, and their bytes."""


def best_possible(trace: Trace, *, model: SizeModel, reads_per_day: float, writes_max: int = WRITES_MAX) -> Best:
    """The optimum of all groups of a trace: what a replay counts as seconds of jobs and of readers, at the least.

    Args:
        reads_per_day: how often each partition is read.
    """
    at_once = max(1, _AT_ONCE * WRITES_MAX**2 // writes_max**2)
    reads, stays = reads_per_day / DAY_SECONDS / 1000, trace.config.is_lsm_tree
    total, in_windows, waiting = 0.0, 0, list[_Window]()
    for life, ends in _lives(trace, model):
        windows = list(_windows(life, trace.begins, ends, model, reads, writes_max, reads_superseded=stays))
        in_windows += len(windows) > 1
        for window in windows:
            waiting.append(window)
            if len(waiting) == at_once:
                total += _cost(waiting)
                waiting = []
    return Best(total + _cost(waiting), in_windows)


def _lives(trace: Trace, model: SizeModel) -> Iterator[tuple[_Life, int]]:
    """Each file group with the moment when it ends."""
    groups = SizedGroups(trace.groups, trace.config, model)
    lives: dict[int, _Life] | None = None
    for commit in trace.commits:
        if commit.at <= trace.begins:
            apply_commit(groups, commit)
            continue
        if commit.author is CommitAuthor.COMPACTION:
            continue
        if lives is None:
            lives = {number: _born(group) for number, group in groups.groups.items()}
        for number in commit.replaced:
            if number in groups.groups:
                yield _grown(lives.pop(number, _Life()), groups.groups[number]), commit.at
        before = {file.group: len(group.live) for file in commit.files if (group := groups.groups.get(file.group))}
        apply_commit(groups, commit)
        for file in commit.files:
            if file.is_base:
                lives.setdefault(file.group, _Life()).rebased.append((before.get(file.group, 0), file.size))
    for number, group in groups.groups.items():
        known = _born(group) if lives is None else lives.get(number, _Life())
        yield _grown(known, group), trace.ends


def _born(group: SizedGroup) -> _Life:
    return _Life(group.base_bytes or 0, [], len(group.dead))


def _grown(life: _Life, group: SizedGroup) -> _Life:
    life.logs = group.live
    return life


@dataclass(frozen=True, slots=True)
class _Window:
    sizes: Floats
    reading: Floats
    reads: Floats


def _windows(
    life: _Life,
    begins: int,
    ends: int,
    model: SizeModel,
    reads: float,
    writes_max: int,
    *,
    reads_superseded: bool,
) -> Iterator[_Window]:
    """
    Args:
        reads: in a millisecond.
    """
    logs = life.logs
    if not logs:
        return
    updates, inserts = (
        np.array([getattr(log, name) for log in logs], float) for name in ("update_bytes", "insert_bytes")
    )
    whole = np.array([log.size for log in logs], float)
    moments = np.maximum([*(log.at for log in logs), ends], begins)
    after = np.diff(moments) * reads
    bases = _bases(life, updates, inserts, model)
    rows_bytes = min([each for each in bases.tolist() if each > 0], default=0.0) / BASE_OF_LOG
    if model.hot_bytes is not None:
        rows_bytes = float(model.hot_bytes)
    for start in range(0, len(logs), writes_max):
        part = slice(start, start + writes_max)
        yield _window(
            bases[start : start + writes_max + 1],
            updates[part],
            inserts[part],
            whole[part],
            after[part],
            rows_bytes,
            life.superseded if start == 0 else 0,
            writes_max,
            reads_superseded=reads_superseded,
        )


def _bases(life: _Life, updates: Floats, inserts: Floats, model: SizeModel) -> Floats:
    """The base behind each number of logs, with all of them in it."""
    grown = np.concatenate([[0.0], np.cumsum(inserts * model.growth + updates * model.drift)])
    bases = life.base_bytes + grown
    for behind, size in life.rebased:
        bases[behind:] = size + grown[behind:] - grown[behind]
    return bases


def _window(
    bases: Floats,
    updates: Floats,
    inserts: Floats,
    whole: Floats,
    reads: Floats,
    rows_bytes: float,
    superseded: int,
    writes_max: int,
    *,
    reads_superseded: bool,
) -> _Window:
    """The tables of a window, with writes of nothing behind it, which cost nothing."""
    count = len(updates)
    left = writes_max - count
    updates, inserts, whole, reads = (np.pad(each, (0, left)) for each in (updates, inserts, whole, reads))
    bases = np.pad(bases, (0, left), mode="edge")
    numbers = np.arange(writes_max + 1)
    spans = {}
    for name, values in (("updates", updates), ("inserts", inserts), ("whole", whole)):
        sums = np.concatenate([[0.0], np.cumsum(values)])
        spans[name] = np.maximum(sums[None, :] - np.concatenate([[0.0], sums[:-1]])[:, None], 0.0)
    distinct = rows_bytes * -np.expm1(-spans["updates"] / rows_bytes) if rows_bytes else spans["updates"]
    sizes = distinct + spans["inserts"]
    sources = np.maximum(numbers[None, :] - numbers[:, None] + 1, 0.0)
    leaves = numbers[1:]
    sizes[leaves, leaves] = whole
    sources[leaves, leaves] = 0.0
    reading = READER_OPENS_SECONDS * (1 + sources) + sizes / READER_MERGES_BYTES
    if reads_superseded:
        reading += np.where(sources > 0, spans["whole"], 0.0) / READER_MERGES_BYTES
    if superseded:
        reading[1, 1:] += superseded * READER_OPENS_SECONDS  # of the first log, until it is in the base
    sizes[0], reading[0] = bases, 0.0
    return _Window(sizes / BYTES_PER_SECOND, reading, reads)


def _cost(windows: Sequence[_Window]) -> float:
    if not windows:
        return 0.0
    sizes, reading, reads = (
        np.stack([getattr(each, name) for each in windows]) for name in ("sizes", "reading", "reads")
    )
    return float(least_costs(sizes, reading, reads, job=OPERATION_SECONDS, write=0.0).sum())
