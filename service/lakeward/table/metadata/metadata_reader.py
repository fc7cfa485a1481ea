"""The records of the metadata table: by key, by the start of keys, or all of a partition.

A file group is a base HFile and the blocks of the logs on top of it, each an HFile inside of a log file or a list of
deleted keys. What there is for a key is put together as Hudi does it, in two steps:

    logs, oldest first: a record is merged onto the result so far, a delete empties it
    the result after the last log is merged onto the base's record; a delete, if it comes last, hides it

So a delete that another log followed does not hide what the base holds: Hudi's readers and its compaction of the
metadata table see it that way, too.

A scan merges the sorted files of a group by key. Hudi sorts keys as Java does, HBase and we by their bytes; entries of
a key that has another place in these two orders (`format/hfile/reader.py`) are kept aside until the next other key.
Both orders agree on what comes before that, so by then all of them have been read.

Touches: storage, opening files in place: a lookup reads the blocks that may hold its keys, nothing reads a file whole
         but what compacts a group, which reads small logs so, or a thousand of them would be a thousand open files.
Keeps:   1. blocks whose instant does not count (`table/metadata/metadata_table.py`) are never read;
         2. a scan holds one block of each file of one group, the deleted keys, and entries of keys as above that follow
            each other; small logs while a group is compacted;
         3. keys come in ascending order of their bytes within a group.
"""

from __future__ import annotations

import heapq
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from urllib.parse import unquote

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.base.named_key import named_key
from lakeward.base.paths import join
from lakeward.format.hfile.reader import HFileReader, depends_on_order
from lakeward.format.log.block import CorruptBlock
from lakeward.format.metadata.codec import MetadataCodec, metadata_codec
from lakeward.format.metadata.key import file_group_indexes
from lakeward.format.metadata.log_file import metadata_blocks
from lakeward.format.metadata.merge import merge_records
from lakeward.format.metadata.partition import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from lakeward.format.metadata.record import MetadataRecord
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.metadata.metadata_table import MetadataTable

Entry = tuple[str, MetadataRecord]
"""Key and merged record."""

_SCHEMA = "schema"
"""The name of the schema in the file info of a base file."""

_WHOLE_BYTES_MAX = 1024 * 1024
"""Size of a log file that is read whole where all of a group is read; a commit's is a few kilobytes as a rule."""

_ASIDE_BYTES_MAX = 256 * 1024 * 1024
"""Memory for entries whose place depends on the order of their file."""

# `record-index-0003-0`, and where each data partition has an index of its own `record-index-<data partition>-0003-0`.
_RECORD_INDEX_DASHES = 3


class MetadataReader:
    """Reader of one snapshot of the metadata table: what changes later is not seen, and files may be cleaned away
    meanwhile."""

    def __init__(self, storage: Storage, table: MetadataTable) -> None:
        self._files = SliceReader(storage, table.base_path, table.valid_instants)
        self._table = table

    def file_count(self, partition: str, *, data_partition: str | None = None) -> int:
        """The number of file groups that keys are spread over."""
        return len(self._groups(partition, data_partition))

    def scan(self, partition: str, *, group: int | None = None) -> Iterator[Entry]:
        """Every record of the partition, one file group after the other.

        Args:
            group: the number of the one file group that is scanned; None for all.
        """
        slices = self._table.slices[partition]
        for slice_ in slices if group is None else slices[group : group + 1]:
            with ExitStack() as files:
                yield from _scan_group(self._files.open(slice_, files))

    def lookup(
        self, partition: str, keys: Iterable[str], *, data_partition: str | None = None
    ) -> dict[str, MetadataRecord]:
        """The records of those keys that are there.

        Args:
            data_partition: whose record index, where each data partition has an index of its own.
        """
        groups = self._groups(partition, data_partition)
        # Which part of a secondary index's key was hashed depends on the index's version; so all groups are asked.
        spread = _everywhere if partition.startswith(SECONDARY_INDEX_PREFIX) else _by_hash
        found: dict[str, MetadataRecord] = {}
        for slice_, wanted in spread(groups, sorted(set(keys))):
            found.update(self._find(slice_, partial(_Source.lookup, keys=[key.encode() for key in wanted])))
        return found

    def with_prefixes(self, partition: str, prefixes: Iterable[str]) -> Iterator[Entry]:
        """Every record whose key starts with one of the prefixes, once; all file groups are asked."""
        probes = [prefix.encode() for prefix in prefixes]
        for slice_ in self._table.slices[partition]:
            yield from self._find(slice_, partial(_Source.with_prefixes, prefixes=probes))

    def _groups(self, partition: str, data_partition: str | None) -> Sequence[FileSlice]:
        slices = self._table.slices[partition]
        is_by_data_partition = partition == RECORD_INDEX and slices[0].file_id.count("-") > _RECORD_INDEX_DASHES
        assert is_by_data_partition == (data_partition is not None), "the caller knows the kind of the record index"
        if data_partition is None:
            return slices
        return [slice_ for slice_ in slices if unquote(slice_.file_id.split("-")[-3]) == data_partition]

    def _find(self, slice_: FileSlice, ask: Callable[[_Source], Iterable[_Versioned]]) -> Iterator[Entry]:
        """What there is in one file group, by key."""
        found: dict[bytes, list[_Version]] = {}
        with ExitStack() as files:
            for source in self._files.open(slice_, files):
                for key, payload in ask(source):
                    found.setdefault(key, []).append((source, payload))
        for key in sorted(found):
            yield from _merged(key, found[key])


