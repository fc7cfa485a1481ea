"""Which blocks of a file slice's logs count, and in which order: log files in, block heads out.

Files are read in comparator order, blocks in file order. Blocks are grouped by instant; an instant has the place of its
first block. A rollback command drops the blocks of its target seen so far. Then, from the newest instant to the oldest,
an instant whose first block lists others in COMPACTED_BLOCK_TIMES stands for them (also for what they stand for in
turn): the first of them that is met gives its place to it, the others vanish. A compacted instant none of whose sources
is in the slice vanishes, too. It may where they lie in an older slice; where they lay in this one its rows are lost,
which Hudi does not say, and `check_sound` refuses (decision 0132). This is Hudi 1.2's scan (BaseHoodieLogRecordReader).
From table version 8 on a block of an uncommitted instant does not occur: the file-system view has left its file out.
Before, writes appended to each other's logs, and blocks are judged one by one (`read/logs/committed_writes.py`); a
rollback command counts at any rate, also one that is newer than the query's instant: it says of blocks before it that
they never counted (HUDI-8248).

Blocks of changes (CDC) are passed over: what they describe is in other blocks. So are native logs of changes.

A native log (table version 10) is one block, its file, with what its footer says as headers; a slice may have both
kinds. What one instant wrote, rows and deletes in files of their own, is one group like the blocks of an inline log, so
the two files of a log compaction stand in one place, deletes behind rows.

A log that an earlier log compaction superseded, as its plan says, need not be opened: all that its blocks do is to
give their place to the output that names them, and the instant is in the file's name. That holds only where the
blocks of an output that is opened name it, straight or through outputs in between; otherwise everything is opened.

Touches: the log files, by reading block heads and the footers of native logs only.
Keeps:   1. blocks of instants later than the query's are skipped; so are corrupt blocks, as in Hudi, and named: their
            files are of completed instants, so that rows went with them, and `check_sound` refuses them;
         2. blocks come out oldest first;
         3. what we cannot merge is refused here, before any content is read;
         4. the blocks are the same whether superseded logs are opened or not;
         5. a native log that is torn or broken is an error, and never skipped.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.base.paths import join
from lakeward.format.avro.schema import REQUIRED_KEY, block_schema
from lakeward.format.file_name import (
    NativeLogKind,
    NativeLogName,
    is_change_log,
    parse_any_log,
    parse_native_log,
)
from lakeward.format.log.block import (
    KEY_COLUMN,
    BlockType,
    CorruptBlock,
    HeaderKey,
    LogBlock,
    read_content_range,
    scan_blocks,
)
from lakeward.format.log.log_tail import read_log_tail
from lakeward.format.log.native_log.native_log_file import open_native_log
from lakeward.format.projection import project
from lakeward.format.timeline.instant import is_before
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.merge.rules.ordering_type import is_ordered_by_text
from lakeward.read.logs.committed_writes import CommittedWrites
from lakeward.storage.storage import Storage, is_absolute
from lakeward.table.damaged_file import DamagedFile, DamageKind, damaged_error

ROLLBACK_COMMAND = "0"
DELETE_BLOCK_VERSIONS = (1, 2, 3)

_DATA_TYPES = frozenset({BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA})

_NONE_SUPERSEDED: Mapping[str, Sequence[str]] = {}

NEWEST = "9" * 17
"""Later than every instant: all blocks are read."""


@dataclass(frozen=True, slots=True)
class LogScan:
    """What the logs of a slice hold for one query instant."""

    blocks: tuple[LogBlock, ...]
    """The data and delete blocks that count, oldest first. `file` is the path relative to the base path."""
    log_files: int
    """Logs that were opened; CDC files are not."""
    log_blocks: int
    """All blocks met, corrupt ones included."""
    corrupt: tuple[CorruptBlock, ...]
    rollback_blocks: int
    overtaken: str | None = None
    """See `find_overtaken`."""
    by_rank: bool = False
    """The blocks are those of `ranked_blocks`."""
    without_anchor: tuple[LogBlock, ...] = ()
    """The first block of each output that vanished though its sources lay in this slice."""

    @property
    def corrupt_blocks(self) -> int:
        return len(self.corrupt)

    @property
    def damage(self) -> tuple[DamagedFile, ...]:
        """What is wrong with files: the corrupt blocks, and the outputs that readers pass over."""
        lost = (
            _damaged(block.file, DamageKind.WITHOUT_ANCHOR, "none of the logs that it stands for is there")
            for block in self.without_anchor
        )
        return (*(_damage(block) for block in self.corrupt), *lost)

    @property
    def content_bytes(self) -> int:
        return sum(block.content_length for block in self.blocks)


@dataclass(frozen=True, slots=True)
class SupersededLog:
    """A log that is not opened."""

    instant: str
    stands_for: tuple[str, ...] = ()
    """The instants of its sources, where it is an output of log compaction itself."""


def scan_slice_heads(
    storage: Storage,
    base_path: str,
    log_files: Sequence[str],
    *,
    instant: str,
    superseded: Mapping[str, Sequence[str]] = _NONE_SUPERSEDED,
    committed: CommittedWrites | None = None,
    by_rank: bool = False,
    since: str | None = None,
) -> LogScan:
    """Scan the logs of a slice (relative paths in comparator order) as a reader at `instant` does.

    `superseded` are paths among them that plans of log compactions say are superseded, each with the instants that it
    stands for itself. `committed` is for table versions before 8: the writes whose blocks count. `by_rank`: merge them
    as in the layout `lsm_tree`, if they can be (`ranked_blocks`); then all are opened. `since` is that of the slice
    (`FileSlice.since`), so that an output without a source is found; None where these are not all of its logs.

    Reads heads only, so it is cheap enough to ask about every slice before a plan is made. Raises `Unsupported` for a
    block that we cannot merge, `BrokenFile` and `NotFound` for files that cannot be read.
    """
    assert not (by_rank and superseded), "what was superseded is merged, too"
    files = [path for path in log_files if not is_change_log(posixpath.basename(path))]
    met: list[LogBlock | CorruptBlock] = []
    order: list[LogBlock | SupersededLog] = []
    for path in files:
        if path in superseded:
            name = parse_any_log(posixpath.basename(path), native=True)
            assert name is not None, "the snapshot holds only what the grammar accepted"
            order.append(SupersededLog(name.instant, tuple(superseded[path])))
            continue
        found = list(_scan_file(storage, base_path, path))
        met += found
        order += [block for block in found if isinstance(block, LogBlock)]
    ranked = ranked_blocks(order, instant) if by_rank else None
    try:
        blocks = blocks_that_count(order, instant, committed) if ranked is None else ranked
    except NotSuperseded:
        return scan_slice_heads(storage, base_path, log_files, instant=instant, committed=committed, since=since)
    sound = [block for block in met if isinstance(block, LogBlock)]
    return LogScan(
        blocks=tuple(blocks),
        log_files=sum(path not in superseded for path in files),
        log_blocks=len(met),
        corrupt=tuple(block for block in met if isinstance(block, CorruptBlock)),
        rollback_blocks=sum(block.type is BlockType.COMMAND for block in sound),
        without_anchor=(
            () if since is None or ranked is not None else find_without_anchor(order, blocks, instant, committed, since)
        ),
        overtaken=find_overtaken(order, instant, committed),
        by_rank=ranked is not None,
    )


def check_sound(scan: LogScan) -> None:
    """Raise `DamagedFiles` where a log has a corrupt block, or readers do not find one."""
    if damage := scan.damage:
        raise damaged_error(damage)


def find_block_damage(storage: Storage, base_path: str, path: str) -> Iterator[DamagedFile]:
    """What is wrong with the blocks of one log, whether or not we could merge them. One head at a time is held.

    Raises `NotFound`, and `Unsupported` for a block of a form that is not known, behind which nothing is found.
    """
    try:
        if (name := parse_native_log(posixpath.basename(path))) is not None:
            if name.kind is not NativeLogKind.CHANGES:
                _check_native(storage, base_path, path, name)
            return
        with open_log(storage, base_path, path) as (file, size):
            blocks, corrupt = 0, False
            for block in scan_blocks(file, size, name=path):
                blocks += 1
                if isinstance(block, CorruptBlock):
                    corrupt = True
                    yield _damage(block)
                else:
                    _check_whole(block)
                    _check_known(block, file)
            tail = None if corrupt else read_log_tail(file, size)
        if tail is not None and tail.blocks != blocks:
            what = f"it has {blocks} blocks, and its tail was written behind {tail.blocks}"
            yield _damaged(path, DamageKind.OTHER_BLOCKS, what)
    except BrokenFile as error:
        yield broken_log(path, error)


def broken_log(path: str, found: BrokenFile | Unsupported) -> DamagedFile:
    """A log that no reader gets through, Hudi's neither; or one with a block of a form that is not known."""
    kind = DamageKind.CORRUPT_BLOCK if isinstance(found, BrokenFile) else DamageKind.UNKNOWN_FORM
    return _damaged(path, kind, f"{found.what} {found.why}".rstrip("."))


