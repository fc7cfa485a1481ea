"""What the path of a partition says of columns that files lack."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported
from lakeward.read.path_columns import PathColumns

SCHEMA = pa.schema([("city", pa.string()), ("n", pa.int32()), ("day", pa.date32())])


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("lima/7/2026-01-31", ("lima", 7, date(2026, 1, 31))),
        ("city=lima/n=-7/day=2026-01-31", ("lima", -7, date(2026, 1, 31))),
        ("a%2Fb%3Dü/0/1969-12-31", ("a/b=ü", 0, date(1969, 12, 31))),
        ("__HIVE_DEFAULT_PARTITION__/__HIVE_DEFAULT_PARTITION__/2026-01-31", (None, None, date(2026, 1, 31))),
    ],
)
def test_values(path: str, values: tuple[object, ...]) -> None:
    found = PathColumns(("city", "n", "day")).values(SCHEMA, path)
    assert tuple(value.as_py() for value in found.values()) == values
    assert [value.type for value in found.values()] == SCHEMA.types


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("lima/7", "It has 2 parts, and the table 3 columns."),
        ("x=y/7/2026-01-31", "'x=y' may be the value of city, or name another column."),
        ("lima/seven/2026-01-31", "'seven' is no value of type int32."),
        ("lima/99999999999/2026-01-31", "'99999999999' is no value of type int32."),
    ],
)
def test_what_is_not_certain(path: str, why: str) -> None:
    """Keeps of read/path_columns."""
    with pytest.raises(Unsupported) as raised:
        PathColumns(("city", "n", "day")).values(SCHEMA, path)
    assert raised.value.why == f"They are not in the files. {why}" and path in raised.value.what


def test_types_whose_text_is_not_their_value() -> None:
    """The path has what Java prints of decimals, floats and times."""
    with pytest.raises(Unsupported, match=r"The text '1.50' may stand for several values of type double"):
        PathColumns(("fare",)).values(pa.schema([("fare", pa.float64())]), "1.50")
