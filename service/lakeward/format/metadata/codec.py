"""Records of the metadata table, from and to the Avro of one writer's schema.

The schema stands in every base file and log block, and older releases have a shorter one
(`format/metadata/record_schema.py`): a record is decoded by the schema beside it, and encoded by that of the table's
own newest file.

The few shapes are written out here and in `stats_codec.py`. A commit decodes and encodes a hundred thousand
records while it holds the table's lock, and a general Avro library takes several times as long for them.

Touches: nothing.
Keeps:   1. a schema that is not a metadata table's is refused before anything is decoded by it;
         2. bytes that are no record of the schema, or are followed by others, are a `BrokenFile`, and none of them
            takes more memory or time than its length allows;
         3. a record that the schema cannot hold whole is `Unsupported`, never written without a part;
         4. what is encoded decodes to an equal record.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.primitive import (
    encode_boolean,
    encode_bytes,
    encode_int,
    encode_long,
    encode_text,
    read_boolean,
    read_bytes,
    read_int,
    read_long,
    read_text,
)
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
    RecordType,
    SecondaryIndexRecord,
)
from lakeward.format.metadata.record_schema import RecordLayout, parse_metadata_schema
from lakeward.format.metadata.stats_codec import (
    PRESENT,
    NotUnderstood,
    encode_nullable_long,
    encode_nullable_text,
    encode_stats,
    read_branch,
    read_nullable_long,
    read_nullable_text,
    read_stats,
    skip_nulls,
)

_BY_UUID, _BY_TEXT = 0, 1
"""How a file id is encoded in the record index."""
_NO_INDEX = -1
_POSITION_FIELDS = 8
_UUID_FILE_ID = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?")
_LOW_64 = (1 << 64) - 1

_FILES, _BLOOM_FILTER, _STATS, _RECORD_INDEX, _SECONDARY_INDEX = range(5)
"""The records inside of a record, in the order of the schema."""
_SECTIONS = {
    RecordType.ALL_PARTITIONS: _FILES,
    RecordType.FILES: _FILES,
    RecordType.COLUMN_STATS: _STATS,
    RecordType.BLOOM_FILTER: _BLOOM_FILTER,
    RecordType.RECORD_INDEX: _RECORD_INDEX,
    RecordType.PARTITION_STATS: _STATS,
    RecordType.SECONDARY_INDEX: _SECONDARY_INDEX,
}
_TYPES = {int(kind): kind for kind in RecordType}


@lru_cache(maxsize=32)
def metadata_codec(schema_json: str) -> MetadataCodec:
    """The codec of this schema; kept, since every log block brings one of the same few. Raises `Unsupported`."""
    return MetadataCodec(schema_json)


class MetadataCodec:
    """Make it by `metadata_codec`."""

    def __init__(self, schema_json: str) -> None:
        """Raises `Unsupported` for a schema that is not a metadata table's."""
        self.schema_json = schema_json
        self._schema = schema = parse_metadata_schema(schema_json)
        layouts = {
            _FILES: RecordLayout(fields=1),
            _BLOOM_FILTER: schema.bloom_filter,
            _STATS: schema.stats,
            _RECORD_INDEX: schema.record_index,
            _SECONDARY_INDEX: schema.secondary_index,
        }
        self._layouts = {section: layout for section, layout in layouts.items() if layout is not None}
        self._sections = tuple(self._layouts)
        self._plain_head = bytes(schema.meta_columns + 1)  # no meta column, and an empty key

    def decode(self, payload: bytes, where: str) -> MetadataRecord:
        """The record in the value of an HFile entry. `where` names the file in errors."""
        try:
            record, at = self._decode(payload)
            if at != len(payload):
                raise ValueError(f"It ends after {at} of {len(payload)} bytes")
        except (IndexError, ValueError, struct.error) as error:
            why = str(error) if isinstance(error, ValueError) else "It is cut short"
            raise BrokenFile(
                f"A record of the metadata table in {where} is broken.",
                why=f"{why}.",
                remedy="Restore the file, or disable the metadata table so that Hudi's next writer builds a new one.",
            ) from error
        except NotUnderstood as error:
            raise Unsupported(
                f"A record of the metadata table in {where} is not supported.",
                why=f"{error}.",
                remedy="Use the Hudi release that wrote it.",
            ) from None
        return record

    def encode(self, record: MetadataRecord) -> bytes:
        """The value of an HFile entry. The key stays out of it, as Hudi leaves it out: it is the entry's."""
        kind = _type_of(record)
        section = _SECTIONS[kind]
        try:
            layout = self._layouts.get(section)
            if layout is None:
                raise ValueError("the schema has no such records")
            body = self._encode_body(record, layout)
        except ValueError as error:
            raise Unsupported(
                f"A {kind.name.lower()} record cannot be written to the metadata table.",
                why=f"By the schema of the table's own files: {error}.",
                remedy="Disable the metadata table; Hudi's next writer builds a new one with its own schema.",
            ) from error
        before = self._sections.index(section)
        after = len(self._sections) - before - 1 + self._schema.others
        return b"".join((self._plain_head, encode_int(kind), bytes(before), PRESENT, body, bytes(after)))

    def _decode(self, data: bytes) -> tuple[MetadataRecord, int]:
        if data.startswith(self._plain_head):
            at = len(self._plain_head)
        else:
            at = 0
            for _ in range(self._schema.meta_columns):
                _, at = read_nullable_text(data, at)
            _, at = read_text(data, at)
        number, at = read_int(data, at)
        kind = _TYPES.get(number)
        if kind is None:
            raise NotUnderstood(f"It is of type {number}")
        wanted = _SECTIONS[kind]
        record: MetadataRecord | None = None
        for section, layout in self._layouts.items():
            there, at = read_branch(data, at)
            if not there:
                continue
            if section != wanted:
                raise ValueError(f"It is of type {kind.name}, and holds what records of another type do")
            record, at = self._read(data, at, kind, layout)
        at = skip_nulls(data, at, self._schema.others)
        if record is None:
            raise ValueError(f"It is of type {kind.name}, and holds nothing")
        return record, at

    def _read(self, data: bytes, at: int, kind: RecordType, layout: RecordLayout) -> tuple[MetadataRecord, int]:
        match kind:
            case RecordType.COLUMN_STATS:
                return read_stats(data, at, layout, ColumnStatsRecord)
            case RecordType.PARTITION_STATS:
                return read_stats(data, at, layout, PartitionStatsRecord)
            case RecordType.FILES | RecordType.ALL_PARTITIONS:
                entries, at = _read_entries(data, at)
                return FilesRecord(entries, is_all_partitions=kind is RecordType.ALL_PARTITIONS), at
            case RecordType.BLOOM_FILTER:
                type_code, at = read_text(data, at)
                timestamp, at = read_text(data, at)
                bloom_filter, at = read_bytes(data, at)
                is_deleted, at = read_boolean(data, at)
                at = skip_nulls(data, at, layout.others)
                record = BloomFilterRecord(
                    type_code=type_code, timestamp=timestamp, bloom_filter=bloom_filter, is_deleted=is_deleted
                )
                return record, at
            case RecordType.RECORD_INDEX:
                return _read_record_index(data, at, layout)
            case RecordType.SECONDARY_INDEX:
                is_deleted, at = read_boolean(data, at)
                return SecondaryIndexRecord(is_deleted), skip_nulls(data, at, layout.others)

    def _encode_body(self, record: MetadataRecord, layout: RecordLayout) -> bytes:
        match record:
            case ColumnStatsRecord() | PartitionStatsRecord():
                return encode_stats(record, layout, self._schema.wrappers)
            case FilesRecord():
                return _encode_entries(record)
            case BloomFilterRecord():
                body = encode_text(record.type_code) + encode_text(record.timestamp) + encode_bytes(record.bloom_filter)
                return body + encode_boolean(record.is_deleted) + bytes(layout.others)
            case RecordIndexRecord():
                return _encode_record_index(record, layout)
            case SecondaryIndexRecord():
                return encode_boolean(record.is_deleted) + bytes(layout.others)