def _damage(block: CorruptBlock) -> DamagedFile:
    what = f"the {block.length} bytes from byte {block.offset} on are no whole log block"
    return _damaged(block.file, DamageKind.CORRUPT_BLOCK, what)


def _damaged(path: str, kind: DamageKind, detail: str) -> DamagedFile:
    name = parse_any_log(posixpath.basename(path), native=True)
    return DamagedFile(path, name.instant if name is not None else "", kind, detail=detail)


def check_ordering(scan: LogScan, rules: MergeRules, schema: pa.Schema) -> None:
    """Raise `Unsupported` where released readers order the records of a block wrongly, so that Lakeward's order would
    differ.

    Hudi 1.2.0's Spark reader gives all rows of a Parquet block the ordering value of its last row when that is a
    string (seen on real tables; Avro blocks and other types are right). Merging such a slice would change what its
    queries return. No release reads native logs, so there is nothing that their readers would return otherwise.
    """
    if not is_ordered_by_text(rules, schema):
        return
    for block in scan.blocks:
        if block.type is BlockType.PARQUET_DATA and not _is_native(block.file):
            raise Unsupported(
                f"{block.where} is a Parquet block of a table that is ordered by a string: "
                f"{', '.join(rules.ordering_fields)}.",
                why="Hudi 1.2.0 compares such records wrongly, so queries would answer otherwise afterwards.",
                remedy="Write logs with hoodie.logfile.data.block.format=avro, or let Hudi compact this table.",
            )