class SliceReader:
    """Reader of single file slices, which needs no more of the metadata table than where it is, and what counts."""

    def __init__(self, storage: Storage, base_path: str, valid_instants: Collection[str]) -> None:
        """
        Args:
            base_path: the metadata table's.
            valid_instants: those whose log blocks count.
        """
        self._storage = storage
        self._base_path = base_path
        self._valid_instants = valid_instants

    def entry_count_max(self, slice_: FileSlice) -> int:
        """An upper bound of the slice's keys: the entries of all its files, as these say."""
        with ExitStack() as files:
            sources = self.open(slice_, files, whole_bytes_max=_WHOLE_BYTES_MAX)
            return sum(source.hfile.entry_count for source in sources if source.hfile is not None)

    def compacted(self, slice_: FileSlice, schema_json: str) -> Iterator[tuple[bytes, bytes]]:
        """Keys and payloads, by the given schema, of a base file that stands for the whole slice."""
        codec = metadata_codec(schema_json)
        with ExitStack() as files:
            for key, versions in _by_key(self.open(slice_, files, whole_bytes_max=_WHOLE_BYTES_MAX)):
                source, payload = versions[0]
                if len(versions) == 1 and source.codec is codec:
                    if payload is not None:
                        yield key, payload
                elif (current := _current(key, versions)) is not None:
                    yield key, codec.encode(current)

    def open(self, slice_: FileSlice, files: ExitStack, *, whole_bytes_max: int = 0) -> list[_Source]:
        """What a file group is put together from, oldest first; the files stay open as long as `files`.

        Args:
            whole_bytes_max: logs up to this size are read at once and not kept open.
        """
        sources: list[_Source] = []
        if (base := slice_.base_file) is not None:
            file = files.enter_context(self._storage.open_input(join(self._base_path, base.path)))
            hfile = HFileReader(file, length=base.size, name=base.path)
            sources.append(_Source(base.path, hfile, _codec(hfile.info.get(_SCHEMA), base.path), is_base=True))
        for log in slice_.log_files:
            path = join(self._base_path, log.path)
            if log.size <= whole_bytes_max:
                file = io.BytesIO(self._storage.read(path))
            else:
                file = files.enter_context(self._storage.open_input(path))
            for block in metadata_blocks(file, log.size, log.path):
                if isinstance(block, CorruptBlock) or block.instant not in self._valid_instants:
                    continue
                if block.hfile is None:
                    deleted = sorted({key.encode() for key in block.deleted_keys})
                    sources.append(_Source(block.where, None, None, deleted=deleted))
                else:
                    sources.append(_Source(block.where, block.hfile, _codec(block.schema_json, block.where)))
        return sources


_Versioned = tuple[bytes, bytes | None]
"""A key and the payload that one source has for it; None where it deletes the key."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A base file, a log block of entries, or one of deleted keys."""

    where: str
    hfile: HFileReader | None
    codec: MetadataCodec | None
    deleted: Sequence[bytes] = ()
    is_base: bool = False

    def entries(self) -> Iterator[_Versioned]:
        """Everything, in the order of the file."""
        yield from ((key, None) for key in self.deleted)
        if self.hfile is not None:
            yield from self.hfile.entries()

    def lookup(self, keys: Sequence[bytes]) -> Iterator[_Versioned]:
        if self.deleted:
            yield from ((key, None) for key in set(keys).intersection(self.deleted))
        if self.hfile is not None:
            yield from self.hfile.lookup(keys).items()

    def with_prefixes(self, prefixes: Sequence[bytes]) -> Iterator[_Versioned]:
        starts = tuple(prefixes)
        yield from ((key, None) for key in self.deleted if key.startswith(starts))
        if self.hfile is not None:
            yield from self.hfile.with_prefixes(prefixes)

    def decode(self, payload: bytes) -> MetadataRecord:
        assert self.codec is not None, "deletes have no payload"
        return self.codec.decode(payload, self.where)


_Version = tuple[_Source, bytes | None]


def _scan_group(sources: list[_Source]) -> Iterator[Entry]:
    for key, versions in _by_key(sources):
        yield from _merged(key, versions)