def _type_of(record: MetadataRecord) -> RecordType:
    match record:
        case ColumnStatsRecord():
            return RecordType.COLUMN_STATS
        case PartitionStatsRecord():
            return RecordType.PARTITION_STATS
        case FilesRecord():
            return RecordType.ALL_PARTITIONS if record.is_all_partitions else RecordType.FILES
        case BloomFilterRecord():
            return RecordType.BLOOM_FILTER
        case RecordIndexRecord():
            return RecordType.RECORD_INDEX
        case SecondaryIndexRecord():
            return RecordType.SECONDARY_INDEX


def _read_entries(data: bytes, at: int) -> tuple[dict[str, FileEntry], int]:
    entries: dict[str, FileEntry] = {}
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return entries, at
        if count < 0:
            count = -count
            _, at = read_long(data, at)  # the run's length in bytes, for readers that skip it
        for _ in range(count):
            name, at = read_text(data, at)
            size, at = read_long(data, at)
            is_deleted, at = read_boolean(data, at)
            entries[name] = FileEntry(size, is_deleted)


def _encode_entries(record: FilesRecord) -> bytes:
    parts = []
    if record.entries:
        parts.append(encode_long(len(record.entries)))
    for name, entry in record.entries.items():
        parts.append(encode_text(name) + encode_long(entry.size) + encode_boolean(entry.is_deleted))
    return b"".join((*parts, b"\x00"))


