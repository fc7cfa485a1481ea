"""Partitions of times: each path here is one that the key generator of Hudi 1.2.0 gave."""

import datetime
import zoneinfo
from decimal import Decimal

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, Unsupported, UsageError
from lakeward.table.table_config import TableConfig
from lakeward.write.keys.key_generator import key_generator

NAMES = {
    "kind": "timestamp.type",
    "out": "output.dateformat",
    "read": "input.dateformat",
    "unit": "timestamp.scalar.time.unit",
    "between": "input.dateformat.list.delimiter.regex",
    "zone": "timezone",
    "zone_in": "input.timezone",
    "zone_out": "output.timezone",
}
FULL = "yyyy/MM/dd/HH:mm:ss.SSS"
NEW_YORK = "America/New_York"


def paths(values, of=None, *, writers_zone=datetime.UTC, properties=None, **options):
    config = TableConfig(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "at",
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            "hoodie.keygen.timebased.output.dateformat": FULL,
            **{f"hoodie.keygen.timebased.{NAMES[name]}": value for name, value in options.items()},
            **(properties or {}),
        }
    )
    generator = key_generator(config, writers_zone=writers_zone)
    batch = pa.record_batch({"id": ["k"] * len(values), "at": pa.array(values, of)})
    return generator.keys(batch)[1].to_pylist()


@pytest.mark.parametrize(
    ("options", "value", "path"),
    [
        ({"kind": "EPOCHMILLISECONDS"}, 1700000000123, "2023/11/14/22:13:20.123"),
        ({"kind": "EPOCHMILLISECONDS"}, -1500, "1969/12/31/23:59:58.500"),
        ({"kind": "EPOCHMILLISECONDS"}, None, "1970/01/01/00:00:00.001"),
        ({"kind": "EPOCHMICROSECONDS"}, 1700000000123, "1970/01/20/16:13:20.000"),
        ({"kind": "EPOCHMICROSECONDS"}, -1500, "1969/12/31/23:59:59.999"),
        ({"kind": "EPOCHMICROSECONDS"}, -1, "1970/01/01/00:00:00.000"),
        ({"kind": "UNIX_TIMESTAMP"}, None, "1970/01/01/00:00:01.000"),
        ({"kind": "UNIX_TIMESTAMP"}, 5.9e9, "2156/12/18/00:53:20.000"),
        ({"kind": "UNIX_TIMESTAMP"}, Decimal("-1.99"), "1969/12/31/23:59:59.000"),
        ({"kind": "SCALAR"}, -1500, "1969/12/31/23:35:00.000"),
        ({"kind": "SCALAR", "unit": "nanoseconds"}, 2**63 - 1, "2262/04/11/23:47:16.854"),
        ({"kind": "SCALAR", "unit": "hours"}, 123456, "1984/02/01/00:00:00.000"),
        ({"kind": "SCALAR", "unit": "DAYS"}, 123456, "2308/01/06/00:00:00.000"),
        ({"kind": "EPOCHMILLISECONDS", "zone": NEW_YORK}, 1704067205007, "2023/12/31/19:00:05.007"),
        ({"kind": "EPOCHMILLISECONDS", "zone_out": "GMT+8"}, 1704067205007, "2024/01/01/08:00:05.007"),
        ({"kind": "EPOCHMICROSECONDS", "zone": "Europe/Berlin"}, 3415673387326842, "2078/03/28/08:09:47.326"),
        ({"kind": "EPOCHMILLISECONDS", "zone": "Europe/Berlin"}, -2208988800000, "1900/01/01/01:00:00.000"),
    ],
)
def test_numbers(options, value, path):
    """Keeps 1 of write/keys/timestamp_path."""
    assert paths([value], pa.int64() if value is None else None, **options) == [path]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("yyyy/MM/dd/HH", "2024/01/01/00"),
        ("yy-M-d H m s", "24-1-1 0 0 5"),
        ("YYYYY.DDD", "02024.001"),
        ("SSSS S", "0070 0"),
        ("'x'yyyy''MM'it''s'", "x2024'01it's"),
    ],
)
def test_patterns(pattern, path):
    """Keeps 1 of write/keys/joda_pattern."""
    assert paths([1704067205007], kind="EPOCHMILLISECONDS", out=pattern) == [path]