def check_not_overtaken(scan: LogScan) -> None:
    """Raise `Unsupported` where an output of log compaction lies behind other writes than its sources: for table
    versions whose releases do not read one log compaction alike.

    Hudi 1.2 reads the output in the place of its sources. 1.0 and older read sources and output where they lie, by
    default, which is the same only where nothing lies between.
    """
    if scan.overtaken is not None:
        raise Unsupported(
            f"The rows of {scan.overtaken} lie between an output of log compaction and its sources.",
            why="Hudi 1.0 and older let the output win over them and Hudi 1.2 does not, so queries of one of them "
            "would answer otherwise afterwards.",
            remedy="Let the release by which this table is read compact the file group; later ones may be Lakeward's.",
        )


def check_hfile_blocks(scan: LogScan, schema: pa.Schema, key_fields: Sequence[str]) -> None:
    """Raise `Unsupported` where it is not certain what a row of an HFile block holds.

    Hudi blanks a text column of the name `key` there, and readers put the entry's key in its place. That is what the
    column held in 1.0.2's blocks and is the record key in 1.2.0's (seen on real tables), so it is right in both only
    where the record key is that column. And values are promoted by Avro's own rules, which are not those of Avro blocks
    (a float becomes another double), where a reader of Hudi's gets so far at all. See decision 0041.
    """
    types = {column.name: column.type for column in schema}
    for block in scan.blocks:
        if block.type is not BlockType.HFILE_DATA:
            continue
        for column in block_schema(_header(block, HeaderKey.SCHEMA), where=block.where):
            if column.name == KEY_COLUMN and pa.types.is_string(column.type) and tuple(key_fields) != (KEY_COLUMN,):
                raise Unsupported(
                    f"{block.where} is an HFile block with a column {KEY_COLUMN} that is not the record key.",
                    why="Hudi 1.2.0 does not keep its text there: readers see the record key in its place.",
                    remedy="Write logs with hoodie.logfile.data.block.format=avro, and the rows of these logs again.",
                )
            if types.get(column.name, column.type) != column.type:
                raise Unsupported(
                    f"{block.where} is an HFile block whose column {column.name} had another type.",
                    why="Hudi does not promote values of such blocks as it does those of others.",
                    remedy="Write logs with hoodie.logfile.data.block.format=avro, and the rows of these logs again.",
                )


