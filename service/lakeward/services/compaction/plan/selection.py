"""File groups that a plan considers, and the order in which it takes them.

An operator says which with a `GroupFilter`. Hudi's users say it with `hoodie.compaction.strategy`, the class names of
one or more strategies; those whose meaning does not depend on the users' own Java code are understood here:

    LogFileSizeBasedCompactionStrategy        at least so many bytes of logs; most bytes first; within the budget
    LogFileNumBasedCompactionStrategy         at least so many logs; most logs first; within the budget
    BoundedIOCompactionStrategy               all, within the budget
    UnBoundedCompactionStrategy               all, without a budget
    DayBasedCompactionStrategy                the newest days that partition paths name; newest first; within the budget
    BoundedPartitionAwareCompactionStrategy   the last days before today, and any after; newest first; no budget
    PartitionRegexBasedCompactionStrategy     partition paths in which a regular expression is found; no budget

Several are applied one after the other; the last that has an order gives it, and there is a budget if any has one.
Without a strategy all groups are considered, the one that gains most comes first, and there is a budget.

Touches: nothing. "Today" is the day of the plan's instant.
Source:  org.apache.hudi.table.action.compact.strategy, Hudi 1.2.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from lakeward.base.errors import UsageError
from lakeward.services.compaction.plan.slice_profile import SliceProfile

_PACKAGE = "org.apache.hudi.table.action.compact.strategy."


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """File groups to consider; empty means all."""

    partitions: tuple[str, ...] = ()
    """Partition paths; `*` and `?` match as in a shell."""
    file_groups: tuple[str, ...] = ()
    """File ids."""
    excluded_partitions: tuple[str, ...] = ()
    """Partition paths, matched in the same way, that are excluded even where `partitions` names them."""

    def selects(self, partition_path: str, file_id: str) -> bool:
        is_named = not self.file_groups or file_id in self.file_groups
        return is_named and self.selects_partition(partition_path)

    def selected_partitions(self, paths: Iterable[str]) -> frozenset[str] | None:
        """The partition paths of a table that it selects; None where it leaves none out."""
        if not self.partitions and not self.excluded_partitions:
            return None
        return frozenset(path for path in paths if self.selects_partition(path))

    def selects_partition(self, path: str) -> bool:
        return (not self.partitions or matches(path, self.partitions)) and not matches(path, self.excluded_partitions)


class Strategy(StrEnum):
    LOG_FILE_SIZE = "LogFileSizeBasedCompactionStrategy"
    LOG_FILE_NUM = "LogFileNumBasedCompactionStrategy"
    BOUNDED_IO = "BoundedIOCompactionStrategy"
    UNBOUNDED = "UnBoundedCompactionStrategy"
    DAY_BASED = "DayBasedCompactionStrategy"
    BOUNDED_PARTITION_AWARE = "BoundedPartitionAwareCompactionStrategy"
    PARTITION_REGEX = "PartitionRegexBasedCompactionStrategy"


_WITH_BUDGET = frozenset({Strategy.LOG_FILE_SIZE, Strategy.LOG_FILE_NUM, Strategy.BOUNDED_IO, Strategy.DAY_BASED})
_DAY = re.compile(r"(?:[^/=]*=)?(\d{4})/(?:[^/=]*=)?(\d{1,2})/(?:[^/=]*=)?(\d{1,2})(?:/|$)")
_BY_DAY = frozenset({Strategy.DAY_BASED, Strategy.BOUNDED_PARTITION_AWARE})


@dataclass(frozen=True, slots=True)
class Selection:
    """Hudi's strategies with their settings. Raises `UsageError` where a setting makes no sense."""

    strategies: tuple[Strategy, ...] = ()
    log_size_threshold: int = 0
    """`hoodie.compaction.logfile.size.threshold`, bytes."""
    log_num_threshold: int = 0
    """`hoodie.compaction.logfile.num.threshold`"""
    target_partitions: int = 10
    """`hoodie.compaction.daybased.target.partitions`: days."""
    partition_regex: str = ""
    """`hoodie.compaction.partition.path.regex`"""

    def __post_init__(self) -> None:
        if Strategy.PARTITION_REGEX in self.strategies:
            try:
                re.compile(self.partition_regex)
            except re.error as error:
                raise UsageError(
                    f"{self.partition_regex!r} is no regular expression.",
                    why=str(error),
                    remedy="Give one in hoodie.compaction.partition.path.regex that Python's re module reads.",
                ) from error

    @property
    def has_budget(self) -> bool:
        return not self.strategies or any(strategy in _WITH_BUDGET for strategy in self.strategies)

    def select_partitions(self, partitions: Iterable[str], *, at: str) -> frozenset[str]:
        """The partitions that the strategies consider. Raises `UsageError` where a path should name a day."""
        selected = sorted(partitions)
        for strategy in self.strategies:
            if strategy is Strategy.DAY_BASED:
                selected.sort(key=day_of, reverse=True)
                selected = selected[: self.target_partitions]
            elif strategy is Strategy.BOUNDED_PARTITION_AWARE:
                today = datetime.date(int(at[:4]), int(at[4:6]), int(at[6:8]))
                earliest = today - datetime.timedelta(days=self.target_partitions)
                selected = [path for path in selected if day_of(path) >= earliest]
            elif strategy is Strategy.PARTITION_REGEX:
                selected = [path for path in selected if re.search(self.partition_regex, path)]
        return frozenset(selected)

    def selects(self, profile: SliceProfile) -> bool:
        """Whether the logs of a slice are many or large enough."""
        return (Strategy.LOG_FILE_SIZE not in self.strategies or profile.log_bytes >= self.log_size_threshold) and (
            Strategy.LOG_FILE_NUM not in self.strategies or len(profile.live) >= self.log_num_threshold
        )

    def order(self) -> Callable[[SliceProfile, float], tuple[float, str, str]]:
        """The sort key of a group with its benefit. The names at its end settle what is equal before."""
        rank: Callable[[SliceProfile, float], float] = _by_name if self.strategies else _by_benefit
        for strategy in self.strategies:
            if strategy is Strategy.LOG_FILE_SIZE:
                rank = _by_log_bytes
            elif strategy is Strategy.LOG_FILE_NUM:
                rank = _by_log_files
            elif strategy in _BY_DAY:
                rank = _by_day
        return lambda profile, benefit: (rank(profile, benefit), *profile.group_id)


