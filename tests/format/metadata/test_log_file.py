"""Log files of the metadata table."""

from __future__ import annotations

import io
import json
import random
import struct
import tracemalloc
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.file_name import NativeLogName, parse_native_log
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.hfile.writer import HFileWriter
from lakeward.format.log.block import BlockType, CorruptBlock, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.delete_block import encode_deletes
from lakeward.format.log.log_writer import block_head
from lakeward.format.metadata import log_file as metadata_log_file
from lakeward.format.metadata.log_file import (
    MetadataBlock,
    NativeMetadataDeletes,
    metadata_blocks,
    native_metadata_block,
    write_metadata_deletes,
    write_metadata_log,
    write_native_metadata_log,
)

T = "20261121043703223"
ENTRIES = sorted(((f"ключ-{n}", b"%d" % n * 9) for n in range(5000)), key=lambda entry: entry[0].encode())


def block(kind: BlockType, content: bytes, headers: dict[HeaderKey, str]) -> bytes:
    head = block_head(kind, headers, len(content))
    return head + content + struct.pack(">iq", 0, len(head) + len(content) + 4)


def deletes(keys: list[str]) -> bytes:
    if not keys:
        return struct.pack(">ii", 3, 1) + b"\0"  # as Hudi leaves one in each new file group
    (content,) = encode_deletes(pa.array(keys), None, partition_path="record_index", bytes_max=10**6)
    return content


def blocks_of(data: bytes) -> list[MetadataBlock | CorruptBlock]:
    return list(metadata_blocks(io.BytesIO(data), len(data), "x.log"))


def test_what_is_written_is_read():
    """Every entry is, with the schema and the instant, by a scan and by key; behind other bytes, too."""
    sink = io.BytesIO()
    stats = write_metadata_log(sink, instant=T, schema_json='{"ü": 1}', entries=iter(ENTRIES))

    data = sink.getvalue()
    assert (stats.entries, stats.size_bytes) == (len(ENTRIES), len(data))
    (found,) = blocks_of(data)
    assert isinstance(found, MetadataBlock) and found.hfile is not None
    assert (found.instant, found.schema_json, found.deleted_keys) == (T, '{"ü": 1}', ())
    assert [(key.decode(), value) for key, value in found.hfile.entries()] == ENTRIES
    assert found.hfile.lookup([ENTRIES[7][0].encode()]) == {ENTRIES[7][0].encode(): ENTRIES[7][1]}
    assert found.hfile.info["schema"] == '{"ü": 1}'.encode()
    _, again = blocks_of(data + data)
    assert isinstance(again, MetadataBlock) and again.hfile is not None and again.hfile.entry_count == len(ENTRIES)
    assert "x.log" in found.where


def test_keys_that_are_deleted_are_read():
    """A file of deletes holds the keys in one block, under the schema that Hudi's has, and nothing else."""
    sink = io.BytesIO()
    keys = [key for key, _ in ENTRIES]
    stats = write_metadata_deletes(
        sink, instant=T, schema_json="{}", partition="record_index", keys=pa.array(keys, pa.string())
    )

    data = sink.getvalue()
    assert (stats.entries, stats.size_bytes) == (len(keys), len(data))
    (found,) = blocks_of(data)
    assert isinstance(found, MetadataBlock) and found.hfile is None
    assert (found.instant, found.schema_json, found.deleted_keys) == (T, "{}", tuple(keys))
    assert deletes(keys) in data


def test_the_framing_is_a_log_blocks():
    """One block of type HFILE_DATA, the schema's header first as Hudi has it, to the last byte."""
    sink = io.BytesIO()
    write_metadata_log(sink, instant=T, schema_json="{}", entries=ENTRIES[:10])

    size = len(sink.getvalue())
    (found,) = scan_blocks(sink, size, name="x.log")
    assert isinstance(found, LogBlock)
    assert found.type is BlockType.HFILE_DATA
    assert list(found.headers) == [HeaderKey.SCHEMA, HeaderKey.INSTANT_TIME]
    assert found.content_offset + found.content_length + 12 == size