def check_schemas(scan: LogScan, schema: pa.Schema) -> None:
    """Raise `Unsupported` where a column of a block was written as a type that merging does not turn into the table's,
    or is missing and cannot be filled in.

    Raises `BrokenFile` for a schema that is none. What single values forbid is found only when they are read.
    """
    types = {column.name: column.type for column in schema}
    data = [block for block in scan.blocks if block.type in _DATA_TYPES]
    # The writers of most blocks of a slice had one schema, so that is read once.
    forms = {(_header(block, HeaderKey.SCHEMA), block.type, block.is_partial): block for block in reversed(data)}
    for (schema_json, _, _), block in forms.items():
        written = block_schema(schema_json, where=block.where)
        promoted = any(types.get(column.name, column.type) != column.type for column in written)
        # What a partial block lacks is not filled in here.
        if promoted or (
            not block.is_partial
            and any(REQUIRED_KEY in (schema.field(name).metadata or {}) for name in types.keys() - written.names)
        ):
            row = pa.RecordBatch.from_arrays([pa.nulls(1, column.type) for column in written], schema=written)
            from_avro = block.type is not BlockType.PARQUET_DATA
            project(row, schema, where=block.where, from_avro=from_avro, is_partial=block.is_partial)


def check_floats(scan: LogScan, schema: pa.Schema) -> None:
    """Raise `Unsupported` where a float in an Avro block has become a double: for table versions whose releases make
    different doubles of it.

    Hudi 1.0 and 0.15 leave the change to Avro, which takes the nearest double, unless another column of the block has a
    change that Avro does not know; then they use the digits, as Hudi 1.2 always does. Seen on tables of each.
    """
    types = {column.name: column.type for column in schema}
    written = {_header(block, HeaderKey.SCHEMA): block for block in scan.blocks if block.type is BlockType.AVRO_DATA}
    for schema_json, block in written.items():
        for column in block_schema(schema_json, where=block.where):
            if column.name in types and _widens_floats(column.type, types[column.name]):
                raise Unsupported(
                    f"{block.where} has floats in its column {column.name}, which are doubles now.",
                    why="Hudi 1.0 and older make the nearest double of each and Hudi 1.2 that of its digits, so "
                    "queries of one of them would answer otherwise afterwards.",
                    remedy="Let the release by which this table is read compact the file group; later ones may be "
                    "Lakeward's.",
                )


def _widens_floats(before: pa.DataType, after: pa.DataType) -> bool:
    types = pa.types
    if types.is_struct(before) and types.is_struct(after):
        return any(
            _widens_floats(field.type, after.field(field.name).type)
            for field in before
            if after.get_field_index(field.name) >= 0
        )
    if types.is_list(before) and types.is_list(after):
        return _widens_floats(before.value_type, after.value_type)
    if types.is_map(before) and types.is_map(after):
        return _widens_floats(before.item_type, after.item_type)
    return bool(types.is_float32(before) and types.is_float64(after))


def check_holds_records(scan: LogScan) -> None:
    """Raise `Unsupported` where no block counts, so that there is nothing to write into a log."""
    if not scan.blocks:
        raise Unsupported(
            "The logs hold no records.",
            why="Their blocks are rolled back, or stand for logs that were compacted already.",
            remedy="Compact the file group with --type full.",
        )


class NotSuperseded(Exception):
    """No output that was opened names a log that was taken for superseded, so it has to be opened, too."""


def blocks_that_count(
    blocks: Iterable[LogBlock | SupersededLog], instant: str, committed: CommittedWrites | None = None
) -> list[LogBlock]:
    """The data and delete blocks that a reader at `instant` merges, oldest first. Raises `NotSuperseded`.

    Args:
        committed: the writes whose blocks count; None where the files of others are left out already.
    """
    by_instant, unopened = _by_instant(blocks, instant, committed)
    stands_for: dict[str, str] = {}  # a replaced instant and the last one in the chain that replaced it
    newest_first: list[str] = []
    for written_by in reversed(by_instant):
        final = stands_for.get(written_by, written_by)
        if final in unopened:
            raise NotSuperseded(final)
        sources = _sources_of(by_instant[written_by], unopened.get(written_by))
        if sources:
            stands_for |= dict.fromkeys(sources, final)
            continue
        if final not in newest_first:
            newest_first.append(final)
    return [block for written_by in reversed(newest_first) for block in by_instant[written_by]]


