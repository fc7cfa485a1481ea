"""Names and settings of Hudi's strategies; what they choose is in `hybrid_compaction.cases`."""

from __future__ import annotations

import datetime

import pytest

from lakeward.base.errors import UsageError
from lakeward.services.compaction.plan.selection import Selection, Strategy, day_of, parse_strategies

PACKAGE = "org.apache.hudi.table.action.compact.strategy."


def test_strategies_are_named_by_class() -> None:
    """The name may have its package or not, and one or several may be named."""
    assert parse_strategies(PACKAGE + "UnBoundedCompactionStrategy") == (Strategy.UNBOUNDED,)
    both = parse_strategies(f"PartitionRegexBasedCompactionStrategy, {PACKAGE}LogFileNumBasedCompactionStrategy")
    assert both == (Strategy.PARTITION_REGEX, Strategy.LOG_FILE_NUM)
    assert parse_strategies("") == ()


@pytest.mark.parametrize(
    "name",
    [
        "com.example.OurStrategy",
        "com.example.BoundedIOCompactionStrategy",
        PACKAGE + "UnBoundedPartitionAwareCompactionStrategy",
        "LogFileSize",
        "unbounded",
    ],
)
def test_others_are_refused_by_name(name: str) -> None:
    """A strategy is code; guessing what it does would compact what its author meant to leave."""
    with pytest.raises(UsageError, match=name.rpartition(".")[2]):
        parse_strategies(name)


@pytest.mark.parametrize("path", ["2026/11/21", "year=2026/month=11/day=21", "2026/11/21/hour=7", "2026/11/21/x"])
def test_partition_paths_name_days(path: str) -> None:
    """Hudi reads them so: yyyy/MM/dd, with or without names, and whatever comes behind."""
    assert day_of(path) == datetime.date(2026, 11, 21)


@pytest.mark.parametrize("path", ["", "2026/11", "2026-11-21", "x=1/y=2/z=3", "2026/13/01", "2026/02/30"])
def test_a_path_that_names_no_day_is_refused(path: str) -> None:
    """Hudi fails there; taking it for some day would choose the wrong partitions."""
    with pytest.raises(UsageError):
        Selection((Strategy.DAY_BASED,)).select_partitions([path], at="20261121000000000")


def test_a_regular_expression_is_checked_at_once() -> None:
    """It is checked before the first plan is made, and only where it is used."""
    with pytest.raises(UsageError):
        Selection((Strategy.PARTITION_REGEX,), partition_regex="(")
    assert Selection(partition_regex="(").strategies == ()
