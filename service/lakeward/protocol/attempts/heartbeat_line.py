"""The line in an attempt's heartbeat, `.hoodie/.heartbeat/<instant>`: which attempt it is of, and what happened to it.

    alive         the owner, as in lock files; the only one of these that a file system knows
    publishing    the owner, and the names of the completed files that it creates: its commit intent
    rolling back  the process that took the heartbeat over, so that no process states an intent in it any more
    ended         the attempt is over; where its plan stays, the next attempt at it begins by replacing this line

Hudi looks at the age of the file only, whatever is in it.

Touches: nothing.
Keeps:   what is no line of Lakeward, or a torn one, states no intent and is not ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import orjson

from lakeward.base.paths import join
from lakeward.protocol.owner import Owner, parse_owner

# The names on disk keep their meaning: processes of other releases read them, too.
_PUBLISHING = "publishing"
_METADATA = "metadata"
_ROLLING_BACK = "undoing"
_ENDED = "ended"


@dataclass(frozen=True, slots=True)
class CommitIntent:
    """An attempt has begun to publish: the completed files that it names are created, by whichever process."""

    attempt: int
    completed: str
    """Name of the completed file."""
    metadata: str | None = None
    """Name of the metadata table's completed file, which comes before; None where there is no metadata table."""


def heartbeat_path(base_path: str, instant: str) -> str:
    return join(base_path, ".hoodie/.heartbeat", instant)


def encode_intent(owner: Owner, completed: str, metadata: str | None) -> bytes:
    return _encode(owner, {_PUBLISHING: completed} | ({} if metadata is None else {_METADATA: metadata}))


def encode_rolling_back(by: Owner) -> bytes:
    return _encode(by, {_ROLLING_BACK: True})


def encode_ended(by: Owner) -> bytes:
    return _encode(by, {_ENDED: True})


def parse_intent(line: bytes) -> CommitIntent | None:
    if (owner := parse_owner(line)) is None:
        return None
    fields = orjson.loads(line)
    completed, metadata = fields.get(_PUBLISHING), fields.get(_METADATA)
    if not isinstance(completed, str) or not isinstance(metadata, str | None):
        return None
    return CommitIntent(owner.attempt, completed, metadata)


def is_ended(line: bytes) -> bool:
    return parse_owner(line) is not None and _ENDED in orjson.loads(line)


def is_at_work(line: bytes, attempt: int) -> bool:
    """Whether the line says that this attempt is alive, and neither publishing, nor fenced off, nor over."""
    owner = parse_owner(line)
    if owner is None or owner.attempt != attempt:
        return False
    return not orjson.loads(line).keys() & {_PUBLISHING, _ROLLING_BACK, _ENDED}


def _encode(owner: Owner, more: Mapping[str, object]) -> bytes:
    return orjson.dumps(asdict(owner) | dict(more)) + b"\n"