def find_without_anchor(
    met: Iterable[LogBlock | SupersededLog],
    counted: Iterable[LogBlock],
    instant: str,
    committed: CommittedWrites | None,
    since: str,
) -> tuple[LogBlock, ...]:
    """The first block of each output that no reader at `instant` merges, straight or through a later output, though one
    of its sources was written from `since` on and so lay in the slice."""
    by_instant, unopened = _by_instant(met, instant, committed)
    sources = {each: _sources_of(blocks, unopened.get(each)) for each, blocks in by_instant.items()}
    todo = [_header(block, HeaderKey.INSTANT_TIME) for block in counted]
    read: set[str] = set()
    while todo:
        if (written_by := todo.pop()) not in read:
            read.add(written_by)
            todo.extend(sources.get(written_by, ()))
    return tuple(
        blocks[0]
        for written_by, blocks in by_instant.items()
        if blocks and written_by not in read and any(is_before(since, source) for source in sources[written_by])
    )


def ranked_blocks(blocks: Iterable[LogBlock | SupersededLog], instant: str) -> list[LogBlock] | None:
    """The blocks that a reader at `instant` merges by the ranks of their files, oldest first: all, what a log
    compaction superseded, too, since its output stands where its name is. None where one is not to be merged so: it is
    in an inline log, which has several, or its rows have some of the columns only.

    Hudi's own reader of the layout looks at no instant (its issue 19983), and takes any file for one of whole rows.
    """
    ranked: list[LogBlock] = []
    for block in blocks:
        assert isinstance(block, LogBlock), "all are opened"
        name = parse_native_log(posixpath.basename(block.file))
        if name is None or block.is_partial:
            return None
        if name.instant <= instant:
            ranked.append(block)
    return ranked


def find_overtaken(
    blocks: Iterable[LogBlock | SupersededLog], instant: str, committed: CommittedWrites | None = None
) -> str | None:
    """An instant that lies between an output of log compaction and the first of its sources, and is none of them.

    The output has the place of a source. Readers that know nothing of that let it win over what lies between.
    """
    by_instant, unopened = _by_instant(blocks, instant, committed)
    order = list(by_instant)
    places = {written_by: place for place, written_by in enumerate(order)}
    for written_by, blocks_of_it in by_instant.items():
        sources = _sources_of(blocks_of_it, unopened.get(written_by))
        if found := [places[source] for source in sources if source in places]:
            between = set(order[min(found) : places[written_by]]) - set(sources)
            if between:
                return min(between)
    return None


def _by_instant(
    blocks: Iterable[LogBlock | SupersededLog], instant: str, committed: CommittedWrites | None
) -> tuple[dict[str, list[LogBlock]], dict[str, SupersededLog]]:
    """The blocks of each instant, in the order of the instants' first blocks, and the instants that are not opened."""
    by_instant: dict[str, list[LogBlock]] = {}
    unopened: dict[str, SupersededLog] = {}
    for block in blocks:
        if isinstance(block, SupersededLog):
            if block.instant <= instant:
                by_instant.setdefault(block.instant, [])
                unopened[block.instant] = block
            continue
        if block.type is BlockType.COMMAND:
            by_instant.pop(_header(block, HeaderKey.TARGET_INSTANT_TIME), None)
            continue
        if block.type is BlockType.CDC_DATA:
            continue
        written_by = _header(block, HeaderKey.INSTANT_TIME)
        if written_by <= instant and (committed is None or written_by in committed):
            by_instant.setdefault(written_by, []).append(block)
    return by_instant, unopened


