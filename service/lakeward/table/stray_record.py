"""The record of files that looked like orphan files: what the next look holds against what it finds.

    .hoodie/.quarantine/strays-<milliseconds>   of each path its size, and when it was seen first

Touches: storage, reading only.
Keeps:   a record that cannot be read records nothing: what it would have said must be seen twice again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from lakeward.base.errors import NotFound
from lakeward.base.paths import join
from lakeward.storage.storage import Storage
from lakeward.table.quarantine import quarantine_folder

STRAYS = "strays-"


@dataclass(frozen=True, slots=True)
class RecordedStray:
    size: int
    since: float
    """When it was seen first, in seconds since the epoch."""


def load_recorded(storage: Storage, base_path: str) -> dict[str, RecordedStray]:
    """What the newest record says, by path below the table."""
    names = find_records(storage, base_path)
    if not names:
        return {}
    try:
        said = orjson.loads(storage.read(join(quarantine_folder(base_path), names[-1])))
        return {str(path): RecordedStray(int(size), float(since)) for path, (size, since) in said["files"].items()}
    except (NotFound, ValueError, KeyError, TypeError, AttributeError):
        return {}


def encode_record(recorded: Mapping[str, RecordedStray]) -> bytes:
    return orjson.dumps({"version": 1, "files": {path: [each.size, each.since] for path, each in recorded.items()}})


def find_records(storage: Storage, base_path: str) -> list[str]:
    """Names of the records that there are, oldest first: more than one where a process died over it."""
    names = (status.name for status in storage.list(quarantine_folder(base_path)) if not status.is_folder)
    found = [name for name in names if name.startswith(STRAYS) and name.removeprefix(STRAYS).isdigit()]
    return sorted(found, key=lambda name: int(name.removeprefix(STRAYS)))
