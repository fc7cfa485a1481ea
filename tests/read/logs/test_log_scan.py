from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, DamagedFiles, NotFound, Unsupported
from lakeward.format.avro.schema import block_schema
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.logs.log_scan import (
    LogScan,
    NotSuperseded,
    SupersededLog,
    blocks_that_count,
    check_floats,
    check_hfile_blocks,
    check_holds_records,
    check_not_overtaken,
    check_ordering,
    check_schemas,
    check_sound,
    find_overtaken,
    find_without_anchor,
    scan_slice_heads,
)
from lakeward.storage.local import LocalStorage
from tests.read.log_files import block, data_block, delete_block, rollback_block, row

NOW = "999"


def count(story: str, *, instant: str = NOW) -> str:
    """The blocks that count."""
    return " ".join(found.file for found in blocks_that_count(story_blocks(story), instant))


def story_blocks(story: str) -> list[LogBlock]:
    """`a2` is block a of instant 2, `m4(2,3)` stands for 2 and 3, `R5(2)` rolls 2 back."""
    blocks = []
    for word in story.split():
        name, _, inner = word.partition("(")
        inner = inner.rstrip(")")
        headers = {HeaderKey.INSTANT_TIME: name[1:]}
        kind = BlockType.AVRO_DATA
        if name[0] == "R":
            kind = BlockType.COMMAND
            headers[HeaderKey.TARGET_INSTANT_TIME] = inner
        elif inner:
            headers[HeaderKey.COMPACTED_BLOCK_TIMES] = inner
        blocks.append(LogBlock(kind, headers, 0, 0, name, 0))
    return blocks


