"""Filters in words: what they choose, and what is said of those that are none."""

from __future__ import annotations

import io
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random, randrange

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import UsageError
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.row_groups import ValueRange, row_groups
from lakeward.scan.filter_text import parse_filter

SCHEMA = pa.schema(
    [
        ("city", pa.string()),
        ("fare", pa.float64()),
        ("n", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("coarse", pa.timestamp("ms", "UTC")),
        ("ok", pa.bool_()),
        ("box", pa.struct([("depth", pa.int64()), ("name", pa.string())])),
        ("raw", pa.binary()),
        ("items", pa.list_(pa.int32())),
    ]
)
LIMA = {
    "city": "lima",
    "fare": 1.5,
    "n": 3,
    "price": Decimal("1.10"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, tzinfo=UTC),
    "local": datetime(2026, 1, 31),
    "coarse": datetime(2026, 1, 31, tzinfo=UTC),
    "ok": True,
    "box": {"depth": 1, "name": "x"},
    "raw": b"ab",
    "items": [1],
}
ROME = {**LIMA, "city": "rome", "fare": 20.0, "n": 10, "price": Decimal("2.00"), "day": date(2026, 2, 1), "ok": False}
NOTHING = dict.fromkeys(LIMA)
ROWS = pa.RecordBatch.from_pylist([LIMA, ROME, NOTHING, {**NOTHING, "fare": float("nan")}], SCHEMA)


@pytest.mark.parametrize(
    "text, chosen",
    [
        ("city = 'lima'", "L"),
        ("city <> 'lima'", "R"),
        ("`city` in ('lima', 'rome')", "LR"),
        ("city not in ('lima')", "R"),
        ("city not in ('lima', null)", ""),
        ("city in ('lima', null)", "L"),
        ("city like 'l%'", "L"),
        ("city not like 'l%'", "R"),
        ("not (city like 'l%')", "R"),
        ("fare > 10", "RX"),
        ("10 < fare", "RX"),
        ("not fare < 10", "RX"),
        ("fare in (1.5)", "L"),
        ("n > 3.5", "R"),
        ("n < 3.5", "L"),
        ("n = 3.5", ""),
        ("n != 3.5", "LR"),
        ("n < 99999999999", "LR"),
        ("n > -99999999999", "LR"),
        ("n >= 99999999999", ""),
        ("n in (3, 4.5, 99999999999)", "L"),
        ("n between 3 and 9", "L"),
        ("n not between 4 and 9", "LR"),
        ("n = -3 or n = 3", "L"),
        ("price = 1.1", "L"),
        ("price > 1.105", "R"),
        ("price in (1.1, 2)", "LR"),
        ("day >= '2026-02-01'", "R"),
        ("day = date '2026-01-31'", "L"),
        ("at > '2026-01-31T01:00:00+02:00'", "LR"),
        ("at = '2026-01-31'", "LR"),
        ("local = '2026-01-31'", "LR"),
        ("coarse > '2026-01-30T23:59:59.999999'", "LR"),
        ("coarse in ('2026-01-31T00:00:00.000001', '2026-01-31')", "LR"),
        ("ok", "L"),
        ("not ok", "R"),
        ("ok is true", "L"),
        ("ok is not true", "RNX"),
        ("box.depth = 1 and box.name = 'x'", "LR"),
        ("box.depth is null", "NX"),
        ("items is null", "NX"),
        ("raw = 'YWI='", "LR"),
        ("n = null", ""),
        ("fare > n", "R"),
        ("true", "LRNX"),
        ("false or city = 'rome'", "R"),
    ],
)
def test_rows_are_chosen(text: str, chosen: str) -> None:
    """L is the row of Lima, R that of Rome, N has nulls alone, X has NaN."""
    truth = parse_filter(text, SCHEMA).truth(ROWS).fill_null(False).to_pylist()
    assert "".join(name for name, is_chosen in zip("LRNX", truth, strict=True) if is_chosen) == chosen


@pytest.mark.parametrize(
    "text, error",
    [
        ("fare >", "something is missing at its end.\n  fare >\n        ^\n"),
        ("n = 1 && fare > 2", "cannot be read at &&.\n  n = 1 && fare > 2\n        ^^\nWrite and instead of &&."),
        ("city = 'lima", "the quote ' is not closed.\n  city = 'lima\n         ^\n"),
        ("n = 1\nand or 2", "cannot be read at or.\n  and or 2\n      ^^\n"),
        ("city = lima", "'lima', and there is no such column.\n  city = lima\n         ^^^^\n"),
        ("", "The filter is empty."),
        ("n = 1; n = 2", "The filter has several statements."),
        ("citty = 'x'", "'citty', and there is no such column.\n  citty = 'x'\n  ^^^^^\nDid you mean city?"),
        ("box.width = 1", "The filter names 'width', and there is no such column in box."),
        ("sqrt(fare) > 1", "The filter cannot be used: this is not understood.\n  sqrt(fare) > 1\n  ^^^^"),
        ("city ilike 'L%'", "this is not understood.\n  city ilike 'L%'\n  ^^^^"),
        ("city = (select 1)", "this is not understood"),
        ("fare = 'x'", "fare is of type double, and this is no such value."),
        ("day = '2026-02-31'", "day is of type date32[day], and this is no such value."),
        ("items = 3", "items is of type list<item: int32>, which is compared with no value."),
        ("city = n", "city is of type string and n of int32"),
        ("1 = 1", "neither side names a column"),
        ("local = '2026-01-31T00:00:00Z'", "local times, which have no offset"),
    ],
)
def test_what_is_no_filter_is_named(text: str, error: str) -> None:
    """Keeps 1 and 2 of scan/filter_grammar."""
    with pytest.raises(UsageError) as raised:
        parse_filter(text, SCHEMA)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "n = 8",
        "n < 3",
        "not n >= 3",
        "n > 7.5",
        "n in (1, 8)",
        "n between 8 and 9",
        "city = 'rome'",
        "city != 'lima'",
        "city not in ('lima', 'oslo')",
        "city like 'r%'",
        "day is not null",
        "day = '2026-01-31'",
        "n = 5 and city = 'rome'",
        "born > '2026-01-31'",
        "born in ('2026-02-01', '2025-01-01')",
        "at < '2026-01-31'",
        "at not between '2026-01-01' and '2026-03-01'",
        "coarse >= '2026-02-02'",
        "local in ('2026-03-01')",
        "n = 8 or city = 'rome'",
        "false",
    ],
)
def test_ranges_rule_out(text: str) -> None:
    """Numbers from 3 to 7, one city, no day, births in January 2026, and times of one day."""
    node = parse_filter(text, SCHEMA.append(pa.field("born", pa.date32())))
    begin = int(datetime(2026, 1, 31, tzinfo=UTC).timestamp() * 1_000_000)
    times = ValueRange(begin, begin + 86_399_999_999)
    ranges: dict[str, ValueRange | None] = {"n": ValueRange(3, 7), "city": ValueRange("lima", "lima"), "day": None}
    ranges |= {"born": ValueRange(20454, 20484), "at": times, "coarse": times, "local": times}
    assert not node.may_hold(ranges)


