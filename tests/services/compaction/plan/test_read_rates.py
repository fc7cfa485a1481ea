"""How often readers scan a partition. The decisions that follow are cases in `hybrid_compaction.cases`."""

from __future__ import annotations

import datetime

import pytest

from lakeward.base.errors import UsageError
from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.learned_reads import LearnedReads
from lakeward.services.compaction.plan.read_rates import (
    PROPERTY,
    READS_PER_DAY,
    RateSource,
    ReadRate,
    ReadRates,
    day_in,
    parse_rates,
)
from lakeward.table.table_config import TableConfig

TODAY = datetime.date(2026, 1, 10)


def rate(text: str, path: str, *, of_table: str = "") -> tuple[float, RateSource]:
    table = TableConfig({PROPERTY: of_table} if of_table else {})
    found = ReadRates(parse_rates(text) if text else ()).on(table).of(path, TODAY)
    return found.per_day, found.source


def test_the_first_that_fits_is_the_rate() -> None:
    """Keeps 1 of services/compaction/plan/read_rates: by the age of the day in the path, by a pattern, or the rest; of
    the configuration before the table's property, and what neither says is assumed."""
    said = "<2d: 200/day, archive/*: 0/day, <30d : 3/hour"
    assert rate(said, "2026/01/09") == (200, RateSource.SAID)
    assert rate(said, "2026/01/08") == (72, RateSource.SAID), "at its end it is two days old"
    assert rate(said, "archive/2026/01/08") == (0, RateSource.SAID)
    assert rate(said, "archive/2026/01/10") == (200, RateSource.SAID), "the first that fits"
    assert rate(said, "2025/12/11") == (READS_PER_DAY, RateSource.ASSUMED)
    assert rate(said, "city=berlin") == (READS_PER_DAY, RateSource.ASSUMED)
    assert rate(said, "city=berlin", of_table="city=*: 7/week, 5/day") == (1, RateSource.OF_PROPERTY)
    assert rate(said, "2025/12/11", of_table="city=*: 7/week, 5/day") == (5, RateSource.OF_PROPERTY)
    assert rate(f"{said}, 9/day", "city=berlin", of_table="5/day") == (9, RateSource.SAID)
    assert rate("", "p") == (READS_PER_DAY, RateSource.ASSUMED)


def test_a_rate_says_where_it_is_from() -> None:
    assert ReadRate(200, RateSource.SAID).numbers == {"reads_per_day": 200, "reads_said": 1}
    assert ReadRate(1 / 3, RateSource.ASSUMED).numbers == {"reads_per_day": 0.333, "reads_assumed": 1}
    assert ReadRate(DAY_SECONDS, RateSource.SAID).per_second == 1


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("2026/11/21", (2026, 11, 21)),
        ("year=2026/month=1/day=2/hour=23", (2026, 1, 2)),
        ("2026-11-21", (2026, 11, 21)),
        ("date=2026-11-21", (2026, 11, 21)),
        ("city=berlin/20261121", (2026, 11, 21)),
        ("dt=2026-11-21T10", (2026, 11, 21)),
        ("id=20269999/2026/11/21", (2026, 11, 21)),
        ("id=202611210", None),
        ("x2026-11-21", None),
        ("2026-13-21", None),
        ("city=berlin", None),
        ("", None),
    ],
)
def test_a_path_names_a_day(path: str, day: tuple[int, int, int] | None) -> None:
    assert day_in(path) == (None if day is None else datetime.date(*day))


@pytest.mark.parametrize(
    "text", ["", "200", "often", "-1/day", "1/century", "nan/day", "1/day,", ": 1/day", "<x: 1/day"]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"200/day"):
        parse_rates(text)


def test_a_property_that_is_no_rate_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match=r"lakeward\.planner\.reads cannot be 'often'") as refused:
        ReadRates().on(TableConfig({PROPERTY: "often"}))
    assert "hoodie.properties" in refused.value.remedy


def test_one_rate_for_all_is_known_as_such() -> None:
    assert ReadRates().everywhere == READS_PER_DAY
    learned = LearnedReads(reads=9, days=2, weighted_days=2.0, weighted_reads={"a": 9.0})
    assert ReadRates(learned=learned).everywhere is None, "what was learned differs by partition"
    assert ReadRates(parse_rates("200/day"), learned).everywhere == 200, "what is said comes first"
    assert ReadRates(parse_rates("200/day")).everywhere == 200
    assert ReadRates(parse_rates("*: 200/day, a: 1/day")).everywhere == 200
    assert ReadRates(parse_rates("a: 1/day, 200/day")).everywhere is None
    assert ReadRates(parse_rates("<1d: 1/day")).everywhere is None