STORIES = {
    "oldest first": ("a1 a2 a3", "a1 a2 a3"),
    "blocks of one instant stay together, at the place of its first": ("a1 a2 b1 b2", "a1 b1 a2 b2"),
    "rollback drops what was seen of its target": ("a1 a2 R3(1)", "a2"),
    "rollback of something else drops nothing": ("a1 R3(2)", "a1"),
    "what comes again after a rollback counts": ("a1 R3(1) b1", "b1"),
    "a compacted block replaces its sources, at the place of the newest": ("a1 a2 m4(1,2) a3", "m4 a3"),
    "all blocks of the compacting instant": ("a1 a2 m4(1,2) n4", "m4 n4"),
    "sources that are not neighbours": ("a1 a2 a3 m4(1,3)", "a2 m4"),
    "compacted twice": ("a1 a2 m4(1,2) a5 m6(4,5)", "m6"),
    "compacted twice, with a source left": ("a1 a2 m4(1,2) a5 a7 m6(4,5)", "m6 a7"),
    "compacted three times": ("a1 m2(1) m3(2) m4(3)", "m4"),
    "sources that are gone take the compacted block with them": ("a3 m4(1,2)", "a3"),
    "a later instant is left out": ("a1 a9999 a2", "a1 a2"),
    "a compacted block of a later instant is left out, its sources are not": ("a1 a2 m9999(1,2)", "a1 a2"),
    "a rolled-back log compaction": ("a1 a2 m4(1,2) R5(4)", "a1 a2"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("story", "expected"), STORIES.values(), ids=STORIES)
def test_which_blocks_count(story: str, expected: str):
    """Hudi's two passes over the blocks, as stories."""
    assert count(story) == expected


@pytest.mark.parametrize(
    ("story", "overtaken"),
    [
        ("a1 a2 m4(1,2) a5", None),
        ("a1 a2 a3 m4(1,2) a5", "3"),
        ("a1 a2 a3 m4(1,3) a5", "2"),
        ("a1 a2 m4(1,2) a5 a7 m6(4,5)", "7"),
        ("a1 a2 m4(1,2) a5 m6(4,5)", None),
        ("a1 a2 a3 m4(1,2) R5(3)", None),
        ("a1 a9999 a2 m4(1,2)", None),
        ("a3 m4(1,2)", None),
    ],
)
def test_an_output_that_overtook_a_write(story: str, overtaken: str | None):
    """What came between an output and its sources is read otherwise by releases that read all of them."""
    found = find_overtaken(story_blocks(story), NOW)
    assert found == overtaken
    if overtaken is not None:
        with pytest.raises(Unsupported, match="between an output of log compaction"):
            check_not_overtaken(LogScan((), 1, 1, (), 0, found))


@pytest.mark.parametrize(
    ("story", "lost"),
    [
        ("a1 a2 m4(1,2) a5", ""),
        ("a2 m4(1,2) a5", ""),
        pytest.param("m4(1,2) a5", "m4", id="alone"),
        pytest.param("m4(1,2) n4 a5", "m4", id="one name for its blocks"),
        pytest.param("m4(1,2) a5 m6(4,5)", "", id="the later output took it, and meets a log that it names"),
        pytest.param("m4(1,2) m6(4,5)", "m4 m6", id="outputs alone"),
        pytest.param("a2 m6(4,5) a7", "m6", id="what only the output before it named"),
        pytest.param("a2 m6(2,4,5) a7", "", id="an anchor of the output before it, by its name"),
        pytest.param("m4(01,02) a5", "", id="its logs lie in an older slice"),
        pytest.param("m9999(1,2) a5", "", id="of a later instant"),
    ],
)
def test_an_output_that_meets_none_of_its_logs_is_damage(story: str, lost: str):
    """Released Hudi reads the slice without its rows and does not say so; it may where its logs are in an older
    slice."""
    blocks = story_blocks(story)
    found = find_without_anchor(blocks, blocks_that_count(blocks, NOW), NOW, None, "05" if "(01" in story else "0")
    assert " ".join(block.file for block in found) == lost
    if found:
        with pytest.raises(DamagedFiles, match="is read by no reader"):
            check_sound(LogScan((), 1, 1, (), 0, without_anchor=found))


def superseded(story: str, unopened: str) -> str:
    """The same as `count`, where the blocks of these instants are not opened: `1 2 4(1,2)` with what 4 stands for."""
    skipped = {}
    for word in unopened.split():
        name, _, inner = word.partition("(")
        skipped[name] = SupersededLog(name, tuple(inner.rstrip(")").split(",")) if inner else ())
    met: list[LogBlock | SupersededLog] = []
    for each in story_blocks(story):
        found = skipped.get(each.headers[HeaderKey.INSTANT_TIME])
        if found is None or found not in met:
            met.append(found or each)
    return " ".join(found.file for found in blocks_that_count(met, NOW))


UNOPENED = {
    "once": ("a1 a2 m4(1,2) a3", "1 2"),
    "a log between that was written meanwhile": ("a1 a2 a3 m4(1,2)", "1 2"),
    "twice": ("a1 a2 m4(1,2) a5 m6(4,5) a7", "1 2 4(1,2) 5"),
    "twice, and the first output came after a log that the second took": (
        "a1 a2 a3 m4(1,2) m6(4,3) a7",
        "1 2 3 4(1,2)",
    ),
    "three times": ("a1 a2 m3(1,2) a4 m5(3,4) a6 m7(5,6) a8 a9", "1 2 3(1,2) 4 5(1,2,3,4) 6"),
    "several blocks of one": ("a1 b1 a2 m4(1,2) n4", "1 2"),
}


@pytest.mark.parametrize(("story", "unopened"), UNOPENED.values(), ids=UNOPENED)
def test_superseded_logs_need_not_be_opened(story: str, unopened: str):
    """Keeps 4 of read/logs/log_scan: what counts, and its order, is the same."""
    assert superseded(story, unopened) == count(story)


@pytest.mark.parametrize(
    ("story", "unopened"),
    [
        pytest.param("a1 a2 m4(1) a5", "1 2", id="the output does not name it"),
        pytest.param("a1 a2 a3", "2", id="there is no output"),
        pytest.param("a1 a2 m4(1,2) a5 m6(5)", "1 2 4(1,2) 5", id="the output in between is not named"),
    ],
)
def test_what_no_opened_output_names_is_opened(story: str, unopened: str):
    """A plan that says otherwise than the blocks is not believed."""
    with pytest.raises(NotSuperseded):
        superseded(story, unopened)


def test_a_plan_that_the_blocks_contradict_costs_a_second_scan_and_no_row(tmp_path: Path):
    """Everything is opened then, as a reader does."""
    logs = [data_block("0", [row("a", 1, "")]), data_block("1", [row("b", 1, "")])]
    believed = scan(tmp_path, *logs)
    names = [".f_0.log.1_0-0-0", ".f_1.log.1_0-0-0"]
    doubted = scan_slice_heads(LocalStorage(), str(tmp_path), names, instant=NOW, superseded={names[0]: ()})
    assert doubted == believed and doubted.log_files == 2


def scan(folder: Path, *files: bytes, suffix: str = "", instant: str = NOW) -> LogScan:
    names = []
    for number, data in enumerate(files):
        names.append(f".f_{number}.log.1_0-0-0{suffix}")
        (folder / names[-1]).write_bytes(data)
    return scan_slice_heads(LocalStorage(), str(folder), names, instant=instant)


def test_what_is_counted(tmp_path: Path):
    """Corrupt blocks are skipped and counted, rollbacks counted; the other blocks come out oldest first."""
    first = data_block("100", [row("a", 1, "")])
    second = data_block("101", [row("b", 1, "")])
    scanned = scan(
        tmp_path, first + second[:-9] + first, delete_block("102", [("a", None)]), rollback_block("103", "7")
    )

    assert [found.headers[HeaderKey.INSTANT_TIME] for found in scanned.blocks] == ["100", "100", "102"]
    assert (scanned.log_files, scanned.log_blocks, scanned.corrupt_blocks, scanned.rollback_blocks) == (3, 5, 1, 1)
    assert scanned.content_bytes == sum(found.content_length for found in scanned.blocks) > 0


def test_cdc_files_are_ignored(tmp_path: Path):
    """A `.cdc` log beside the slice holds changes, not rows."""
    scanned = scan(tmp_path, b"not a log", suffix=".cdc")
    assert (scanned.log_files, scanned.blocks) == (0, ())


def test_blocks_of_changes_are_passed_over(tmp_path: Path):
    """They say what happened to rows that other blocks hold."""
    changes = block(BlockType.CDC_DATA, {HeaderKey.INSTANT_TIME: "2", HeaderKey.SCHEMA: "{}"}, b"changes")
    scanned = scan(tmp_path, data_block("1", [row("a", 1, "")]) + changes + delete_block("3", [("b", 1)]), changes)

    assert [found.headers[HeaderKey.INSTANT_TIME] for found in scanned.blocks] == ["1", "3"]
    assert (scanned.log_files, scanned.log_blocks) == (2, 4)


REFUSED = {
    "newer delete block": (delete_block("1", [], version=4), "version 4"),
    "unknown command": (
        block(BlockType.COMMAND, {HeaderKey.INSTANT_TIME: "1", HeaderKey.COMMAND_BLOCK_TYPE: "1"}),
        "command",
    ),
}


@pytest.mark.parametrize(("data", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path: Path, data: bytes, why: str):
    """What we cannot merge is refused from its head, naming file and reason."""
    with pytest.raises(Unsupported, match=f"log.1_0-0-0.*{why}"):
        scan(tmp_path, data)


def test_a_block_says_whether_it_is_partial(tmp_path: Path):
    """IS_PARTIAL=false is an ordinary block."""
    data = data_block("1", [], IS_PARTIAL="false") + data_block("1", []) + data_block("1", [], IS_PARTIAL="true")
    assert [found.is_partial for found in scan(tmp_path, data).blocks] == [False, False, True]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: "{}"}), "INSTANT_TIME"),
        (block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "1"}), "SCHEMA"),
        (block(BlockType.COMMAND, {HeaderKey.COMMAND_BLOCK_TYPE: "0"}), "TARGET_INSTANT_TIME"),
        (block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "1"}, b"\0\0"), "shorter"),
    ],
    ids=["no instant", "no schema", "no target", "short delete block"],
)
def test_heads_that_lack_something_are_broken(tmp_path: Path, data: bytes, why: str):
    """A header that must be there and is not is an error, never a block left out."""
    with pytest.raises(BrokenFile, match=why):
        scan(tmp_path, data)