def _sources_of(blocks: Sequence[LogBlock], unopened: SupersededLog | None) -> tuple[str, ...]:
    """The instants that an instant stands for: as its first block says, or the plan of one that is not opened."""
    if not blocks:
        return () if unopened is None else unopened.stands_for
    sources = blocks[0].headers.get(HeaderKey.COMPACTED_BLOCK_TIMES)
    return () if sources is None else tuple(sources.split(","))


def _scan_file(storage: Storage, base_path: str, path: str) -> Iterator[LogBlock | CorruptBlock]:
    for block, file in read_heads(storage, base_path, path):
        if isinstance(block, LogBlock):
            _check_known(block, file)
        yield block


def read_heads(storage: Storage, base_path: str, path: str) -> Iterator[tuple[LogBlock | CorruptBlock, BinaryIO]]:
    """Each block of a log, and the file to read on in. Of a native log of changes there is none."""
    name = parse_native_log(posixpath.basename(path))
    if name is not None and name.kind is NativeLogKind.CHANGES:
        return
    with open_log(storage, base_path, path) as (file, size):
        if name is not None:
            yield open_native_log(file, size, name, where=path).block, file
            return
        for block in scan_blocks(file, size, name=path):
            yield block, file


@contextmanager
def open_log(storage: Storage, base_path: str, path: str) -> Iterator[tuple[BinaryIO, int]]:
    """A log, and its size. Raises `NotFound`."""
    full_path = path if is_absolute(path) else join(base_path, path)  # one that is not in the table yet
    status = storage.stat(full_path)
    if status is None:
        raise NotFound(f"The log file {path} does not exist.", why="A file slice of the timeline names it.")
    with storage.open_input(full_path) as file:
        yield file, status.size


def _check_native(storage: Storage, base_path: str, path: str, name: NativeLogName) -> None:
    """Raise `BrokenFile` for a native log whose footer says what cannot be."""
    with open_log(storage, base_path, path) as (file, size):
        found = open_native_log(file, size, name, where=path)
    if found.footer.positions is not None:
        found.footer.positions.numbers(found.rows, where=path)


def _is_native(path: str) -> bool:
    return parse_native_log(posixpath.basename(path)) is not None


def _check_whole(block: LogBlock) -> None:
    """Raise `BrokenFile` for a head that lacks what no reader can do without."""
    if block.type is BlockType.COMMAND:
        if block.headers.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK_COMMAND:
            _header(block, HeaderKey.TARGET_INSTANT_TIME)
        return
    _header(block, HeaderKey.INSTANT_TIME)
    if block.type in _DATA_TYPES:
        _header(block, HeaderKey.SCHEMA)


def _check_known(block: LogBlock, file: BinaryIO) -> None:
    """Raise `Unsupported` for a block of a form that is not known."""
    if block.type is BlockType.COMMAND:
        if block.headers.get(HeaderKey.COMMAND_BLOCK_TYPE) != ROLLBACK_COMMAND:
            raise _unsupported(block, "is a command other than rollback")
    elif block.type in _DATA_TYPES:
        _header(block, HeaderKey.SCHEMA)
    elif block.type is BlockType.DELETE:
        if not _is_native(block.file):
            _check_delete_version(read_content_range(file, block, 0, min(4, block.content_length)), block)
    elif block.type is not BlockType.CDC_DATA:
        raise _unsupported(block, f"is of the type {block.type.name.replace('_', ' ').lower()}")


def _check_delete_version(head: bytes, block: LogBlock) -> None:
    if len(head) < 4:
        raise BrokenFile(
            f"The delete block of {block.where} cannot be read.",
            why="It is shorter than its head.",
            remedy="Restore the file, or roll back the commit that wrote it.",
        )
    (version,) = struct.unpack(">i", head)
    if version not in DELETE_BLOCK_VERSIONS:
        raise _unsupported(block, f"is a delete block of version {version}")


def _header(block: LogBlock, key: HeaderKey) -> str:
    value = block.headers.get(key)
    if value is None:
        raise BrokenFile(
            f"{block.where} cannot be merged.",
            why=f"It lacks the header {key.name}.",
            remedy="Restore the file, or roll back the commit that wrote it.",
        )
    return value


def _unsupported(block: LogBlock, why: str) -> Unsupported:
    return Unsupported(
        f"{block.where} cannot be merged.",
        why=f"It {why}.",
        remedy="Compact this file group with Hudi itself.",
    )
