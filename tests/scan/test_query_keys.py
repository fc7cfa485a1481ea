"""The record keys that a query's rows must have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.scan.filter_text import parse_filter
from lakeward.scan.query_keys import KEYS_MAX, QueryKeys, query_keys
from lakeward.table.table_config import TableConfig

SCHEMA = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("a", pa.string()),
        ("b", pa.int64()),
        ("c", pa.float64()),
        ("day", pa.date32()),
    ]
)


def config(keys: str, generator: str | None = None, **more: str) -> TableConfig:
    said = {"hoodie.table.recordkey.fields": keys} | (
        {"hoodie.table.keygenerator.type": generator} if generator else {}
    )
    return TableConfig(said | {name.replace("_", "."): value for name, value in more.items()})


def found(
    text: str | None, of: TableConfig, *, named: tuple[str, ...] | None = None, evolves: bool = False
) -> QueryKeys | None:
    where = None if text is None else parse_filter(text, SCHEMA)
    return query_keys(named, where, SCHEMA, of, evolves=evolves)


@pytest.mark.parametrize(
    ("text", "fields", "generator", "keys"),
    [
        ("_hoodie_record_key = 'x'", "a", None, ["x"]),
        ("c > 1 and _hoodie_record_key in ('x', 'y')", "a", None, ["x", "y"]),
        ("a = 'x' and c > 1", "a", None, ["x"]),
        ("b in (3, 1)", "b", None, ["3", "1"]),
        ("b = -7", "b", "SIMPLE", ["-7"]),
        ("a = 'x'", "a", "COMPLEX", ["x", "a:x"]),
        ("b in (1, 2) and a = 'x'", "a,b", None, ["a:x,b:1", "a:x,b:2"]),
        ("a = '' and b = 1", "a,b", None, ["a:__empty__,b:1"]),
        ("a = 'x'", "a,b", None, None),
        ("a = 'x' or b = 1", "a", None, None),
        ("a != 'x'", "a", None, None),
        ("a not in ('x')", "a", None, None),
        ("a > 'x'", "a", None, None),
        ("c = 1", "c", None, None),
        ("day = '2026-01-31'", "day", None, None),
        ("a = 'x'", "", None, None),
        ("a = 'x'", "a", "CUSTOM", None),
    ],
)
def test_keys_of_a_filter(text: str, fields: str, generator: str | None, keys: list[str] | None) -> None:
    """Keeps 1 of scan/query_keys; 2 of scan/query_keys."""
    expected = None if keys is None else QueryKeys(tuple(keys), tuple(keys))
    assert found(text, config(fields, generator)) == expected


def test_under_schema_on_read_values_may_have_been_other_ones() -> None:
    """Keeps 2 of scan/query_keys: but keys themselves are what they are."""
    assert found("a = 'x'", config("a"), evolves=True) is None
    assert found("_hoodie_record_key = 'x'", config("a"), evolves=True) == QueryKeys(("x",), ("x",))


def test_keys_by_name_go_before_a_filter() -> None:
    assert found("a = 'x'", config("a"), named=("k",)) == QueryKeys(("k",), ("k",))
    assert found(None, config("a")) is None


def test_hashed_fields_say_the_bucket() -> None:
    """The other field is a whole number; text may look like a value of the hashed one."""
    by_a = {"hoodie_bucket_index_hash_field": "a"}
    assert found("a in ('x', '')", config("a,b", **by_a)) == QueryKeys(None, ("a:x,:", "a:__empty__,:"))
    assert found("b = 1", config("a,b", hoodie_bucket_index_hash_field="b")) is None


def test_too_many_keys_are_none() -> None:
    values = ", ".join(str(number) for number in range(KEYS_MAX // 100 + 1))
    texts = ", ".join(f"'{number}'" for number in range(100))
    assert found(f"b in ({values}) and a in ({texts})", config("a,b")) is None
