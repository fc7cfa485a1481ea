"""Watermarks of incremental consumers, read where these leave them (`services/clean/plan/consumer.py`).

Touches: storage, reading only: a file of each consumer, or the timeline of the table that it writes and the newest
         commits of it.
Keeps:   1. what cannot be read, and what is no time, is a watermark that is not known, with the reason; never an error;
         2. no more than some bytes of a file are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError
from lakeward.base.printable import printable_url
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.services.clean.plan.consumer import PlaceKind, WatermarkPlace, checkpoint_of, parse_watermark
from lakeward.services.clean.plan.reader_protection import Watermark
from lakeward.storage.storage import join
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.table_config import TableConfig, load_table_config, timeline_folder
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import load_timeline

_FILE_BYTES_MAX = 256
_SHOWN_MAX = 60
"""Characters of what is no time that are shown."""


def read_watermarks(
    consumers: Mapping[str, WatermarkPlace], config: TableConfig, *, clock: Clock
) -> tuple[Watermark, ...]:
    """The watermark of each consumer.

    Args:
        config: that of the table which is read.
    """
    return tuple(_read(name, place, config, clock) for name, place in consumers.items())


def _read(name: str, place: WatermarkPlace, config: TableConfig, clock: Clock) -> Watermark:
    try:
        found, why = _find(place, config, clock)
    except (LakewardError, OSError, ValueError) as error:
        return Watermark(name, None, f"{_shown(place)} cannot be read: {str(error).splitlines()[0]}")
    if found is None:
        return Watermark(name, None, why)
    if (time := parse_watermark(found)) is None:
        return Watermark(name, None, f"{_shown(place)} says {found[:_SHOWN_MAX]!r}, which is no instant time")
    return Watermark(name, time)


def _find(place: WatermarkPlace, config: TableConfig, clock: Clock) -> tuple[str | None, str]:
    """What stands there; else None and the reason."""
    match place.kind:
        case PlaceKind.PROPERTY:
            return config.get(place.where), f"the table has no property {place.where}"
        case PlaceKind.FILE:
            storage, path = open_storage(place.where)
            status = storage.stat(path)
            if status is None or status.is_folder:
                return None, f"there is no file {_shown(place)}"
            if status.size > _FILE_BYTES_MAX:
                return None, f"{_shown(place)} has {status.size} bytes, which is no time"
            return storage.read(path).decode(), ""
        case PlaceKind.TABLE:
            return next(_checkpoints(place.where, clock), None), f"no commit of {_shown(place)} carries a checkpoint"


def _checkpoints(location: str, clock: Clock) -> Iterator[str]:
    """The checkpoints that the commits of a table carry, newest first; services and other writers carry none."""
    storage, base_path = open_storage(location)
    config = load_table_config(storage, base_path, clock=clock).config
    timeline = load_timeline(storage, base_path, config)
    contents, folder = InstantContents(storage, base_path, config, timeline), timeline_folder(base_path, config)
    for instant in reversed(timeline.completed_writes):
        data = contents.read(instant.file_name)
        metadata = read_commit_metadata(data, layout=config.layout, file=join(folder, instant.file_name))
        if (found := checkpoint_of(metadata.extra_metadata)) is not None:
            yield found


def _shown(place: WatermarkPlace) -> str:
    return place.where if place.kind is PlaceKind.PROPERTY else printable_url(place.where)
