"""The two comment lines at the head of `hoodie.properties`."""

from __future__ import annotations

import datetime
import tarfile
from pathlib import Path

import pytest

from lakeward.format.properties_head import parse_properties_head

GOLDEN = Path(__file__).parent.parent / "golden"
UTC_LINE = "#Updated at 2026-11-22T08:48:22.041354597Z"


def head(shown: str, moment: str = UTC_LINE) -> bytes:
    return f"{moment}\n#{shown}\nhoodie.table.name=t\n".encode()


# As OpenJDK 17 prints them, by `-Duser.timezone`.
@pytest.mark.parametrize(
    ("shown", "hours", "is_utc"),
    [
        ("Sun Nov 22 08:48:22 UTC 2026", 0, True),
        ("Sun Nov 22 08:48:22 GMT 2026", 0, False),
        ("Sun Nov 22 09:48:22 CET 2026", 1, False),
        ("Sun Nov 22 14:18:22 IST 2026", 5.5, False),
        ("Sun Nov 22 00:48:22 PST 2026", -8, False),
        ("Sun Nov 22 14:18:22 GMT+05:30 2026", 5.5, False),
        ("Sun Nov 22 05:48:22 GMT-03:00 2026", -3, False),
        ("Sun Nov 22 14:33:22 NPT 2026", 5.75, False),
    ],
)
def test_the_offset_is_the_difference_of_the_two_lines(shown: str, hours: float, is_utc: bool) -> None:
    """An abbreviation says nothing, but for that of UTC itself."""
    found = parse_properties_head(head(shown))

    assert found is not None
    assert (found.offset_seconds, found.is_utc) == (hours * 3600, is_utc)
    assert found.moment == pytest.approx(datetime.datetime(2026, 11, 22, 8, 48, 22, tzinfo=datetime.UTC).timestamp())


@pytest.mark.parametrize("fraction", ["", ".041", ".041354", ".041354597"])
def test_java_leaves_zeros_away(fraction: str) -> None:
    """A moment has as many digits as it needs, by threes."""
    moment = f"#Properties saved on 2026-11-22T08:48:22{fraction}Z"
    assert parse_properties_head(head("Sun Nov 22 08:48:22 UTC 2026", moment)) is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hoodie.table.name=t\n",
        b"#Sun Nov 22 08:48:22 UTC 2026\nhoodie.table.name=t\n",
        head("Sun Nov 22 08:48:22 UTC 2026", "#Properties saved on Sun Nov 22 08:48:22 UTC 2026"),  # Hudi before 0.11
        head("Sun Nov 22 08:48:22 UTC 2026", "#Updated at 2026-11-22T08:48:22"),
        head("Sun Nov 22 08:55:22 UTC 2026"),
        head("Sun Nov 22 09:48:22 UTC 2026"),
        head("Sun Nov 22 09:48:22 GMT 2026"),
        head("Sun Nov 22 14:18:22 GMT+05:00 2026"),
        head("Sun Nov 31 08:48:22 UTC 2026"),
        head("So Nov 22 09:48:22 MEZ 2026"),
        head("2026-11-22 08:48"),  # -Djava.properties.date
        b"\xff\xfe\n\xff\n",
    ],
)
def test_what_says_nothing(content: bytes) -> None:
    """Other lines, lines that are no quarter of an hour apart, and names that contradict the times.

    Keeps of format/properties_head.
    """
    assert parse_properties_head(content) is None


def test_a_real_writer_in_another_zone() -> None:
    """Hudi 1.2.0 on OpenJDK 17 with `-Duser.timezone=America/Chicago` wrote it, as it added to the metadata table."""
    found = parse_properties_head(head("Sun Nov 22 03:08:20 CST 2026", "#Updated at 2026-11-22T09:08:20.663846084Z"))
    assert found is not None and (found.offset_seconds, found.zone_name) == (-6 * 3600, "CST")


def test_files_of_real_writers() -> None:
    """Hudi 1.0 and 1.2 created and updated them, in a process in UTC: tables of version 6, 8 and 9 and metadata
    tables."""
    contents = [path.read_bytes() for path in sorted(GOLDEN.glob("*/table/.hoodie/hoodie.properties"))]
    for archive in sorted(GOLDEN.glob("*/table.tar.xz")):
        with tarfile.open(archive) as files:
            contents += [
                files.extractfile(name).read()  # type: ignore[union-attr]
                for name in files.getnames()
                if name.endswith("/hoodie.properties")
            ]

    assert len(contents) >= 12
    assert {content[:8] for content in contents} == {b"#Propert", b"#Updated"}
    for content in contents:
        found = parse_properties_head(content)
        assert found is not None and found.is_utc and found.offset_seconds == 0
