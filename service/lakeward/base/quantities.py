"""Sizes, durations and times as people write them: `512MiB`, `15m`, `2026-11-21 06:00:00 UTC`.

Touches: nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

DAY_SECONDS = 86400.0

_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_DURATIONS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_SECONDS}
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def parse_size(text: str) -> int:
    """Bytes. Raises `ValueError` that says what would fit."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _SIZES:
        raise ValueError("A size is written like 512MiB, 2GiB or as a number of bytes.")
    return int(float(match[1]) * _SIZES[match[2].upper()])


OPERATION_BYTES_MIN = 300 * 1024**2
"""With less an operation takes more memory than it was given all the same, and makes row groups so small that base
files may come out larger."""


def parse_memory(text: str) -> int:
    """Bytes that one operation may hold. Raises `ValueError` that says what would fit."""
    return check_memory(parse_size(text))


def check_memory(size: int) -> int:
    """The size. Raises `ValueError` where an operation cannot keep to it."""
    if size < OPERATION_BYTES_MIN:
        raise ValueError(
            f"An operation needs {write_size(OPERATION_BYTES_MIN)} or more: Python and its libraries take most of that "
            "before any row."
        )
    return size


def parse_duration(text: str) -> float:
    """Seconds. Raises `ValueError` that says what would fit."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if match is None or match[2] not in _DURATIONS:
        raise ValueError("A duration is written like 90s, 15m, 2h or as a number of seconds.")
    return float(match[1]) * _DURATIONS[match[2]]


def write_size(size: int) -> str:
    """A size as `parse_size` reads it, exactly: `512MiB`, and `1001B`."""
    for unit, bytes_ in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_ and size % bytes_ == 0:
            return f"{size // bytes_}{unit}"
    return f"{size}B"


def write_duration(seconds: float) -> str:
    """A duration as `parse_duration` reads it, to the millisecond: `15m`, `90s`, `1500ms`."""
    for unit in ("d", "h", "m", "s"):
        if seconds >= _DURATIONS[unit] and seconds % _DURATIONS[unit] == 0:
            return f"{seconds / _DURATIONS[unit]:.0f}{unit}"
    return f"{seconds * 1000:.0f}ms" if seconds else "0s"


def format_number(number: float) -> str:
    """`12,345`."""
    return f"{number:,.0f}"


def format_count(number: int, noun: str) -> str:
    """`1 file`, `12,345 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_share(share: float) -> str:
    """A part of a whole as `41%`, a small one as `0.065%`; what is short of the whole is not 100%."""
    if share < 0.1:
        return f"{100 * share:.2g}%"
    return f"{min(share, 0.99) if share < 1 else share:.0%}"


def format_size(size: float) -> str:
    """`12.3 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def format_duration(seconds: float) -> str:
    """`42 s`, `3 min`, `2 h 5 min`, `3 d 4 h`: two units at most."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds > 0 else "0 s"
    if seconds < 9.95 and seconds % 1 >= 0.05:
        return f"{seconds:.1f} s"
    rest = int(seconds + 0.05)
    parts: list[str] = []
    for name, size in _UNITS:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {name}")
        elif parts:
            break
        if len(parts) == 2 or (name == "min" and parts):
            break
    return " ".join(parts)


def format_month(at: float) -> str:
    """`2026-11`, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m}"


def month_begun(at: float, *, before: int = 0) -> float:
    """When the month in UTC began in which a time lies, or one so many months before it."""
    now = datetime.fromtimestamp(at, UTC)
    year, month = divmod(12 * now.year + now.month - 1 - before, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC).timestamp()


def format_time(at: float) -> str:
    """Seconds since the epoch as `2026-11-21 06:00:00 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_iso_time(at: float) -> str:
    """Seconds since the epoch in the form of ISO 8601: `2026-11-21T06:00:00.250Z`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_instant(instant: str) -> str:
    """An instant's time as `2026-11-21 06:00:00`, in the timeline's own zone; what is no time stays as it is."""
    try:
        return datetime.strptime(instant[:14], "%Y%m%d%H%M%S").strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return instant
