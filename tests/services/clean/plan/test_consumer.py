"""What consumers leave behind: which text is a place, and which a time."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.services.clean.plan.consumer import PlaceKind, WatermarkPlace, checkpoint_of, parse_place, parse_watermark


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("20261122213000123", "20261122213000123"),
        (" 20261122213000123\n", "20261122213000123"),
        ("20261122213000", "20261122213000000"),
        ("00000000000000", "00000000000000000"),
        ("orders,0:1234", None),
        ("20261122213000123#part-1", None),
        ("1732311000", None),
        ("2026112221300012", None),
        ("", None),
    ],
)
def test_a_watermark_is_a_time(text: str, time: str | None) -> None:
    """Keeps 1 and 2 of services/clean/plan/consumer: offsets of other sources, half commits and other numbers are none;
    where only seconds are said, a commit of that second counts as not read."""
    assert parse_watermark(text) == time


def test_places() -> None:
    """A kind and where; what names none of the kinds is refused."""
    assert parse_place("table:s3://lake/daily") == WatermarkPlace(PlaceKind.TABLE, "s3://lake/daily")
    assert str(parse_place("property:read.up.to")) == "property:read.up.to"
    for wrong in ("/srv/watermark", "kafka:orders", "file:", "file: "):
        with pytest.raises(UsageError, match="is no place of a watermark"):
            parse_place(wrong)


def test_the_newer_checkpoint_of_a_streamer_wins() -> None:
    """Hudi reads that by completion time where there is one, else that by requested time."""
    old = {"deltastreamer.checkpoint.key": "20260101000000000"}
    new = {"streamer.checkpoint.key.v2": "20260102000000000"}
    assert checkpoint_of(old | new) == "20260102000000000"
    assert checkpoint_of(old | {"streamer.checkpoint.key.v2": ""}) == "20260101000000000"
    assert checkpoint_of({"schema": "{}"}) is None