@pytest.mark.parametrize(
    ("options", "text", "path"),
    [
        ({"read": "yyyy-MM-dd"}, "2024-3-4", "2024/03/04/00:00:00.000"),
        ({"read": "yyyy-MM-dd"}, None, "1970/01/01/00:00:00.000"),
        ({"read": "yyyyMMdd", "kind": "MIXED"}, "2024034", "2024/03/04/00:00:00.000"),
        ({"read": " yyyy-MM-dd , yyyy/MM/dd "}, "2024/03/04", "2024/03/04/00:00:00.000"),
        ({"read": "yyyy;yyyy-MM", "between": ";"}, "2024-03", "2024/03/01/00:00:00.000"),
        ({"read": "yyyy-MM-dd HH:mm:ss.SSS"}, "2024-03-04 05:06:07.12", "2024/03/04/05:06:07.120"),
        ({"read": "yyyy-MM-dd'T'HHZ"}, "2024-03-04T05+02:00", "2024/03/04/05:00:00.000"),
        ({"read": "yyyy-MM-dd'T'HHZ", "zone_out": "UTC"}, "2024-03-04T05+0200", "2024/03/04/03:00:00.000"),
        ({"read": "yyyy-MM-dd'T'HHZ", "zone_in": NEW_YORK}, "2024-03-04T05+02:00", "2024/03/03/22:00:00.000"),
        ({"read": "yyyy-MM-dd HH", "zone_in": NEW_YORK}, "2024-03-04 05", "2024/03/04/05:00:00.000"),
        ({"read": "yyyy-MM-dd HH", "zone_in": NEW_YORK, "zone_out": "UTC"}, "2024-11-03 01", "2024/11/03/05:00:00.000"),
        ({"read": "yyyy-MM-dd HH", "zone_out": NEW_YORK}, "2024-03-04 05", "2024/03/04/00:00:00.000"),
        ({"read": "yyyy-MM-dd HH:mm", "zone": NEW_YORK}, None, "1969/12/31/19:00:00.000"),
        ({"read": "yyyy-MM-dd HH:mm", "zone_out": NEW_YORK}, None, "1969/12/31/14:00:00.000"),
    ],
)
def test_texts(options, text, path):
    assert paths([text], pa.string(), **{"kind": "DATE_STRING", **options}) == [path]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("2024-02-30", {}),
        ("2024-03-04x", {}),
        (" 2024-03-04", {}),
        ("", {}),
        ("2024-003-04", {}),
        ("٢٠٢٤-03-04", {}),
        ("202403", {"read": "yyyyMMdd"}),
        ("2024-03-10 02", {"read": "yyyy-MM-dd HH", "zone": NEW_YORK}),
        (None, {"read": "yyyy-MM-ddZ"}),
    ],
)
def test_texts_that_are_no_times_are_refused(text, options):
    with pytest.raises(UsageError, match="Row 1 has no partition: at is"):
        paths([text], pa.string(), **{"kind": "DATE_STRING", "read": "yyyy-MM-dd"} | options)


def test_hive_style_and_escapes():
    style = {
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }

    assert paths([0], kind="UNIX_TIMESTAMP", out="yyyy/MM", properties=style) == ["at=1970%2F01"]


def test_a_timestamp_is_the_number_that_it_stores():
    moment = datetime.datetime(2024, 3, 4, 5, tzinfo=datetime.UTC)

    assert paths([moment], kind="SCALAR", unit="microseconds", out="yyyy-MM-dd") == ["2024-03-04"]
    with pytest.raises(UsageError, match=r"Row 1 has no partition.*As milliseconds since 1970 it is not in the years"):
        paths([moment], kind="EPOCHMILLISECONDS")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("EPOCHMILLISECONDS", datetime.date(2024, 3, 4)),
        ("EPOCHMILLISECONDS", "5"),
        ("DATE_STRING", 5),
        ("SCALAR", True),
    ],
)
def test_types_that_hudi_takes_otherwise_are_refused(kind, value):
    with pytest.raises(Unsupported, match="column at cannot give partition paths"):
        paths([value], kind=kind, read="yyyy")


def test_the_zone_of_the_writers_must_be_said():
    """Keeps 2 of write/keys/timestamp_path: unless nothing hangs on it."""
    for options in ({"kind": "UNIX_TIMESTAMP"}, {"kind": "DATE_STRING", "read": "yyyy", "zone_out": "UTC"}):
        with pytest.raises(Refused, match="not known in which zone the table's partitions by at are"):
            paths(["2024" if "read" in options else 5], writers_zone=None, **options)
    assert paths([5], writers_zone=None, kind="UNIX_TIMESTAMP", zone_out="UTC") == ["1970/01/01/00:00:05.000"]
    assert paths(["2024"], writers_zone=None, kind="DATE_STRING", read="yyyy", out="yyyy/MM") == ["2024/01"]
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    assert paths([5], writers_zone=berlin, kind="UNIX_TIMESTAMP", out="HH") == ["01"]


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "LATER"},
        {"kind": "UNIX_TIMESTAMP", "out": ""},
        {"kind": "UNIX_TIMESTAMP", "out": "EEE"},
        {"kind": "UNIX_TIMESTAMP", "out": "yyyy MMM"},
        {"kind": "UNIX_TIMESTAMP", "out": "yyyy'"},
        {"kind": "UNIX_TIMESTAMP", "out": "yyyyZ"},
        {"kind": "UNIX_TIMESTAMP", "zone": "PST"},
        {"kind": "UNIX_TIMESTAMP", "zone": "Nowhere/Land"},
        {"kind": "SCALAR", "unit": "weeks"},
        {"kind": "DATE_STRING", "read": "MM-dd"},
        {"kind": "DATE_STRING", "read": "yy-MM"},
        {"kind": "DATE_STRING", "read": "yyyy-DDD"},
        {"kind": "DATE_STRING", "read": "yyyy", "between": "|"},
        {"kind": "UNIX_TIMESTAMP", "properties": {"hoodie.keygen.datetime.parser.class": "org.example.Parser"}},
    ],
)
def test_what_is_not_known_is_refused(options):
    """Keeps 2 of write/keys/joda_pattern."""
    with pytest.raises(Refused, match="names its partitions by times in a way that this release does not know"):
        paths([5], **options)