def _read_record_index(data: bytes, at: int, layout: RecordLayout) -> tuple[RecordIndexRecord, int]:
    partition, at = read_nullable_text(data, at)
    high, at = read_nullable_long(data, at)
    low, at = read_nullable_long(data, at)
    index, at = read_nullable_long(data, at)
    text, at = read_nullable_text(data, at)
    instant_millis, at = read_nullable_long(data, at)
    encoding, at = read_int(data, at)
    position = None
    if layout.fields >= _POSITION_FIELDS:
        position, at = read_nullable_long(data, at)
    at = skip_nulls(data, at, layout.others)
    if encoding == _BY_UUID:
        if high is None or low is None or index is None or index < _NO_INDEX:
            raise ValueError("Its file id is not whole")
        digits = f"{high & _LOW_64:016x}{low & _LOW_64:016x}"
        file_id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        if index != _NO_INDEX:
            file_id = f"{file_id}-{index}"
    elif encoding == _BY_TEXT:
        if not text:
            raise ValueError("It has no file id")
        file_id = text
    else:
        raise NotUnderstood(f"Its file id is encoded in way {encoding}")
    record = RecordIndexRecord(partition=partition, file_id=file_id, instant_millis=instant_millis, position=position)
    return record, at


def _encode_record_index(record: RecordIndexRecord, layout: RecordLayout) -> bytes:
    match = _UUID_FILE_ID.fullmatch(record.file_id)
    if match is None:
        if not record.file_id:
            raise ValueError("it has no file id")
        high = low = index = -1
        text, encoding = record.file_id, _BY_TEXT
    else:
        number = int(match[1].replace("-", ""), 16)
        high, low = _with_sign(number >> 64), _with_sign(number & _LOW_64)
        index = _NO_INDEX if match[2] is None else int(match[2])
        text, encoding = "", _BY_UUID
    parts = [
        encode_nullable_text(record.partition),
        encode_nullable_long(high),
        encode_nullable_long(low),
        encode_nullable_long(index),
        encode_nullable_text(text),
        encode_nullable_long(record.instant_millis),
        encode_int(encoding),
    ]
    if layout.fields >= _POSITION_FIELDS:
        parts.append(encode_nullable_long(record.position))
    elif record.position is not None:
        raise ValueError("it has a position, which the schema cannot say")
    return b"".join((*parts, bytes(layout.others)))


def _with_sign(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