def _by_key(sources: list[_Source]) -> Iterator[tuple[bytes, list[_Version]]]:
    """The versions of each key, oldest first."""
    aside = _Aside()
    streams = [_ascending(source, number, aside) for number, source in enumerate(sources)]
    for key, same in groupby(heapq.merge(*streams), key=itemgetter(0)):
        for before, versions in aside.take(key):
            yield before, [(sources[number], payload) for number, payload in versions]
        yield key, [(sources[number], payload) for _, number, payload in same]
    for key, versions in aside.take(None):
        yield key, [(sources[number], payload) for number, payload in versions]


class _Aside:
    """Entries of keys whose place depends on the order that their file is in."""

    def __init__(self) -> None:
        self._versions: dict[bytes, dict[int, bytes | None]] = {}
        self._keys: list[bytes] = []
        """A heap of them."""
        self._bytes = 0

    def add(self, source: _Source, number: int, key: bytes, payload: bytes | None) -> None:
        if key not in self._versions:
            self._versions[key] = {}
            heapq.heappush(self._keys, key)
        if number in self._versions[key]:
            raise _out_of_order(source, key)
        self._versions[key][number] = payload
        self._bytes += _size(key, payload)
        if self._bytes > _ASIDE_BYTES_MAX:
            raise Unsupported(
                f"{source.where} cannot be merged in bounded memory.",
                why=f"More than {_ASIDE_BYTES_MAX} bytes of keys around {named_key(key)} lie in an order that depends "
                "on who wrote them.",
                remedy="Let a Hudi writer compact the metadata table.",
            )

    def take(self, before: bytes | None) -> Iterator[tuple[bytes, list[tuple[int, bytes | None]]]]:
        """The keys before this one, in order; all with None."""
        while self._keys and (before is None or self._keys[0] < before):
            key = heapq.heappop(self._keys)
            versions = self._versions.pop(key)
            self._bytes -= sum(_size(key, payload) for payload in versions.values())
            yield key, sorted(versions.items())


def _size(key: bytes, payload: bytes | None) -> int:
    return len(key) + len(payload or b"")


def _ascending(source: _Source, number: int, aside: _Aside) -> Iterator[tuple[bytes, int, bytes | None]]:
    """The entries of the source but for those whose place depends on the order it was sorted in."""
    last: bytes | None = None
    for key, payload in source.entries():
        if depends_on_order(key):
            aside.add(source, number, key, payload)
        elif last is not None and key <= last:
            raise _out_of_order(source, key)
        else:
            last = key
            yield key, number, payload


def _merged(key: bytes, versions: Sequence[_Version]) -> Iterator[Entry]:
    """The one record that stands for the versions of a key, if one does."""
    if (current := _current(key, versions)) is not None:
        yield _text(key, _where(key, versions)), current


def _current(key: bytes, versions: Sequence[_Version]) -> MetadataRecord | None:
    """The record that the versions of a key, oldest first, give; None where it was deleted."""
    where = _where(key, versions)
    base: MetadataRecord | None = None
    current: MetadataRecord | None = None
    is_deleted = False
    for source, payload in versions:
        record = None if payload is None else source.decode(payload)
        if source.is_base:
            base = record
        else:
            current = record if record is None or current is None else merge_records(current, record, where=where)
            is_deleted = current is None
    if current is None:
        return None if is_deleted else base
    return current if base is None else merge_records(base, current, where=where)


def _where(key: bytes, versions: Sequence[_Version]) -> str:
    return f"{versions[-1][0].where}, key {named_key(key)}"


def _text(key: bytes, where: str) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise BrokenFile(f"{where} cannot be read.", why="The key is not UTF-8 text.") from error


def _codec(schema: bytes | str | None, where: str) -> MetadataCodec:
    if schema is None:
        raise BrokenFile(
            f"{where} cannot be read.",
            why="It does not say by which schema its records were written.",
            remedy="Let a Hudi writer rebuild the metadata table.",
        )
    return metadata_codec(schema if isinstance(schema, str) else schema.decode("utf-8", "replace"))


def _by_hash(groups: Sequence[FileSlice], keys: Sequence[str]) -> Iterator[tuple[FileSlice, list[str]]]:
    if not groups:
        return
    wanted: dict[int, list[str]] = {}
    for key, place in zip(keys, file_group_indexes(keys, len(groups)).tolist(), strict=True):
        wanted.setdefault(place, []).append(key)
    yield from ((groups[place], wanted[place]) for place in sorted(wanted))


def _everywhere(groups: Sequence[FileSlice], keys: Sequence[str]) -> Iterator[tuple[FileSlice, list[str]]]:
    yield from ((slice_, list(keys)) for slice_ in groups)


def _out_of_order(source: _Source, key: bytes) -> BrokenFile:
    return BrokenFile(
        f"{source.where} cannot be read.",
        why=f"Its key {named_key(key)} is there twice, or stands before a smaller one.",
        remedy="Let a Hudi writer rebuild the metadata table.",
    )
