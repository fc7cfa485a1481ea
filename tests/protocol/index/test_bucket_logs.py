"""Deltas of a record index that are appended to logs of their buckets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, IndexMoved
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, scan_blocks
from lakeward.index.manifest_form import manifest_path
from lakeward.index.record.merge_choice import MergeOptions
from lakeward.index.record.record_file import RecordFile
from lakeward.index.record.record_index import RecordIndex
from lakeward.index.record.record_options import LookupMode, LookupOptions
from lakeward.protocol.index import bucket_logs
from lakeward.protocol.index.bucket_logs import are_small, logs_to_append
from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.storage import AppendingStorage, Storage
from lakeward.table.timeline.timeline import Timeline
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.index.test_writable_index import changes, found
from tests.synthetic_table import completed as instant_completed
from tests.synthetic_table import minute

STORAGE = LocalStorage()


def index_in(folder: Path, storage: Storage = STORAGE) -> ReopenedRecordIndex:
    if not folder.exists():
        new_record_index(folder, buckets=1)
    times = dict.fromkeys
    return ReopenedRecordIndex(
        folder, lambda of: {each: each for each in times(of)}, storage=storage, merges=MergeOptions(logs_max=3)
    )


def put(index: ReopenedRecordIndex, number: int) -> None:
    index.update(minute(number), changes([(f"k{number}", "p", f"p-{number}")]), completed=minute(number))


def stretches(index: ReopenedRecordIndex) -> list[RecordFile]:
    return sorted(index.open().manifest.files, key=lambda file: file.offset)


def keys_of(index: ReopenedRecordIndex) -> list[str]:
    return [row[0] for row in found(index, *(f"k{number}" for number in range(10)))]


def test_small_deltas_are_blocks_of_one_log(tmp_path: Path) -> None:
    """Each delta is a block of Hudi's log format with the commit's instant, whose content the manifest names. Keeps 3
    of protocol/index/bucket_logs."""
    index = index_in(tmp_path / "i")
    for number in range(1, 4):
        put(index, number)
    named = stretches(index)
    (log,) = (tmp_path / "i" / "data").iterdir()
    with log.open("rb") as opened:
        blocks = list(scan_blocks(opened, log.stat().st_size, name=log.name))
    assert [file.path for file in named] == [f"data/{log.name}"] * 3
    for file, block in zip(named, blocks, strict=True):
        assert isinstance(block, LogBlock) and block.type is BlockType.HFILE_DATA
        assert block.headers[HeaderKey.INSTANT_TIME] == file.instant
        assert (block.content_offset, block.content_length) == (file.offset, file.size)
    assert keys_of(index) == ["k1", "k2", "k3"]


def test_merged_deltas_let_their_log_go(tmp_path: Path) -> None:
    """A merge makes a file of the deltas; the next commit begins another log."""
    index = index_in(tmp_path / "i")
    for number in range(1, 4):
        put(index, number)
    (first,) = {file.path for file in stretches(index)}
    timeline = Timeline(
        tuple(one for each in range(1, 4) for one in instant_completed(minute(each), "deltacommit", minute(each)))
    )
    index.tidy(timeline, through=minute(3))
    assert not any(file.is_in_log for file in stretches(index))
    put(index, 4)
    assert {file.path for file in stretches(index) if file.is_in_log} != {first}
    assert keys_of(index) == ["k1", "k2", "k3", "k4"]


def test_what_a_dead_process_appended_is_cut(tmp_path: Path) -> None:
    """Bytes behind the end that the manifest names are not read, and the next append takes their place."""
    index = index_in(tmp_path / "i")
    put(index, 1)
    (file,) = stretches(index)
    log = tmp_path / "i" / file.path
    whole = log.stat().st_size
    with log.open("ab") as opened:
        opened.write(b"a block that nothing names" * 1000)
    assert keys_of(index) == ["k1"]
    put(index, 2)
    assert stretches(index)[1].offset < whole + 200
    assert log.stat().st_size < whole + 10_000
    assert keys_of(index) == ["k1", "k2"]


def test_what_an_older_manifest_names_is_not_cut(tmp_path: Path) -> None:
    """A commit that was rolled back is read still by a lookup that began before. Keeps 1 of
    protocol/index/bucket_logs."""
    index = index_in(tmp_path / "i")
    put(index, 1)
    put(index, 2)
    held = index.open()
    index.rollback(minute(2))
    put(index, 3)
    assert [row[0] for row in found(held, "k1", "k2", "k3")] == ["k1", "k2"]
    assert keys_of(index) == ["k1", "k3"]


def test_a_block_in_the_place_of_another_one(tmp_path: Path) -> None:
    """Once no manifest names what was rolled back, its place is taken; what was decoded of it counts no more."""
    index = index_in(tmp_path / "i")
    put(index, 1)
    put(index, 2)
    seeks, cached = LookupOptions(LookupMode.SEEK), index.open()
    before = RecordIndex(cached.folder, cached.manifest, cached.counted, options=seeks)
    assert [row[0] for row in found(before, "k1", "k2", "k3")] == ["k1", "k2"]
    index.rollback(minute(2))
    for number in range(3):
        Path(manifest_path(cached.folder, number)).unlink()
    put(index, 3)
    newest = index.open()
    assert stretches(index)[1].offset == max(file.offset for file in cached.manifest.files)
    after = before.at(newest.manifest, newest.counted)
    assert [row[0] for row in found(after, "k1", "k2", "k3")] == ["k1", "k3"]


def test_a_log_that_is_cut_short(tmp_path: Path) -> None:
    """Nothing is appended to a log that lacks bytes which the manifest names."""
    index = index_in(tmp_path / "i")
    put(index, 1)
    put(index, 2)
    log = tmp_path / "i" / stretches(index)[0].path
    with log.open("r+b") as opened:
        opened.truncate(log.stat().st_size - 1)
    with pytest.raises(BrokenFile, match="cut short"):
        put(index, 3)
    assert len(stretches(index)) == 2


def test_two_processes(tmp_path: Path) -> None:
    """While one process has the lock, another one writes files; what it opened before is no reason to fail."""
    index = index_in(tmp_path / "i")
    put(index, 1)
    opened_before = index.writer()
    put(index, 2)
    opened_before.update(minute(5), changes([("k5", "p", "p-5")]), completed=None)
    assert [file.is_in_log for file in stretches(index)] == [True] * 3
    with STORAGE.try_lock(str(tmp_path / "i" / "append.lock")) as is_held:
        assert is_held
        put(index, 6)
    assert sorted(file.is_in_log for file in stretches(index)) == [False, True, True, True]
    put(index, 7)
    assert keys_of(index) == ["k1", "k2", "k5", "k6", "k7"]


def test_a_block_is_named_once(tmp_path: Path) -> None:
    """What was appended is not published where a manifest names these bytes already, or the log no more. Keeps 2
    of protocol/index/bucket_logs."""
    index = index_in(tmp_path / "i")
    put(index, 1)
    folder = str(tmp_path / "i")
    with logs_to_append(STORAGE, folder) as logs:
        assert logs is not None
        (first,) = stretches(index)
        path, offset = logs.append(first.of, minute(9), b"content")
        appended = replace(first, path=path, offset=offset, size=7, instant=minute(9))
        newest = index.open().manifest
        logs.check(newest, [appended])
        for other in (replace(newest, files=(*newest.files, appended)), replace(newest, files=())):
            with pytest.raises(IndexMoved, match="merged the deltas of the log"):
                logs.check(other, [appended])


def test_which_deltas_are_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, where files grow: an object store has files alone, and a full log gets no block."""
    assert are_small(30_000, 1) and not are_small(30_001, 1) and not are_small(0, 5)
    assert are_small(1_000_000, 100) and not are_small(1_000_001, 100)
    assert not issubclass(ObjectStore, AppendingStorage) and isinstance(STORAGE, AppendingStorage)
    elsewhere = index_in(tmp_path / "files", MeteredStorage(STORAGE))
    put(elsewhere, 1)
    assert not any(file.is_in_log for file in stretches(elsewhere))
    monkeypatch.setattr(bucket_logs, "LOG_BYTES_MAX", 1)
    index = index_in(tmp_path / "i")
    put(index, 1)
    put(index, 2)
    assert len({file.path for file in stretches(index)}) == 2