def test_no_entry_is_a_file_too():
    """Whose HFile is empty."""
    sink = io.BytesIO()
    assert write_metadata_log(sink, instant=T, schema_json="{}", entries=()).entries == 0

    (found,) = blocks_of(sink.getvalue())
    assert isinstance(found, MetadataBlock) and found.hfile is not None
    assert list(found.hfile.entries()) == []


def test_equal_entries_give_equal_bytes_in_memory_and_on_disk(monkeypatch: pytest.MonkeyPatch):
    """This is so however large the HFile is that waits for its length."""
    small, large = io.BytesIO(), io.BytesIO()
    write_metadata_log(small, instant=T, schema_json="{}", entries=ENTRIES)
    monkeypatch.setattr(metadata_log_file, "SPOOL_BYTES", 100)
    write_metadata_log(large, instant=T, schema_json="{}", entries=ENTRIES)

    assert small.getvalue() == large.getvalue()


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The bound is a block, and what may wait in memory; here 24 MB go through, which gzip cannot make smaller."""
    monkeypatch.setattr(metadata_log_file, "SPOOL_BYTES", 1024 * 1024)
    noise = random.Random(1).randbytes(100_000)
    entries = ((f"{n:06d}", noise[n:] + noise[:n]) for n in range(240))
    tracemalloc.start()
    with (tmp_path / "log").open("wb") as sink:
        stats = write_metadata_log(sink, instant=T, schema_json="{}", entries=entries)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stats.size_bytes > 20 * 1024 * 1024 > 2 * peak


def test_deleted_keys():
    """Keys are those of a delete block behind the HFile, and of the empty one that each new file group begins with."""
    sink = io.BytesIO()
    write_metadata_log(sink, instant=T, schema_json="{}", entries=ENTRIES[:1])
    data = sink.getvalue() + block(BlockType.DELETE, deletes(["k1", "ü"]), {HeaderKey.INSTANT_TIME: "2"})

    _, deleted = blocks_of(data)
    assert isinstance(deleted, MetadataBlock)
    assert (deleted.instant, deleted.schema_json, deleted.hfile) == ("2", None, None)
    assert deleted.deleted_keys == ("k1", "ü")
    (empty,) = blocks_of(block(BlockType.DELETE, deletes([]), {HeaderKey.INSTANT_TIME: "0"}))
    assert isinstance(empty, MetadataBlock) and empty.deleted_keys == ()


def test_a_torn_block_is_shown_and_the_next_one_read():
    """A log file of the metadata table is torn like any other."""
    sink = io.BytesIO()
    write_metadata_log(sink, instant=T, schema_json="{}", entries=ENTRIES[:9])
    data = sink.getvalue()

    torn, sound = blocks_of(data[: len(data) // 2] + data)
    assert isinstance(torn, CorruptBlock) and torn.length == len(data) // 2
    assert isinstance(sound, MetadataBlock) and sound.hfile is not None and len(list(sound.hfile.entries())) == 9


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (block(BlockType.HFILE_DATA, b"x" * 5000, {HeaderKey.SCHEMA: "{}", HeaderKey.INSTANT_TIME: T}), BrokenFile),
        (block(BlockType.HFILE_DATA, b"", {HeaderKey.SCHEMA: "{}"}), BrokenFile),
        (block(BlockType.HFILE_DATA, b"", {HeaderKey.INSTANT_TIME: T}), BrokenFile),
        (block(BlockType.DELETE, b"", {HeaderKey.INSTANT_TIME: T}), BrokenFile),
        (block(BlockType.AVRO_DATA, b"", {HeaderKey.SCHEMA: "{}", HeaderKey.INSTANT_TIME: T}), Unsupported),
        (block(BlockType.COMMAND, b"", {HeaderKey.INSTANT_TIME: T}), Unsupported),
    ],
)
def test_other_blocks_are_errors(data: bytes, error: type[Exception]):
    """The error has the name of the file."""
    with pytest.raises(error, match=r"x\.log"):
        blocks_of(data)


def native_name(end: str = "1.log.hfile") -> NativeLogName:
    name = parse_native_log(f"files-0000-0_0-0-0_{T}_{end}")
    assert name is not None
    return name


@pytest.mark.parametrize("entries", [ENTRIES, []])
def test_a_native_log_is_the_hfile_of_an_inline_one(entries: list[tuple[str, bytes]]):
    """Entries, schema and instant are those of the block, in its file info, to the letter; also where it is empty, as
    each new file group begins."""
    sink = io.BytesIO()
    stats = write_native_metadata_log(sink, instant="7", schema_json='{"ü": 1}', entries=iter(entries))
    data = sink.getvalue()
    assert (stats.entries, stats.size_bytes) == (len(entries), len(data))
    found = native_metadata_block(io.BytesIO(data), len(data), native_name(), where="files/x")
    assert found.hfile is not None
    assert (found.instant, found.schema_json, found.deleted_keys) == ("7", '{"ü": 1}', ())
    assert [(key.decode(), value) for key, value in found.hfile.entries()] == entries
    assert found.hfile.info["schema"] == '{"ü": 1}'.encode()
    said = '{"VERSION":"2","INSTANT_TIME":"7","SCHEMA":"{\\"ü\\": 1}"}'
    assert found.hfile.info["hudi.log.format.metadata"] == said.encode()


def test_a_native_log_of_deletes_is_its_keys():
    """Keeps 2 of format/metadata/log_file: its values are the keys once more, as a record of such a file's schema."""
    sink = io.BytesIO()
    writer = NativeMetadataDeletes(sink, instant=T, schema_json="{}")
    for keys in (["a"], ["ü" * 40]):
        writer.add(keys)
    stats = writer.close()
    data = sink.getvalue()
    assert (stats.entries, stats.size_bytes) == (2, len(data))
    name = native_name("1.deletes.hfile").text
    (found,) = metadata_blocks(io.BytesIO(data), len(data), f"files/{name}")
    assert isinstance(found, MetadataBlock)
    assert (found.hfile, found.deleted_keys, found.instant, found.where) == (None, ("a", "ü" * 40), T, f"files/{name}")
    hfile = HFileReader(io.BytesIO(data), length=len(data), name="x")
    schema = fastavro.parse_schema(json.loads(hfile.info["schema"]))
    for key, value in hfile.entries():
        assert fastavro.schemaless_reader(io.BytesIO(value), schema, None) == {"_hoodie_record_key": key.decode()}


def test_a_native_log_of_deletes_may_hold_any_values():
    """Its keys are what it says."""
    sink = io.BytesIO()
    writer = HFileWriter(sink)
    writer.add(b"a", b"")
    writer.finish({"hudi.log.format.metadata": b'{"SCHEMA":"{}"}'})
    data = sink.getvalue()
    found = native_metadata_block(io.BytesIO(data), len(data), native_name("1.deletes.hfile"), where="files/x")
    assert (found.hfile, found.deleted_keys, found.instant) == (None, ("a",), T)


def test_other_native_logs_of_a_metadata_table_are_refused():
    """One has another format; the other is an HFile without the entry of a log."""
    with pytest.raises(Unsupported, match="of the format parquet"):
        native_metadata_block(io.BytesIO(), 0, native_name("1.log.parquet"), where="files/x")
    sink = io.BytesIO()
    HFileWriter(sink).finish({"schema": b"{}"})
    with pytest.raises(BrokenFile, match=r"files/x is broken in its footer"):
        native_metadata_block(sink, len(sink.getvalue()), native_name(), where="files/x")
