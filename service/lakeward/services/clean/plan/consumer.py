"""The place where an incremental consumer of a table leaves word of how far it has read: its watermark.

    file:PATH or URL     a file whose whole text is the time
    property:KEY         a property of the table, in hoodie.properties
    table:PATH or URL    the table that it writes, a Hudi Streamer's: the newest commit that carries a checkpoint

A watermark is a time as the table's instants are written, in the table's zone, `yyyyMMddHHmmssSSS`. It says: everything
that completed up to then was read. So it is a completion time, or what is earlier, a requested one. Streamers write the
former as `streamer.checkpoint.key.v2`, and `deltastreamer.checkpoint.key`, the latter, into tables of older versions.
Checkpoints of another form are of another source (Kafka: `topic,0:12`) or of half a commit (`time#key`): from these
nothing is read.

Touches: nothing.
Keeps:   1. what is not exactly a time is none;
         2. a time of seconds means the beginning of its second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import UsageError

CHECKPOINT_KEYS = ("streamer.checkpoint.key.v2", "deltastreamer.checkpoint.key")
"""They stand in the metadata of a commit; the newer comes first, as Hudi looks for them."""

_TIME = re.compile(r"\d{14}(\d{3})?")


class PlaceKind(StrEnum):
    FILE = "file"
    PROPERTY = "property"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class WatermarkPlace:
    kind: PlaceKind
    where: str
    """A path, a URL or the name of a property."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}"


def parse_place(text: str) -> WatermarkPlace:
    """Raises `UsageError`."""
    kind, _, where = text.partition(":")
    if kind not in list(PlaceKind) or not where.strip():
        raise UsageError(
            f"'{text}' is no place of a watermark.",
            why="It does not begin with file:, property: or table:, or names nothing after that.",
            remedy="Write file:/srv/watermarks/orders, property:orders.read.up.to or table:s3://lake/orders_daily.",
        )
    return WatermarkPlace(PlaceKind(kind), where.strip())


def parse_watermark(text: str) -> str | None:
    """The time, to the millisecond; None for text that is none."""
    found = text.strip()
    if _TIME.fullmatch(found) is None:
        return None
    return found.ljust(17, "0")


def checkpoint_of(extra_metadata: Mapping[str, str]) -> str | None:
    """The checkpoint that a commit carries, as it stands there; None for a commit without."""
    return next((found for key in CHECKPOINT_KEYS if (found := extra_metadata.get(key, "").strip())), None)
