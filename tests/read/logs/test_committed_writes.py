"""Which blocks count in a table of version 6, by histories made by hand; `test_log_scan` has what both kinds share."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.read.logs.committed_writes import CommittedWrites, committed_writes
from lakeward.read.logs.log_scan import blocks_that_count, scan_slice_heads
from lakeward.storage.local import LocalStorage
from lakeward.table.table_version import TableVersion
from tests.read.log_files import data_block, delete_block, rollback_block, row
from tests.read.logs.test_log_scan import NOW, story_blocks
from tests.runs import runs
from tests.table.timeline.test_timeline import timeline

HISTORIES = {
    # story, completed, pending, what counts
    "all completed": ("a1 a2 a3", "1 2 3", "", "a1 a2 a3"),
    "a write under way": ("a1 a2 a3", "1 3", "2", "a1 a3"),
    "a write that nobody knows of": ("a1 a2 a3", "1 3", "", "a1 a3"),
    "a write older than the timeline": ("a1 a2 a3", "2 3", "", "a1 a2 a3"),
    "a write under way, older than all that are completed": ("a1 a2", "2", "1", "a2"),
    "nothing is completed": ("a1 a2", "", "", ""),
    "the command of a write that was rolled back": ("a1 a2 a3 R4(2)", "1 3", "", "a1 a3"),
    "a command whose own rollback is not complete": ("a1 a2 R4(2)", "1 2", "4", "a1"),
    "written again by the same instant, behind its command": ("a1 a2 R3(2) b2", "1 2", "", "a1 b2"),
    "written again twice": ("a1 R3(1) b1 R4(1) c1", "1", "", "c1"),
    "a command takes back what lies far before it": ("a1 b2 a3 b1 R4(1) a5", "1 2 3 5", "", "b2 a3 a5"),
    "two commands for one target": ("a1 a2 R3(2) R4(2)", "1 2", "", "a1"),
    "a log compaction under way": ("a1 a2 m4(1,2) a5", "1 2 5", "4", "a1 a2 a5"),
    "a log compaction that completed": ("a1 a2 m4(1,2) a5", "1 2 4 5", "", "m4 a5"),
}


@pytest.mark.parametrize(("story", "completed", "pending", "expected"), HISTORIES.values(), ids=HISTORIES)
def test_each_block_is_asked_for_its_write(story: str, completed: str, pending: str, expected: str) -> None:
    """Keeps of read/logs/committed_writes: blocks of writes that completed count, and of those before the timeline."""
    done = frozenset(completed.split())
    writes = CommittedWrites(done, frozenset(pending.split()), min(done, default=None))

    assert " ".join(block.file for block in blocks_that_count(story_blocks(story), NOW, writes)) == expected


def test_from_version_8_on_files_are_judged_and_not_blocks() -> None:
    """The file-system view has left out what did not complete, so that a block need not be on the timeline."""
    now = timeline("1_3.deltacommit", "2.deltacommit.inflight")

    assert committed_writes(now, TableVersion(8)) is None
    assert [block.file for block in blocks_that_count(story_blocks("a1 a2"), NOW, None)] == ["a1", "a2"]


def test_what_a_timeline_says_of_writes() -> None:
    """Rollbacks, cleans and savepoints are none; a compaction that is planned does not count, one that is done does."""
    A, B, C, D, E, F = (f"2026010100000{n}000" for n in range(6))
    now = timeline(
        f"{A}.rollback", f"{B}.deltacommit", f"{B}.savepoint", f"{C}.compaction.requested", f"{C}.compaction.inflight",
        f"{D}.deltacommit.requested", f"{D}.deltacommit.inflight", f"{E}.compaction.requested", f"{E}.commit",
        f"{F}.clean", layout=1,
    )  # fmt: skip

    writes = committed_writes(now, TableVersion(6))

    assert writes == CommittedWrites(frozenset({B, E}), frozenset({C, D}), B)
    assert writes is not None
    assert [instant in writes for instant in (A, B, C, D, E, F, "2027")] == [True, True, False, False, True] + [
        False
    ] * 2


def test_of_files(tmp_path: Path) -> None:
    """Blocks of several writes in one log, and commands in the next, as version 6 has them."""
    names = [".f_100.log.1_0-0-0", ".f_100.log.2_0-0-0"]
    first = (
        data_block("101", [row("a", 1, "")]) + data_block("102", [row("b", 1, "")]) + delete_block("103", [("a", 1)])
    )
    (tmp_path / names[0]).write_bytes(first)
    (tmp_path / names[1]).write_bytes(rollback_block("105", "102") + data_block("104", [row("c", 1, "")]))

    def instants(*completed: str) -> list[str]:
        writes = CommittedWrites(frozenset(completed), frozenset(), min(completed))
        found = scan_slice_heads(LocalStorage(), str(tmp_path), names, instant=NOW, committed=writes)
        return [block.headers[HeaderKey.INSTANT_TIME] for block in found.blocks]

    assert instants("101", "102", "103", "104") == ["101", "103", "104"]
    assert instants("101", "104") == ["101", "104"]


def slow_twin(blocks: list[LogBlock], instant: str, writes: CommittedWrites | None) -> list[LogBlock]:
    """Which blocks count, as statements about each of them, and no state."""

    def of(block: LogBlock, key: HeaderKey = HeaderKey.INSTANT_TIME) -> str:
        return block.headers.get(key, "")

    def is_alive(place: int) -> bool:
        block = blocks[place]
        if block.type in (BlockType.COMMAND, BlockType.CDC_DATA):
            return False
        commands = [later for later in blocks[place:] if later.type is BlockType.COMMAND]
        taken_back = any(of(command, HeaderKey.TARGET_INSTANT_TIME) == of(block) for command in commands)
        return of(block) <= instant and (writes is None or of(block) in writes) and not taken_back

    alive = [block for place, block in enumerate(blocks) if is_alive(place)]
    order = list(dict.fromkeys(of(block) for block in alive))
    firsts = {name: next(block for block in alive if of(block) == name) for name in order}
    sources = {name: of(block, HeaderKey.COMPACTED_BLOCK_TIMES) for name, block in firsts.items()}

    def stands_for(name: str) -> str:
        """The output that is read in its place: the next one that names it, or what is read in place of that."""
        later = [other for other in order[order.index(name) + 1 :] if name in sources[other].split(",")]
        return stands_for(later[0]) if later else name

    read = [stands_for(name) for name in order if not sources[name]]
    last = {name: place for place, name in enumerate(read)}
    return [block for name in sorted(last, key=last.__getitem__) for block in alive if of(block) == name]


def test_random_histories() -> None:
    """Blocks, commands, log compactions and changes in any order, on any timeline, as the slow twin has them."""
    for seed in range(runs(300)):
        blocks, instant, writes = random_history(random.Random(seed))
        assert blocks_that_count(blocks, instant, writes) == slow_twin(blocks, instant, writes), f"seed {seed}"


def random_history(chance: random.Random) -> tuple[list[LogBlock], str, CommittedWrites | None]:
    known = [str(instant) for instant in range(1, 8)]
    blocks = []
    for number in range(chance.randrange(1, 14)):
        headers = {HeaderKey.INSTANT_TIME: chance.choice(known)}
        kind = chance.choices((BlockType.AVRO_DATA, BlockType.COMMAND, BlockType.CDC_DATA), (8, 2, 1))[0]
        if kind is BlockType.COMMAND:
            headers[HeaderKey.TARGET_INSTANT_TIME] = chance.choice(known)
        elif chance.random() < 0.3:
            sources = set(chance.sample(known, 3)) - {headers[HeaderKey.INSTANT_TIME]}
            headers[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(sorted(sources))
        blocks.append(LogBlock(kind, headers, 0, 0, f"{number}", 0))
    completed = frozenset(chance.sample(known, chance.randrange(8)))
    pending = frozenset(chance.sample(known, chance.randrange(3))) - completed
    writes = chance.choice([None, CommittedWrites(completed, pending, min(completed, default=None))])
    return blocks, chance.choice([*known, NOW]), writes