def test_a_missing_file_is_named(tmp_path: Path):
    """A log file of the slice that is not there stops the scan."""
    with pytest.raises(NotFound, match="gone"):
        scan_slice_heads(LocalStorage(), str(tmp_path), [".gone_1.log.1_0-0-0"], instant=NOW)


@pytest.mark.parametrize(
    ("mode", "block_type", "ordering", "refused"),
    [
        ("EVENT_TIME_ORDERING", BlockType.PARQUET_DATA, pa.string(), True),
        ("EVENT_TIME_ORDERING", BlockType.AVRO_DATA, pa.string(), False),
        ("EVENT_TIME_ORDERING", BlockType.PARQUET_DATA, pa.int64(), False),
        ("COMMIT_TIME_ORDERING", BlockType.PARQUET_DATA, pa.string(), False),
    ],
)
def test_parquet_blocks_ordered_by_a_string_are_refused(
    mode: str, block_type: BlockType, ordering: pa.DataType, refused: bool
) -> None:
    """Hudi 1.2.0 compares their rows wrongly, so merging them right would change its answers."""
    scan = LogScan((LogBlock(block_type, {}, 0, 0, "x.log", 0),), 1, 1, 0, 0)
    rules = MergeRules(MergeMode(mode), ("ts",))
    schema = pa.schema([("ts", ordering)])
    if refused:
        with pytest.raises(Unsupported, match=r"x\.log"):
            check_ordering(scan, rules, schema)
    else:
        check_ordering(scan, rules, schema)


