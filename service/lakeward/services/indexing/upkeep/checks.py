"""Indexes of one table compared with its rows by the daemon, a sample now and then: which are due, and the part of the
job that does it.

Time is cut into rounds of `ROUND_SECONDS`, which begin at another moment for each table, the same one whichever
daemon watches it: so the checks of many tables are spread, and one is due as often whether daemons are restarted or
not. The first round of an index that a daemon sees the end of is the first of which it does the check.

An index that is wrong is taken out of use, where the daemon may write to the table: Lakeward does not use it until it
is another one.

Touches: the table and the indexes, reading, through tasks; the file that says that an index is out of use.
Keeps:   1. an index is checked once a round, however often the table is planned;
         2. what is found is shown until the next check, and holds no other service of the table back;
         3. a check that fails keeps none of another index back, and is reported with its name.
See:     docs/decisions/0076-what-is-known-of-an-index.md
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from random import SystemRandom

from lakeward.base.errors import LakewardError, TryLater
from lakeward.base.quantities import format_iso_time
from lakeward.protocol.index_out_of_use import take_out_of_use
from lakeward.protocol.job_report import WorkProblem
from lakeward.services.indexing.index_memory import IndexCare, IndexStatus
from lakeward.services.indexing.judge.check_result import CheckSize
from lakeward.services.indexing.judge.confidence import excluded_rate
from lakeward.services.indexing.upkeep.tasks import (
    IndexChecked,
    IndexCheckSpec,
    IndexTasks,
    check_index_at,
    problem_with,
)

ROUND_SECONDS = 24 * 3600.0
"""Between two checks of an index."""
KEYS = 4603
"""Rows that are drawn and looked up, and entries that are drawn and looked for: an index of which one in a thousand is
wrong is found with `CONFIDENCE`, however large the table is."""
CONFIDENCE = 0.99
MERGED_BYTES_MAX = 16 * 1024**3
"""Slices with logs are merged for their keys, up to so many bytes a check; which ones, is chosen again each time."""
ENTRIES_MAX = 20_000_000
"""No further part of an index is read once so many of its entries were; which parts, is chosen again each time."""


@dataclass(slots=True)
class Checks:
    """What happened to the indexes that were due."""

    done: int = 0
    keys: int = 0
    """Rows and entries that were looked at."""
    wrong: int = 0
    reasons: list[str] = field(default_factory=list)
    problems: list[WorkProblem] = field(default_factory=list)


def see_indexes(table: IndexCare) -> None:
    """A new index is checked first once the round is over in which it was seen."""
    memory = table.memory
    new = {index.type: _round(table) for index in memory.indexes if index.type not in memory.rounds}
    memory.rounds = {**memory.rounds, **new}


def is_check_due(index: IndexStatus, table: IndexCare) -> bool:
    return not index.problem and table.memory.rounds.get(index.type) != _round(table)


def check_indexes(table: IndexCare, tasks: IndexTasks, *, table_bytes: int) -> Checks:
    """Compare those that are due with a sample of the rows. Raises what the guard and the engine raise."""
    checks, memory = Checks(), table.memory
    for index in memory.indexes:
        if not is_check_due(index, table):
            continue
        number = _round(table)
        spec = IndexCheckSpec(tasks.spec(index.type), _size())
        outcome = tasks.run(check_index_at, spec, input_bytes=table_bytes, description="check of an index")
        if isinstance(outcome, LakewardError):
            if not isinstance(outcome, TryLater):
                checks.problems.append(problem_with(index.name, "checked", outcome))
            continue
        now = table.clock.now()
        if outcome.wrong and table.may_write:
            why = f"At {format_iso_time(now)} {outcome.summary}"
            take_out_of_use(table.storage, table.base_path, index.type, why, spec.index.record)
        found = _with_check(index, outcome, now)
        memory.indexes = tuple(found if each.type is index.type else each for each in memory.indexes)
        memory.rounds = {**memory.rounds, index.type: number}
        checks.done += 1
        checks.keys += outcome.checked
        checks.wrong += outcome.wrong
        checks.reasons += [f"{index.name}: {fault}" for fault in outcome.faults]
    return checks


def _size() -> CheckSize:
    rate = excluded_rate(KEYS, KEYS + 1, CONFIDENCE)
    assert rate is not None, "a sample is of one at least"
    return CheckSize(
        rate,
        CONFIDENCE,
        SystemRandom().getrandbits(32),
        merged_bytes_max=MERGED_BYTES_MAX,
        entries_max=ENTRIES_MAX,
    )


def _round(table: IndexCare) -> int:
    return int((table.clock.now() + zlib.crc32(table.base_path.encode()) % ROUND_SECONDS) // ROUND_SECONDS)


def _with_check(index: IndexStatus, check: IndexChecked, now: float) -> IndexStatus:
    return replace(
        index,
        checked_at=now,
        checked=check.checked,
        wrong=check.wrong,
        excluded_rate=check.excluded_rate,
    )
