"""The tail of a log, written by the log writer and read back; and files whose end is no tail."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.file_name import NativeLogKind
from lakeward.format.log.block import BlockType, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from lakeward.format.log.log_tail import (
    CLIQUE_LOGS_MAX,
    KEYS_LISTED_MIN,
    NO_OTHERS,
    TAIL_ENTRY,
    Clique,
    CoveredLog,
    LogTail,
    LogTailBuilder,
    TailKeys,
    TailPlace,
    find_listed,
    read_log_tail,
)
from lakeward.format.log.log_writer import LogFileStats
from lakeward.index.bloom.log_tails import open_log_tail
from lakeward.read.logs.log_scan import find_block_damage
from lakeward.storage.local import LocalStorage
from lakeward.table.damaged_file import DamageKind
from tests.format.log.native_log.native_files import data_file, delete_file, native_name
from tests.format.log.native_log.native_files import row as native_row
from tests.format.log.test_log_writer import batch, blocks_of, writer_to
from tests.read.log_files import row

MAGIC = b"\nLAKETAIL"
KEYS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=1, unique=True)


def log_of(
    keys: Iterable[str], *, deletes: Iterable[str] = (), place: TailPlace = NO_OTHERS, block_bytes: int = 2**26
) -> tuple[io.BytesIO, LogTail]:
    sink = io.BytesIO()
    writer = writer_to(sink, tail=LogTailBuilder(place), block_bytes=block_bytes)
    writer.write(batch(*(row(key, 1, "x") for key in keys)))
    if gone := list(deletes):
        writer.write_deletes(pa.array(gone), None, partition_path="p")
    stats = writer.close()
    assert stats.size_bytes == len(sink.getvalue())
    tail = read_log_tail(sink, stats.size_bytes)
    assert tail is not None
    assert tail.blocks == stats.blocks == len(blocks_of(sink, stats))
    return sink, tail


def may_be(sink: io.BytesIO, said: TailKeys, keys: Iterable[str]) -> list[bool]:
    filter_ = said.read_filter(sink)
    assert filter_ is not None
    return list(filter_.lookup(pa.array(keys, pa.string())))


@pytest.mark.parametrize("block_bytes", [2**26, 300], ids=["one block", "several"])
def test_a_tail_speaks_for_all_blocks(block_bytes: int) -> None:
    """Rows of several data blocks and deletes behind them are in it, and it changes no row."""
    keys = [f"k{number:03}" for number in range(50)]
    sink, tail = log_of(keys, deletes=["gone", "z"], block_bytes=block_bytes)
    assert (tail.own.low, tail.own.high, tail.own.count) == ("gone", "z", 52)
    assert all(may_be(sink, tail.cumulative, [*keys, "gone", "z"]))
    assert tail.holds_all_that_it_covers and tail.covers == () and tail.key_list is None
    read: list[str] = []
    for each in blocks_of(sink, LogFileStats(0, 0, tail.blocks, len(sink.getvalue()))):
        if each.type is BlockType.DELETE:
            for deleted in read_delete_block(sink, each):
                read += deleted.keys.to_pylist()
        else:
            for rows in read_data_block(sink, each):
                read += rows.column("_hoodie_record_key").to_pylist()
    assert read == [*keys, "gone", "z"]


@pytest.mark.parametrize("gone", [[], ["gone"]])
def test_parquet_blocks_have_their_tail_behind_them(gone: list[str]) -> None:
    """The tail lies in the block of deletes, which is made where there is none; the log's key column is its list."""
    keys = [f"k{number:05}" for number in range(KEYS_LISTED_MIN + 70_000)]
    for few in (keys[:20], keys if gone else keys[:50]):
        sink = io.BytesIO()
        writer = writer_to(sink, BlockType.PARQUET_DATA, tail=LogTailBuilder(lists_keys=False), block_bytes=2**20)
        writer.write(batch(*(row(key, 1, "x") for key in few)))
        if gone:
            writer.write_deletes(pa.array(gone), None, partition_path="p")
        stats = writer.close()
        tail = read_log_tail(sink, stats.size_bytes)
        assert tail is not None and tail.key_list is None and tail.own.count == len(few) + len(gone)
        assert all(may_be(sink, tail.cumulative, [*few, *gone]))
        *rows, last = blocks_of(sink, stats)
        assert last.type is BlockType.DELETE and {each.type for each in rows} == {BlockType.PARQUET_DATA}
        assert [key for each in read_delete_block(sink, last) for key in each.keys.to_pylist()] == gone
        read = [key for each in rows for some in read_data_block(sink, each) for key in some.column(2).to_pylist()]
        assert read == few


