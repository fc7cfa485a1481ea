"""Data files whose content is a set of write ids: enough of Parquet and of log blocks for code that reads their ends
and heads, and made in microseconds.

    base file   PAR1, the ids, padding, a footer without columns
    log file    one data block; a log compaction's output says in its header which instants it stands for
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.log.log_writer import block_head

SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]})
BASE_BYTES = 4000
_FOOTER = b"\x00"  # a Thrift structure without fields


@dataclass(frozen=True, slots=True)
class Content:
    ids: frozenset[int]
    sources: tuple[str, ...] = ()
    """Instants that a log stands for."""


def base_file(ids: Collection[int]) -> bytes:
    text = json.dumps(sorted(ids)).encode()
    return b"PAR1" + text.ljust(BASE_BYTES) + _FOOTER + struct.pack("<i", len(_FOOTER)) + b"PAR1"


def log_file(instant: str, ids: Collection[int], *, sources: Sequence[str] = (), size: int = 0) -> bytes:
    """
    Args:
        size: of the content, where that is less.
    """
    content = json.dumps([sorted(ids), list(sources)]).encode().ljust(size)
    headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: SCHEMA}
    if sources:
        headers[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(sources)
    head = block_head(BlockType.AVRO_DATA, headers, len(content))
    return head + content + struct.pack(">iq", 0, len(head) + len(content) + 4)


@lru_cache(maxsize=4096)
def read_base_file(data: bytes) -> Content:
    assert data.startswith(b"PAR1") and data.endswith(b"PAR1"), "a torn base file"
    return Content(frozenset(json.loads(data[4 : 4 + BASE_BYTES])))


@lru_cache(maxsize=4096)
def read_log_file(data: bytes) -> Content:
    content = data[data.rindex(b"[[") : -12]
    ids, sources = json.loads(content)
    return Content(frozenset(ids), tuple(sources))


def fold(logs: Sequence[tuple[str, Content]]) -> tuple[set[int], list[str]]:
    """What the logs of a slice hold, given by instant and oldest first, and the instants whose content counts.

    From the newest to the oldest: what an output stands for gives its place to it, and an output that stands for
    nothing in the slice vanishes.
    """
    by_instant = dict(logs)
    stands_for: dict[str, str] = {}
    counted: list[str] = []
    for instant, content in reversed(logs):
        if content.sources:
            final = stands_for.get(instant, instant)
            stands_for.update(dict.fromkeys(content.sources, final))
        elif (final := stands_for.get(instant, instant)) not in counted:
            counted.append(final)
    return {id_ for instant in counted for id_ in by_instant[instant].ids}, counted[::-1]
