"""Whether a merge pays: what its job takes against what readers save until it would be made again.

    gain = core-seconds that each read saves x reads in a second x HORIZON x age of what is merged - core-seconds of job

A *cut* says from where on the stack of base and logs becomes one file: from the base (FULL), or from a log on (LOG).
Its age is that of the oldest file that is read for it. What has lain unmerged for long is
taken to stay so for half as long again, which is the best of all shares where writes and reads are even;
`benchmarks/planner_policy.py` compares it with the best that could have been done.

What a reader pays beside the base: each log is opened, superseded ones too until a clean takes them or a FULL begins a
new slice, and the bytes of live logs are merged. Both figures are of Hudi on Spark, see benchmarks/README.md.

Touches: nothing.
Keeps:   1. a cut is chosen only where it gains something, and then the one that gains most.
See:     docs/decisions/0170-whether-a-merge-pays.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.cost import Cost, full_cost, log_cost
from lakeward.services.compaction.plan.decision import Choice, Decision
from lakeward.services.compaction.plan.log_runs import by_place
from lakeward.services.compaction.plan.slice_profile import SliceProfile
from lakeward.table.file_group import LogFile

MIB = 1024 * 1024

HORIZON = 0.5

PAYS_IN = "pays_in_seconds"
"""A number of a decision: when a merge will have begun to pay, if nothing is written until then."""
LATE = 0.1
"""How late a merge may be that begins to pay, in times of what it takes to pay back: so that several come together."""
LOOK_SECONDS = 60.0
"""Looks for what has begun to pay are no closer together."""

BASE_OF_LOG = 0.35
"""Bytes of a Parquet base for each byte of an Avro log (hoodie.logfile.to.parquet.compression.ratio)."""

READER_OPENS_SECONDS = 0.03
READER_MERGES_BYTES = 8 * MIB
"""Bytes of logs that a reader merges in a second of one core."""

LIVE_LOGS_MAX = 24
"""Logs of a slice that readers may have to merge, whatever a merge costs."""
OPENED_LOGS_MAX = 64
"""The same for those that they open, superseded ones included."""
ERASE_WITHIN = 30 * DAY_SECONDS
"""An update or a delete is in its base after so many seconds, whatever a rewrite costs, where no objective is given."""

_ROUNDING = 1e-6


def read_seconds(log_bytes: float, opened: int) -> float:
    """Core-seconds that a reader of a slice takes for its logs."""
    return opened * READER_OPENS_SECONDS + log_bytes / READER_MERGES_BYTES


@dataclass(frozen=True, slots=True)
class Cut:
    choice: Choice
    cost: Cost
    saved_seconds: float
    """Core-seconds that each later read saves."""
    age_seconds: float
    run: tuple[LogFile, ...] = ()
    """The live logs that a LOG takes."""

    def gain(self, reads_per_second: float) -> float:
        """Core-seconds, over the time that is looked ahead."""
        return self.saved_seconds * reads_per_second * HORIZON * self.age_seconds - self.cost.core_seconds

    def look_in(self, reads_per_second: float) -> float:
        """Seconds until it has begun to gain something, if nothing is written, with what it may be late; infinite where
        it never does."""
        saved = self.saved_seconds * reads_per_second
        return self.cost.core_seconds / saved * (1 / HORIZON + LATE) - self.age_seconds if saved > 0 else math.inf

    def may_beat(self, other: Cut, reads_per_second: float) -> bool:
        """Whether it may gain more than another one, for each core-second or in all, or sooner; rounding left aside."""
        if self.saved_seconds <= 0 < other.saved_seconds * other.age_seconds:
            return False
        mine, its = (each.saved_seconds * each.age_seconds / each.cost.core_seconds for each in (self, other))
        is_sooner = self.look_in(reads_per_second) < other.look_in(reads_per_second) + _ROUNDING
        return is_sooner or mine > its - _ROUNDING or self.gain(reads_per_second) > other.gain(reads_per_second) > 0

    def numbers(self, reads_per_second: float) -> dict[str, int | float]:
        """What a decision says of it."""
        saved = self.saved_seconds * reads_per_second
        known: dict[str, int | float] = {"pays_back_seconds": round(self.cost.core_seconds / saved)} if saved else {}
        if self.choice is Choice.LOG:
            known["priced_logs"] = len(self.run)
        return known | {
            "read_saved_seconds": round(self.saved_seconds, 3),
            "ahead_seconds": round(HORIZON * self.age_seconds),
        }


def full_cut(profile: SliceProfile, *, age_seconds: float, reads_merged: bool, price: float = 1.0) -> Cut:
    """FULL.

    Args:
        price: what jobs of the table take over what is said of them.
        reads_merged: readers read the bytes of superseded logs, too.
    """
    superseded = profile.logs.superseded
    read_bytes = profile.log_bytes + (sum(log.size for log in superseded) if reads_merged else 0)
    cost = full_cost(base_bytes=profile.base_bytes, log_bytes=profile.log_bytes, logs=len(profile.live), price=price)
    saved = read_seconds(read_bytes, len(profile.live) + len(superseded))
    return Cut(Choice.FULL, cost, saved, age_seconds)


def log_cuts(
    profile: SliceProfile,
    *,
    age_of: Callable[[LogFile], float],
    is_whole: bool,
    sources_go: bool,
    price: float = 1.0,
) -> Iterator[Cut]:
    """LOG, from each write on that leaves two or more; where all must be taken, from the first.

    Args:
        age_of: seconds since the records of a log were committed.
        sources_go: a clean takes them away from readers; else they are opened until the next FULL.
    """
    rows_bytes, run_bytes, start = profile.base_bytes / BASE_OF_LOG, profile.log_bytes, 0
    writes = by_place(profile, profile.live)
    for logs in writes[: 1 if is_whole else len(writes) - 1]:
        run = profile.live[start:]
        merged_bytes = distinct_bytes(run_bytes, rows_bytes)
        after = read_seconds(merged_bytes, 1 if sources_go else 1 + len(run))
        saved = read_seconds(run_bytes, len(run)) - after
        cost = log_cost(run_bytes=run_bytes, logs=len(run), price=price)
        yield Cut(Choice.LOG, cost, max(0.0, saved), age_of(run[0]), run)
        start += len(logs)
        run_bytes -= sum(log.size for log in logs)


def look_in(decisions: Iterable[Decision]) -> float:
    """Seconds until another look is worth it, since something that does not pay now has begun to; infinite where
    nothing will."""
    return max(
        LOOK_SECONDS, min((each.numbers[PAYS_IN] for each in decisions if PAYS_IN in each.numbers), default=math.inf)
    )


def soonest_cuts(
    *,
    base_bytes: int,
    log_bytes: int,
    logs: int,
    superseded_bytes: int,
    superseded: int,
    base_seconds: float,
    oldest_seconds: float,
    sources_go: bool,
    price: float = 1.0,
) -> tuple[Cut, Cut]:
    """FULL, and a LOG that pays no later than any of the slice does.

    Args:
        superseded_bytes: of superseded logs, where readers read them.
        oldest_seconds: the age of the oldest log.
    """
    saved = read_seconds(log_bytes + superseded_bytes, logs + superseded)
    cost = full_cost(base_bytes=base_bytes, log_bytes=log_bytes, logs=logs, price=price)
    log = soonest_log_cut(
        base_bytes=base_bytes,
        log_bytes=log_bytes,
        logs=logs,
        oldest_seconds=oldest_seconds,
        sources_go=sources_go,
        price=price,
    )
    return Cut(Choice.FULL, cost, saved, base_seconds), log


def soonest_log_cut(
    *, base_bytes: int, log_bytes: int, logs: int, oldest_seconds: float, sources_go: bool, price: float = 1.0
) -> Cut:
    """A LOG that pays no later than any of the slice does. It is found without pricing each cut: no LOG saves more than
    the longest, is older than the oldest log, or takes less than one of no bytes."""
    fewer_bytes = log_bytes - distinct_bytes(log_bytes, base_bytes / BASE_OF_LOG)
    saved = read_seconds(fewer_bytes, logs - 1 if sources_go else -1)
    return Cut(Choice.LOG, log_cost(run_bytes=0, logs=2, price=price), saved, oldest_seconds)


def may_be_chosen(cuts: tuple[Cut, Cut], *, logs: int, superseded: int, reads: float) -> bool:
    """Whether a slice may have a merge that pays, or too many logs; False is certain.

    Args:
        cuts: the soonest ones of the slice.
        reads: in a second.
    """
    if logs > LIVE_LOGS_MAX or logs + superseded > OPENED_LOGS_MAX:
        return True
    full, log = cuts
    return full.gain(reads) > 0 or log.gain(reads) > -_ROUNDING


def distinct_bytes(run_bytes: float, rows_bytes: float) -> float:
    """What is left of logs once each key is kept once, where updates hit all rows alike: rather too much, since most
    updates hit a few.

    Args:
        rows_bytes: of all rows that updates hit, as rows of logs; 0 where that is not known.
    """
    return rows_bytes * -math.expm1(-run_bytes / rows_bytes) if rows_bytes else run_bytes