@given(KEYS, st.lists(KEYS, max_size=12))
def test_no_key_is_ruled_out(first: list[str], others: list[list[str]]) -> None:
    """Whatever the keys, of a clique of any logs: ranges and filters have all that were added, in Java's order."""
    sink, tail = log_of(first)
    covered: list[tuple[str, list[str]]] = [("log0", first)]
    for number, keys in enumerate(others, start=1):
        filter_ = tail.filter_to_go_on_with(sink)
        assert filter_ is not None
        before = (*tail.covers, CoveredLog(f"log{number - 1}", len(sink.getvalue()), tail.crc32))
        sink, tail = log_of(keys, place=TailPlace(Clique(tail, filter_, before)))
        covered.append((f"log{number}", keys))
        names = {each.name for each in tail.covers} | {f"log{number}"}
        every = [key for name, of in covered if name in names for key in of]
        assert all(may_be(sink, tail.cumulative, every))
        own = tail.cumulative if tail.holds_all_that_it_covers else tail.own
        assert all(may_be(sink, own, keys))
        assert tail.logs <= CLIQUE_LOGS_MAX and tail.cumulative.count <= tail.room
        for said, of in ((tail.own, keys), (tail.cumulative, every)):
            ordered = sorted(of, key=lambda key: key.encode("utf-16-be"))
            assert said.low.encode("utf-16-be") <= ordered[0].encode("utf-16-be")
            assert said.high.encode("utf-16-be") >= ordered[-1].encode("utf-16-be")


def test_many_keys_are_listed() -> None:
    """A list of many keys has exactly them, in runs."""
    chance = Random(7)
    keys = [f"{chance.getrandbits(128):032x}" for _ in range(70_000)]
    sink, tail = log_of(keys, deletes=["gone"])
    assert tail.key_list is not None
    listed = tail.key_list.read(sink)
    assert listed is not None
    asked = pa.array([*keys, "gone", "other"])
    found = find_listed(listed, asked)
    assert found is not None and pc.sum(pa.array(found)).as_py() == len(keys) + 1 and not found[-1]
    assert tail.key_list.length <= 20 * len(keys)
    wrong = sum(may_be(sink, tail.cumulative, [f"other{number}" for number in range(10_000)]))
    assert wrong < 30, "there is room for six times as many"
    assert find_listed(listed[:-20], asked) is None
    _, small = log_of(keys[: KEYS_LISTED_MIN - 1])
    assert small.key_list is None


def test_a_log_that_was_merged_covers_what_it_was_merged_of() -> None:
    merged = (CoveredLog("a.log", 10, None), CoveredLog("b.log", 20, 7))
    _, tail = log_of(["a", "b"], place=TailPlace(merged=merged, under="400"))
    assert tail.covers == merged and tail.holds_all_that_it_covers and tail.under == "400" and tail.logs == 1


def test_a_clique_that_is_full_is_closed() -> None:
    """A log with more keys than there is room for begins a new one."""
    sink, tail = log_of([f"k{number}" for number in range(10)])
    filter_ = tail.filter_to_go_on_with(sink)
    assert filter_ is not None
    before = Clique(tail, filter_, (CoveredLog("log0", 1, tail.crc32),))
    _, next_one = log_of([f"l{number}" for number in range(50)], place=TailPlace(before))
    assert (next_one.logs, next_one.cumulative.count, len(next_one.covers)) == (2, 60, 1)
    _, larger = log_of([f"l{number}" for number in range(51)], place=TailPlace(before))
    assert (larger.logs, larger.covers, larger.room) == (1, (), 306)


def test_another_size_has_no_tail() -> None:
    """Blocks that were appended, before or behind, and a file cut short."""
    sink, tail = log_of(["a"])
    whole = sink.getvalue()
    for other in (whole + whole, b"x" + whole, whole[1:], whole[:-1]):
        assert read_log_tail(io.BytesIO(other), len(other)) is None
    plain = io.BytesIO()
    writer = writer_to(plain)
    writer.write(batch(row("a", 1, "x")))
    writer.close()
    assert read_log_tail(plain, len(plain.getvalue())) is None
    assert tail.own.count == 1