def written_as(ts: object, v: object = "string") -> LogScan:
    """One block, whose writer had these types."""
    fields = [{"name": "id", "type": "string"}, {"name": "ts", "type": ts}, {"name": "v", "type": v}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    headers = {HeaderKey.INSTANT_TIME: "100", HeaderKey.SCHEMA: schema}
    return LogScan((LogBlock(BlockType.AVRO_DATA, headers, 0, 0, "x.log.1", 0),), 1, 1, 0, 0)


_OF_TEXT = {"type": "array", "items": "string"}
_OF_NUMBERS = {"type": "map", "values": "long"}


@pytest.mark.parametrize(("ts", "v"), [("long", "string"), ("int", "bytes"), ("int", _OF_TEXT), ("long", _OF_NUMBERS)])
def test_schemas_that_fit(ts: object, v: object):
    """The table's own types fit, and those that merging turns into them, also inside of others."""
    target = {"string": pa.string(), "bytes": pa.string()}.get(str(v))
    kinds = target or (pa.list_(pa.string()) if v is _OF_TEXT else pa.map_(pa.string(), pa.float64()))
    check_schemas(
        written_as(ts, v), pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", kinds), ("w", pa.int8())])
    )


@pytest.mark.parametrize(("ts", "v"), [("string", "string"), ("double", "string"), ("long", _OF_TEXT)])
def test_schemas_that_do_not_fit(ts: object, v: object):
    """A change of type that merging refuses is known before anything is planned."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
    with pytest.raises(Unsupported, match=r"x\.log\.1"):
        check_schemas(written_as(ts, v), schema)


def test_a_schema_that_is_none():
    """It is known, too, and no reason to think that the file was written by a newer release."""
    with pytest.raises(BrokenFile):
        block = LogBlock(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: "{"}, 0, 0, "x.log.1", 0)
        check_schemas(LogScan((block,), 1, 1, 0, 0), pa.schema([("id", pa.string())]))


@pytest.mark.parametrize(
    ("kind", "column", "key_fields", "why"),
    [
        (BlockType.HFILE_DATA, {"name": "key", "type": ["null", "string"]}, ("id",), "column key that is not"),
        (BlockType.HFILE_DATA, {"name": "key", "type": "string"}, ("key", "id"), "column key that is not"),
        (BlockType.HFILE_DATA, {"name": "key", "type": "string"}, ("key",), ""),
        (BlockType.HFILE_DATA, {"name": "key", "type": "long"}, ("id",), ""),
        (BlockType.HFILE_DATA, {"name": "Key", "type": "string"}, ("id",), ""),
        (BlockType.AVRO_DATA, {"name": "key", "type": "string"}, ("id",), ""),
        (BlockType.HFILE_DATA, {"name": "d", "type": "float"}, ("id",), "column d had another type"),
        (BlockType.HFILE_DATA, {"name": "d", "type": "double"}, ("id",), ""),
        (BlockType.HFILE_DATA, {"name": "gone", "type": "float"}, ("id",), ""),
        (BlockType.AVRO_DATA, {"name": "d", "type": "float"}, ("id",), ""),
    ],
)
def test_hfile_blocks_whose_rows_are_not_certain_are_refused(
    kind: BlockType, column: dict[str, object], key_fields: tuple[str, ...], why: str
) -> None:
    """Hudi keeps a text column `key` in them only where it is the record key, and promotes their values otherwise."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}, column]}
    block = LogBlock(kind, {HeaderKey.SCHEMA: json.dumps(schema)}, 0, 0, "x.log.1", 0)
    scan = LogScan((block,), 1, 1, 0, 0)
    now = pa.schema([("id", pa.string()), ("d", pa.float64()), ("added", pa.string())])
    if why:
        with pytest.raises(Unsupported, match=rf"x\.log\.1.*{why}"):
            check_hfile_blocks(scan, now, key_fields)
    else:
        check_hfile_blocks(scan, now, key_fields)


def test_logs_without_records():
    """There is nothing that a log could be made of."""
    check_holds_records(written_as("long"))
    with pytest.raises(Unsupported, match="no records"):
        check_holds_records(LogScan((), 2, 3, 0, 1))


@pytest.mark.parametrize(
    ("before", "after", "agrees"),
    [
        ("float", "float", True),
        ("float", "double", False),
        ("int", "double", True),
        ({"type": "array", "items": "float"}, {"type": "array", "items": "double"}, False),
        ({"type": "map", "values": "float"}, {"type": "map", "values": "double"}, False),
        (
            {"type": "record", "name": "s", "fields": [{"name": "x", "type": "float"}]},
            {"type": "record", "name": "s", "fields": [{"name": "x", "type": "double"}]},
            False,
        ),
    ],
)
def test_floats_that_became_doubles(before: object, after: object, agrees: bool) -> None:
    """Hudi 1.0 and older make other doubles of those in Avro blocks, at every level."""

    def schema(kind: object) -> str:
        return json.dumps({"type": "record", "name": "t", "fields": [{"name": "f", "type": ["null", kind]}]})

    of_block = LogBlock(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: schema(before)}, 0, 0, "x.log", 0)
    scan, of_table = LogScan((of_block,), 1, 1, (), 0), block_schema(schema(after), where="x")
    if agrees:
        check_floats(scan, of_table)
    else:
        with pytest.raises(Unsupported, match="column f, which are doubles now"):
            check_floats(scan, of_table)
