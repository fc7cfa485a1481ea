"""What Spark 4 pushes, as words. PySpark 3.5 has no classes for it; these here have their names and fields."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakeward
from lakeward.base.errors import UsageError
from lakeward.scan.filter_text import parse_filter
from lakeward.spark.pushed_filters import filter_words

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("a b", pa.string()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("real", pa.float64()),
        ("in_box", pa.struct([("depth", pa.int32())])),
    ]
)


@dataclass
class Not:
    child: Any


def pushed(kind: str, column: str, *value: Any) -> Any:
    names = ["attribute", *(["value"] if value else [])]
    return make_dataclass(kind, names)(tuple(column.split(".")), *value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (pushed("EqualTo", "n", 1), "`n` = 1"),
        (pushed("EqualTo", "ok", True), "`ok` = true"),
        (pushed("GreaterThan", "in_box.depth", -3), "`in_box`.`depth` > -3"),
        (pushed("LessThanOrEqual", "price", Decimal("3.50")), "`price` <= 3.50"),
        (pushed("LessThan", "real", 0.5), "`real` < 0.5"),
        (pushed("GreaterThanOrEqual", "day", date(2026, 1, 31)), "`day` >= '2026-01-31'"),
        (pushed("In", "a b", ("x", "ü")), "`a b` in ('x', 'ü')"),
        (pushed("IsNull", "at"), "`at` is null"),
        (Not(pushed("IsNotNull", "at")), "not (`at` is not null)"),
        (pushed("EqualTo", "a b", "it's"), None),
        (pushed("EqualTo", "a b", "back\\slash"), None),
        (pushed("EqualTo", "at", datetime(2026, 1, 31)), None),
        (pushed("EqualTo", "real", float("nan")), None),
        (pushed("EqualNullSafe", "n", 1), None),
        (pushed("StringStartsWith", "a b", "x"), None),
        (Not(pushed("StringContains", "a b", "x")), None),
        (pushed("In", "a b", ("x", None)), None),
        (pushed("EqualTo", "n", "text"), None),
        (pushed("EqualTo", "elsewhere", 1), None),
    ],
)
def test_filters_have_words_or_are_left_to_spark(given: Any, words: str | None) -> None:
    """Keeps of spark/pushed_filters."""
    assert filter_words([given], SCHEMA) == words
    if words is not None:
        parse_filter(words, SCHEMA)
        assert filter_words([given, pushed("EqualTo", "real", float("nan")), given], SCHEMA) == f"{words} and {words}"


def test_pyspark_3_has_no_sources() -> None:
    with pytest.raises(UsageError, match="no data sources in Python"):
        lakeward.spark.HudiSource  # noqa: B018