@pytest.mark.parametrize("run", range(40))
def test_ranges_rule_out_no_row_that_is_chosen(run: int) -> None:
    """Ranges do not say either that all rows are chosen where one is not. Keeps 1 and 3 of read/query/filter.
    LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", randrange(2**32))) + run
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("d", pa.date32()), ("t", pa.timestamp("ms", "UTC"))])
    rows = [
        {
            "a": chance.choice([None, -2, 0, 1, 5, 9]),
            "b": chance.choice([None, "", "a", "ab", "b", "ü"]),
            "d": chance.choice([None, date(1969, 12, 31), date(2026, 1, 31), date(2026, 2, 1)]),
            "t": chance.choice([None, datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)]),
        }
        for _ in range(chance.randrange(1, 4))
    ]
    ranges: dict[str, ValueRange | None] = {}
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), file, store_schema=False)
    (group,) = row_groups(ParquetBatches(file, where="a file"), schema)
    ranges = dict(group.ranges)
    assert ranges.keys() == set("abdt")
    if chance.random() < 0.2:
        del ranges[chance.choice("abdt")]
    for _ in range(60):
        node = parse_filter(_words(chance), schema)
        truth = node.truth(pa.RecordBatch.from_pylist(rows, schema)).fill_null(False).to_pylist()
        assert node.may_hold(ranges) or not any(truth), node
        assert all(truth) or not node.must_hold(ranges, group.without_nulls), node


def _words(chance: Random, depth: int = 0) -> str:
    if depth < 3 and chance.random() < 0.4:
        if chance.random() < 0.3:
            return f"not ({_words(chance, depth + 1)})"
        return f"({_words(chance, depth + 1)} {chance.choice(['and', 'or'])} {_words(chance, depth + 1)})"
    operator = chance.choice(["=", "!=", "<", "<=", ">", ">="])
    name = chance.choice("abdt")
    days = ["'1969-12-31'", "'2026-01-31'", "'2026-02-01'"]
    values = {"a": ["-2", "0", "4.5", "9", "12"], "b": ["''", "'ab'", "'z'"], "d": days}
    value = chance.choice(values.get(name, [*days, "'2026-01-31T00:00:00.000001'"]))
    return chance.choice(
        [
            f"{name} {operator} {value}",
            f"{name} {chance.choice(['', 'not '])}in ({value})",
            f"{name} is {chance.choice(['', 'not '])}null",
            f"{name} between {value} and {value}",
            "b like 'a%'",
            "b not like 'a_'",
        ]
    )
