"""Faults that Hudi's readers of logs had, each planted as a naive reader: what holds of Lakeward must not hold of it.

    416     an issue: magic bytes inside of a torn block were taken for the beginning of the next one
    8523    a pull request (HUDI-6114): a rollback command took back the block just before it, and no other
    7729    a pull request (HUDI-6356): what an instant wrote again after its rollback was left out, too
    12033   a pull request (HUDI-8248): a rollback command newer than the query's instant was left out
    10803   an issue: of the blocks of one instant those of one task attempt were kept, by their number, and those that
            were committed went
    8132    an issue: a new base file had half of the rows of the old one; no cause was found, so here is one

Elsewhere: 4863 and 14365 in `tests/life/test_known_bugs.py`; 7969 (a plan did not name a log) in
`tests/table/test_file_system_view.py`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, LakewardError
from lakeward.format.log import block as log_block
from lakeward.format.log.block import MAGIC, BlockType, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.parquet.base_file import open_base_file
from lakeward.read import file_slice
from lakeward.read.logs import log_run, log_scan
from lakeward.read.logs.log_scan import scan_slice_heads
from lakeward.storage.local import LocalStorage
from tests.read.log_files import BLOCK_SCHEMA, data_block, delete_block, rollback_block, row
from tests.read.logs.test_log_run import make
from tests.read.slice_queries import lay_out, read

Plant = Callable[[pytest.MonkeyPatch], None]
Scan = Callable[..., list[LogBlock]]


def instants(folder: Path, *files: bytes, at: str = "999") -> list[str]:
    """Whose blocks count, oldest first. The files are those of task attempts of one log version after the other."""
    names = []
    for number, data in enumerate(files):
        names.append(f".f_0.log.{number + 1}_0-0-{number}")
        (folder / names[-1]).write_bytes(data)
    scan = scan_slice_heads(LocalStorage(), str(folder), names, instant=at)
    return [block.headers[HeaderKey.INSTANT_TIME] for block in scan.blocks]


def put(instant: str, **more: str) -> bytes:
    return data_block(instant, [row("a", 1, "")], **more)


# The histories


def magic_in_torn_blocks(_: Path) -> None:
    """Magic bytes are text of rows like any other, in whole blocks and in torn ones, with a size behind them or not."""
    texts = ["#HUDI#", "#HUDI#" + "\0" * 7 + "\x30" + "x" * 60, "##HUDI#HUDI##"]
    whole = data_block("1", [row("a", 1, text) for text in texts])
    torn = data_block("2", [row("b", 1, text) for text in texts])
    for cut in range(7, len(torn), 3):
        if torn[:cut].endswith(MAGIC[:-1]):
            continue  # the next block's first byte makes it whole, and then Hudi misses that block, too
        log = whole + torn[:cut] + whole
        found = list(scan_blocks(io.BytesIO(log), len(log), name="x.log"))
        blocks = [block for block in found if isinstance(block, LogBlock)]
        assert [block.headers[HeaderKey.INSTANT_TIME] for block in blocks] == ["1", "1"]
        assert [block.offset for block in blocks] == [0, len(whole) + cut]


def rollback_of_a_block_further_back(folder: Path) -> None:
    assert instants(folder, put("1"), put("2"), put("3"), rollback_block("4", "1")) == ["2", "3"]


def written_again_after_a_rollback(folder: Path) -> None:
    assert instants(folder, put("1"), put("2"), rollback_block("3", "2"), put("2")) == ["1", "2"]


def rollback_newer_than_the_query(folder: Path) -> None:
    assert instants(folder, put("1"), put("2"), rollback_block("6", "2"), put("5"), at="5") == ["1", "5"]


def attempts_of_one_task(folder: Path) -> None:
    """The files of attempts that did not commit are not among a slice's; those that are count, whole."""
    committed = put("2", BLOCK_IDENTIFIER="0,0") + put("2", BLOCK_IDENTIFIER="0,1")
    rolled_over = put("2", BLOCK_IDENTIFIER="0,2")
    assert instants(folder, put("1"), committed, rolled_over, delete_block("3", [("b", 1)])) == [
        "1",
        "2",
        "2",
        "2",
        "3",
    ]


def schemas_of_blocks(folder: Path) -> None:
    """Each block is read by its own header's schema, in another order, with another type or without a column."""
    fields: list[dict[str, Any]] = BLOCK_SCHEMA["fields"]
    meta, (id_, ts, v) = fields[:5], fields[5:]
    older = {**BLOCK_SCHEMA, "fields": [{**ts, "type": ["null", "int"]}, *meta, id_]}
    logs = [
        data_block("100", [row("a", 1, "first"), row("b", 1, "second")]),
        data_block("200", [row("b", 2, "")], schema_json=older),
        data_block("300", [row("c", 3, "third")], schema_json={**BLOCK_SCHEMA, "fields": [v, ts, *meta, id_]}),
    ]
    with closing(make(folder, *logs)) as run:
        run.read()
        parts = [part for part in run.folded() if isinstance(part, pa.RecordBatch)]
        rows = [found for part in parts for found in part.to_pylist()]
    assert {(found["id"], found["ts"], found["v"]) for found in rows} == {
        ("a", 1, "first"),
        ("b", 2, None),
        ("c", 3, "third"),
    }