def parse_strategies(class_names: str) -> tuple[Strategy, ...]:
    """The strategies in the value of `hoodie.compaction.strategy`: class names, with or without package, and commas.

    Raises `UsageError` for a class that only Java can run.
    """
    return tuple(_parse_strategy(name.strip()) for name in class_names.split(",") if name.strip())


def day_of(partition_path: str) -> datetime.date:
    """The day that `2026/11/21` or `year=2026/month=11/day=21` names. Raises `UsageError`."""
    match = _DAY.match(partition_path)
    try:
        if match is None:
            raise ValueError("It does not begin with a year, a month and a day.")
        return datetime.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError as error:
        raise UsageError(
            f"Partition {partition_path!r} names no day.",
            why="Strategies by day need partition paths such as 2026/11/21 or year=2026/month=11/day=21.",
            remedy="Choose another strategy in hoodie.compaction.strategy.",
        ) from error


def _parse_strategy(name: str) -> Strategy:
    try:
        return Strategy(name.removeprefix(_PACKAGE))
    except ValueError as error:
        raise UsageError(
            f"{name} is not a compaction strategy that Lakeward knows.",
            why="A strategy is Java code, and its name does not say what this one chooses.",
            remedy=f"Use one of {', '.join(Strategy)}.",
        ) from error


def matches(partition_path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(partition_path, pattern) for pattern in patterns)


def _by_benefit(profile: SliceProfile, benefit: float) -> float:
    return -benefit


def _by_name(profile: SliceProfile, benefit: float) -> float:
    return 0


def _by_log_bytes(profile: SliceProfile, benefit: float) -> float:
    return -profile.log_bytes


def _by_log_files(profile: SliceProfile, benefit: float) -> float:
    return -len(profile.live)


def _by_day(profile: SliceProfile, benefit: float) -> float:
    return -day_of(profile.slice.partition_path).toordinal()
