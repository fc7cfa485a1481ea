"""Sizes and durations as people write them."""

from __future__ import annotations

import pytest

from lakeward.base.quantities import (
    format_instant,
    format_number,
    format_share,
    format_size,
    parse_duration,
    parse_size,
    write_duration,
    write_size,
)


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1024", 1024), ("512MiB", 2**29), ("2 GiB", 2**31), ("1.5kb", 1500), ("3b", 3)]
)
def test_sizes(text: str, size: int) -> None:
    """Units are binary or decimal, in any case; no unit is bytes."""
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90s", 90), ("15m", 900), ("1.5h", 5400), ("200ms", 0.2)])
def test_durations(text: str, seconds: float) -> None:
    """No unit is seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "much", "-1", "1 1", "5 parsecs"])
def test_neither(text: str) -> None:
    """What is neither says how to write it."""
    with pytest.raises(ValueError, match="written like"):
        parse_size(text)
    with pytest.raises(ValueError, match="written like"):
        parse_duration(text)


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (3 * 2**40, "3.0 TiB")])
def test_format(size: int, text: str) -> None:
    """It has the largest unit that leaves a number above one."""
    assert format_size(size) == text


def test_numbers_have_commas_between_thousands() -> None:
    """Sizes do, too."""
    assert (format_number(0), format_number(12_345), format_number(1_204_331.4)) == ("0", "12,345", "1,204,331")
    assert format_size(1023 * 2**30) == "1,023.0 GiB"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.00065, "0.065%"), (0.005, "0.5%"), (0.314, "31%"), (0.997, "99%"), (1, "100%"), (10.0, "1000%")],
)
def test_shares(share: float, text: str) -> None:
    """Small ones have two digits, and only the whole is 100%."""
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0B"), (1001, "1001B"), (1025, "1025B"), (2**29, "512MiB"), (3 * 2**30, "3GiB")]
)
def test_written_sizes(size: int, text: str) -> None:
    """They have the largest unit that loses nothing, so that they are read back as what they were."""
    assert write_size(size) == text
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.2, "200ms"), (1.5, "1500ms"), (90, "90s"), (900, "15m"), (86400, "1d")]
)
def test_written_durations(seconds: float, text: str) -> None:
    """Durations are written so, too."""
    assert write_duration(seconds) == text
    assert parse_duration(text) == pytest.approx(seconds)


def test_an_instant_is_read_as_its_time() -> None:
    """The time of an instant is written like every other; what is no time stays as it is."""
    assert format_instant("20261121043703223") == "2026-11-21 04:37:03"
    assert format_instant("20261121043703") == "2026-11-21 04:37:03"
    assert format_instant("00000000000000000") == "00000000000000000"
    assert format_instant("") == ""