def rows_of_each_row_group(folder: Path) -> None:
    base = [row(key, 1, "base") for key in "abcdef"]
    rows, _ = read(lay_out(folder, base, [data_block("200", [row("b", 2, "log")])], group_rows=2))
    assert [(found["id"], found["v"]) for found in rows] == [(key, "log" if key == "b" else "base") for key in "abcdef"]


# The naive readers


def believe_sizes(patch: pytest.MonkeyPatch) -> None:
    """A block is as long as it says, if the file is."""

    def find(file: BinaryIO, position: int, size: int, name: str) -> int | None:
        if size - position < 14:
            return None
        frame = int.from_bytes(log_block._read_at(file, position + 6, 8, name), "big", signed=True)
        return frame if 0 < frame <= size - position - 14 else None

    patch.setattr(log_block, "_find_frame", find)


def end_at_magic(patch: pytest.MonkeyPatch) -> None:
    """A block ends where the next magic is."""

    def find(file: BinaryIO, position: int, size: int, name: str) -> int | None:
        return log_block._find_magic(file, position + 6, size, name) - position - 14

    patch.setattr(log_block, "_find_frame", find)


def before_the_scan(patch: pytest.MonkeyPatch, *, change: Callable[[list[LogBlock], str], Iterable[LogBlock]]) -> None:
    scan: Scan = log_scan.blocks_that_count

    def naive(blocks: Iterable[LogBlock], instant: str, *more: Any) -> list[LogBlock]:
        return scan(change(list(blocks), instant), instant, *more)

    patch.setattr(log_scan, "blocks_that_count", naive)


def target_of(block: LogBlock) -> str | None:
    return block.headers[HeaderKey.TARGET_INSTANT_TIME] if block.type is BlockType.COMMAND else None


def instant_of(block: LogBlock) -> str:
    return block.headers[HeaderKey.INSTANT_TIME]


def the_last_block_alone(blocks: list[LogBlock], _: str) -> Iterable[LogBlock]:
    for before, block in zip([None, *blocks], blocks, strict=False):
        if target_of(block) is None or (before is not None and instant_of(before) == target_of(block)):
            yield block


def wherever_they_are(blocks: list[LogBlock], _: str) -> Iterable[LogBlock]:
    targets = {target_of(block) for block in blocks}
    return (block for block in blocks if instant_of(block) not in targets)


def commands_up_to_the_query(blocks: list[LogBlock], instant: str) -> Iterable[LogBlock]:
    return (block for block in blocks if target_of(block) is None or instant_of(block) <= instant)


def one_attempt_of_each(blocks: list[LogBlock], _: str) -> Iterable[LogBlock]:
    counts = Counter((instant_of(block), block.file) for block in blocks)
    most = {instant: max(n for (of, _), n in counts.items() if of == instant) for instant, _ in counts}
    return (block for block in blocks if counts[instant_of(block), block.file] == most[instant_of(block)])


def by_the_first_schema(patch: pytest.MonkeyPatch) -> None:
    first: dict[HeaderKey, str] = {}

    def naive(file: BinaryIO, block: LogBlock, **options: Any) -> Any:
        first.setdefault(HeaderKey.SCHEMA, block.headers[HeaderKey.SCHEMA])
        return read_data_block(file, replace(block, headers={**block.headers, **first}), **options)

    patch.setattr(log_run, "read_data_block", naive)


def as_far_as_it_can_be_read(patch: pytest.MonkeyPatch) -> None:
    """What does not come is not there, and what came is written down for all there is."""

    def all_but_the_last(*given: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        return islice(open_base_file(*given, **options), 2)

    patch.setattr(file_slice, "open_base_file", all_but_the_last)


def scanning(change: Callable[[list[LogBlock], str], Iterable[LogBlock]]) -> Plant:
    return partial(before_the_scan, change=change)


BUGS: dict[str, tuple[Callable[[Path], None], Plant]] = {
    "416": (magic_in_torn_blocks, believe_sizes),
    "416 in whole blocks": (magic_in_torn_blocks, end_at_magic),
    "8523": (rollback_of_a_block_further_back, scanning(the_last_block_alone)),
    "7729": (written_again_after_a_rollback, scanning(wherever_they_are)),
    "12033": (rollback_newer_than_the_query, scanning(commands_up_to_the_query)),
    "10803": (attempts_of_one_task, scanning(one_attempt_of_each)),
    "8132": (rows_of_each_row_group, as_far_as_it_can_be_read),
    "one schema for all": (schemas_of_blocks, by_the_first_schema),
}


@pytest.mark.parametrize(("holds", "naive"), BUGS.values(), ids=BUGS)
def test_a_naive_reader_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: Callable[[Path], None], naive: Plant
) -> None:
    """What holds of our reader does not hold of one that has the fault."""
    holds(tmp_path)

    naive(monkeypatch)
    with pytest.raises((AssertionError, LakewardError)):
        holds(tmp_path)


def test_a_base_file_that_ends_early_is_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8132 again: the merge's counts are of the rows that it was given, so they are held against the footer's. Keeps 2
    of read/file_slice."""
    as_far_as_it_can_be_read(monkeypatch)
    with pytest.raises(BrokenFile, match="4 rows were read, its footer says 6"):
        rows_of_each_row_group(tmp_path)