@pytest.mark.parametrize(
    ("rows", "block_bytes", "is_seen"),
    [(20, 1_000, True), (2_000, 150_000, True), (2_000, 1_000, False)],
    ids=["read at once", "few", "many"],
)
def test_another_number_of_blocks(tmp_path: Path, rows: int, block_bytes: int, is_seen: bool) -> None:
    """A log that one read brings has no tail then, nor has one of few blocks; `lakeward verify`, which reads the
    blocks, names any such log."""
    path = tmp_path / ".group_100.log.1_0-0-0"
    for one_more in (0, 1):
        with path.open("wb") as sink:
            writer = writer_to(sink, tail=Miscounting(one_more), block_bytes=block_bytes)
            writer.write(batch(*(row(f"k{number}", 1, "x") for number in range(rows))))
            stats = writer.close()
        assert stats.blocks > 1 and (stats.size_bytes < 64 * 1024) == (rows < 100)
        with path.open("rb") as log:
            tail = read_log_tail(log, stats.size_bytes)
            assert tail is not None and tail.blocks == stats.blocks + one_more
            assert (open_log_tail(log, stats.size_bytes, path.name) is None) == (one_more == 1 and is_seen)
        damage = list(find_block_damage(LocalStorage(), str(tmp_path), path.name))
        assert [each.kind for each in damage] == [DamageKind.OTHER_BLOCKS] * one_more
        assert all(f"{stats.blocks} blocks" in each.what for each in damage)


