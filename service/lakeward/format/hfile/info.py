"""The file info of an HFile: names with values, some of which readers need. `PBUF`, varint length, protobuf message.

| name | value |
|---|---|
| `hfile.LASTKEY` | the last key as an index encodes it; not there in an empty file |
| `hfile.AVG_KEY_LEN`, `hfile.AVG_VALUE_LEN` | int32, wanted by HBase's reader |
| `KEY_VALUE_VERSION`, `MAX_MEMSTORE_TS_KEY` | int32 1 and int64 0: every entry ends in one zero byte, its version |

The rest (`schema`, `minRecordKey` …) belongs to the writer of the file.

Touches: nothing.
Keeps:   a file whose entries carry versions or tags is refused: no writer but HBase makes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.format.hfile.block import HFileBlock
from lakeward.format.hfile.range import HFileRange
from lakeward.format.protobuf import BrokenMessage, decode_message, encode_message, read_varint, write_varint

LAST_KEY = "hfile.LASTKEY"
AVERAGE_KEY_BYTES = "hfile.AVG_KEY_LEN"
AVERAGE_VALUE_BYTES = "hfile.AVG_VALUE_LEN"
KEY_VALUE_VERSION = "KEY_VALUE_VERSION"
VERSION_MAX = "MAX_MEMSTORE_TS_KEY"
WRITER_KEYS = frozenset({LAST_KEY, AVERAGE_KEY_BYTES, AVERAGE_VALUE_BYTES, KEY_VALUE_VERSION, VERSION_MAX})
"""Names whose values the writer knows best."""

_MAGIC = b"PBUF"
_TAG_BYTES_MAX = "hfile.MAX_TAGS_LEN"
_ENTRY = 1
_NAME, _VALUE = 1, 2


def decode_file_info(source: HFileRange, block: HFileBlock) -> dict[str, bytes]:
    if not block.payload.startswith(_MAGIC):
        raise source.broken(block.offset, "the file info does not start with PBUF")
    info = {}
    try:
        length, at = read_varint(block.payload, len(_MAGIC))
        if length > len(block.payload) - at:
            raise BrokenMessage("it is cut short")
        for field, value in decode_message(block.payload[at : at + length]):
            if field == _ENTRY and isinstance(value, bytes):
                entry = dict(decode_message(value))
                name, content = entry.get(_NAME), entry.get(_VALUE, b"")
                if not isinstance(name, bytes) or not isinstance(content, bytes):
                    raise BrokenMessage("an entry has no name")
                info[name.decode("utf-8")] = content
    except (BrokenMessage, UnicodeDecodeError) as error:
        raise source.broken(block.offset, f"the file info cannot be read: {error}") from None
    if int.from_bytes(info.get(VERSION_MAX, b""), "big", signed=True) > 0:
        raise source.unsupported(block.offset, "its entries have versions")
    if _TAG_BYTES_MAX in info:
        raise source.unsupported(block.offset, "its entries have tags")
    return info


def encode_file_info(info: Mapping[str, bytes]) -> bytes:
    """The payload of the block, in the order of names."""
    message = encode_message(
        (_ENTRY, encode_message([(_NAME, name.encode("utf-8")), (_VALUE, info[name])])) for name in sorted(info)
    )
    return _MAGIC + write_varint(len(message)) + message
