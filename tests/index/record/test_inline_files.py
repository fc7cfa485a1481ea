"""RFC-08's other form: bucket files inline in logs of Hudi's format, which a manifest names by stretches of them.

A seed is one history; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.log_writer import block_head
from lakeward.index.manifest_form import manifest_path
from lakeward.index.record.index_growth import Scaling, ScalingWay
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile
from lakeward.index.record.record_manifest import RECORD_FORM, open_manifest
from tests.protocol.index.test_record_index_writer import STORAGE, Histories
from tests.runs import runs


def put_into_logs(folder: Path) -> int:
    """Each file group of the index becomes a log with a block for each of its files, and the next manifest names the
    contents of these blocks. Returns how many there are."""
    at, manifest = open_manifest(STORAGE, str(folder))
    by_group: dict[IndexGroup, list[RecordFile]] = {}
    for file in manifest.files:
        by_group.setdefault(file.of, []).append(file)
    named: list[RecordFile] = []
    for of, files in by_group.items():
        path = f"data/.{of.group}-{of.bucket}-{of.link}_{manifest.number}.log.1_0-0-0"
        log = b""
        for file in files:
            content = (folder / file.path).read_bytes()[file.offset : file.offset + file.size]
            head = block_head(BlockType.HFILE_DATA, {HeaderKey.INSTANT_TIME: file.instant}, len(content))
            log += head + content + struct.pack(">iq", 0, len(head) + len(content) + 4)
        (folder / path).write_bytes(log)
        with (folder / path).open("rb") as opened:
            blocks = list(scan_blocks(opened, len(log), name=path))
        for file, block in zip(files, blocks, strict=True):
            assert isinstance(block, LogBlock) and block.type is BlockType.HFILE_DATA
            assert block.headers[HeaderKey.INSTANT_TIME] == file.instant and block.content_length == file.size
            stretch = (path, file.size, file.entries, file.tombstones, file.instant, file.completed, file.instants)
            named.append(RecordFile(of, file.kind, *stretch, block.content_offset))
    number = manifest.number + 1
    content = RECORD_FORM.encode(replace(manifest, number=number, files=tuple(named), by="logs"))
    STORAGE.create(manifest_path(at, number), content)
    for file in manifest.files:
        (folder / file.path).unlink(missing_ok=True)
    return len(named)


@pytest.mark.slow
@pytest.mark.parametrize("way", list(ScalingWay))
@pytest.mark.parametrize("seed", range(runs(3)))
def test_any_history(tmp_path: Path, seed: int, way: ScalingWay) -> None:
    """Files of an index that become stretches of logs, at any moment, answer as they did; and so do the merges that
    are made of some of them, and what is written beside them."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    history = Histories(chance, chance.random() < 0.6, tmp_path / "record", Scaling(way, entries_max=6))
    put = 0
    acts = [history.follow] * 5 + [history.begin, history.end] * 2 + [history.tidy] * 2 + [history.restore]
    for _ in range(25):
        chance.choice(acts)()
        if chance.random() < 0.3:
            put += put_into_logs(history.folder)
            history.shown.append("its files are put into logs")
        history.check()
    files = history.index.open().manifest.files
    assert put and {file.kind for file in files} > {FileKind.DELTA}