class Reads(io.BytesIO):
    """Counts them."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.count += 1
        return super().read(size)


@pytest.mark.parametrize(("block_bytes", "blocks"), [(1_000_000, 1), (250_000, 2), (120_000, 4)])
def test_blocks_are_counted_from_the_end_of_a_log(block_bytes: int, blocks: int) -> None:
    """A log of one block takes no read more than that of its end, and any other one for each block more at most. Where
    a block does not begin as it ends, there is no tail."""
    sink = Reads()
    writer = writer_to(sink, tail=LogTailBuilder(), block_bytes=block_bytes)
    for start in range(0, 4_000, 500):
        writer.write(batch(*(row(f"k{number}", 1, "x") for number in range(start, start + 500))))
    stats = writer.close()
    name = ".group_100.log.1_0-0-0"
    assert stats.blocks == blocks and stats.size_bytes > 2 * 64 * 1024
    assert open_log_tail(sink, stats.size_bytes, name) is not None and sink.count <= blocks
    begins = [each.offset for each in scan_blocks(sink, stats.size_bytes, name=name)]
    for start in begins[1:]:
        for at in (start - 1, start, start + len(b"#HUDI#") + 7):
            changed = bytearray(sink.getvalue())
            changed[at] ^= 1
            assert read_log_tail(io.BytesIO(changed), len(changed)) is not None
            assert open_log_tail(io.BytesIO(changed), len(changed), name) is None


def test_a_torn_tail_rules_nothing_out() -> None:
    """Any byte of it changed: the tail, or the part that it is in, is not there."""
    sink, tail = log_of(["a", "b"])
    whole = bytearray(sink.getvalue())
    begins = whole.index(b"\xffLAKETAIL\n")
    for at in range(begins, len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x41
        file = io.BytesIO(bytes(changed))
        found = read_log_tail(file, len(changed))
        if found is not None:
            assert found == tail
            filter_ = found.cumulative.read_filter(file)
            assert filter_ is None or all(filter_.lookup(pa.array(["a", "b"])))


@pytest.mark.parametrize(
    ("was", "made"),
    [
        (b'"version":1', b'"version":2'),
        (b'"low":"a"', b'"low":[1]'),
        (b'"parts":[[', b'"parts":{[['),
        (b'"room":', b'"rOOm":'),
    ],
)
def test_a_hostile_directory_is_no_tail(was: bytes, made: bytes) -> None:
    """Also one whose checksum holds."""
    sink, _ = log_of(["a", "b"])
    assert_no_tail(sink.getvalue().replace(was, made))


@pytest.mark.parametrize("lengths", ["[[9999999999,1],[0,0],[1,1]]", "[[-5,1],[0,0],[5,1]]", "[]", '["x"]'])
def test_hostile_lengths_are_no_tail(lengths: str) -> None:
    whole = log_of(["a", "b"])[0].getvalue()
    start = whole.index(b'"parts":') + 8
    end = whole.index(b"}", start)
    assert_no_tail(whole[:start] + lengths.encode() + whole[end:])


def assert_no_tail(whole: bytes) -> None:
    """With size, length and checksum put right."""
    made = with_trailer(whole[: -12 - len(MAGIC) - 20], blocks=1)
    assert read_log_tail(io.BytesIO(made), len(made)) is None


def with_trailer(until_directory: bytes, *, blocks: int = 1) -> bytes:
    """A log whose end is right, up to the directory or to bytes that stand for it behind thirty others."""
    size = len(until_directory) + 20 + len(MAGIC) + 12
    start = until_directory.rfind(b'{"version"')
    text = until_directory[start if start > 0 else 30 :]
    crc32 = zlib.crc32(text, zlib.crc32(struct.pack(">QI", size, blocks)))
    return until_directory + struct.pack(">QIII", size, blocks, len(text), crc32) + MAGIC + bytes(12)


@pytest.mark.parametrize("deletes", [False, True], ids=["rows", "deletes"])
def test_a_native_log_has_it_in_its_footer(deletes: bool) -> None:
    """The entry says its keys, and readers of the rows pass over it."""
    keys = [f"k{number:04}" for number in range(KEYS_LISTED_MIN + 5)]
    whole = native_log(keys, deletes=deletes)
    found = open_log_tail(io.BytesIO(whole), len(whole), NATIVE_DELETES if deletes else NATIVE_ROWS)
    assert found is not None
    tail, parts = found
    assert (tail.own.low, tail.own.high, tail.own.count, tail.blocks) == (keys[0], keys[-1], len(keys), 1)
    filter_ = tail.cumulative.read_filter(parts)
    assert tail.key_list is None and filter_ is not None and all(filter_.lookup(pa.array(keys)))
    assert sum(filter_.lookup(pa.array([f"other{number}" for number in range(1_000)]))) < 30
    assert pq.read_table(io.BytesIO(whole)).column("_hoodie_record_key").to_pylist() == keys
    assert open_log_tail(io.BytesIO(whole), len(whole), NATIVE_CHANGES) is None


def test_an_entry_of_another_file_is_no_tail() -> None:
    """One whose rows, or whose bytes in front of the footer, are others than it says; and one that is torn."""
    whole = native_log(["a", "b"])
    entry = pq.read_metadata(io.BytesIO(whole)).metadata[TAIL_ENTRY.encode()]
    assert opened(whole) and native_log(["a", "b"], entry=entry) == whole
    for others in (["a"], ["a", "bc"], ["a", "b", "c"]):
        assert not opened(native_log(others, entry=entry))
    assert not opened(data_file([native_row(key) for key in ("a", "b")], tail=First(lists_keys=False)))
    for at in range(len(entry)):
        torn = entry[:at] + (b"A" if entry[at : at + 1] != b"A" else b"B") + entry[at + 1 :]
        changed = whole.replace(entry, torn)
        if found := open_log_tail(io.BytesIO(changed), len(changed), NATIVE_ROWS):
            filter_ = found[0].cumulative.read_filter(found[1])
            assert filter_ is None or all(filter_.lookup(pa.array(["a", "b"])))
    for broken in (whole.replace(entry, b"!" * len(entry)), whole[:-1], whole[:-9] + whole[-8:], b"PAR1"):
        assert not opened(broken)


NATIVE_ROWS = native_name().text
NATIVE_DELETES = native_name(NativeLogKind.DELETES).text
NATIVE_CHANGES = native_name(NativeLogKind.CHANGES).text


def opened(whole: bytes) -> bool:
    return open_log_tail(io.BytesIO(whole), len(whole), NATIVE_ROWS) is not None


class First(LogTailBuilder):
    """Passes over all keys but the first one."""

    def add(self, keys: pa.Array) -> None:
        super().add(keys[:1])


class Miscounting(LogTailBuilder):
    """Says so many blocks more than there are."""

    def __init__(self, more: int) -> None:
        super().__init__()
        self._more = more

    def close(self, *, file_bytes: int, blocks: int) -> bytes:
        return super().close(file_bytes=file_bytes, blocks=blocks + self._more)


class Given(LogTailBuilder):
    """Writes the entry of another log."""

    def __init__(self, entry: bytes) -> None:
        super().__init__(lists_keys=False)
        self._given = {TAIL_ENTRY: entry.decode()}

    def close_as_entry(self, *, bytes_before: int) -> dict[str, str]:
        return self._given


def native_log(keys: list[str], *, deletes: bool = False, entry: bytes | None = None) -> bytes:
    """
    Args:
        entry: another log's, in place of its own.
    """
    tail = LogTailBuilder(lists_keys=False) if entry is None else Given(entry)
    if deletes:
        return delete_file(keys, None, [], tail=tail)
    return data_file([native_row(key) for key in keys], tail=tail)
