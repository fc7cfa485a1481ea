"""The cache of filters is filled and kept up to date."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from lakeward.base.errors import BrokenFile, IndexMoved, LakewardError, Refused
from lakeward.index.bloom.cache_manifest import CACHE_FORM, cache_folder
from lakeward.index.bloom.cache_merge import SMALL_MAX
from lakeward.index.bloom.data_files import DataFile, data_files
from lakeward.index.bloom.file_keys import FileKeys, KeyRange, read_file_keys
from lakeward.index.bloom.filter_cache import FilterCache, usable_cache
from lakeward.index.index_type import IndexType
from lakeward.index.manifest_form import manifest_path
from lakeward.protocol.index.filter_cache_writer import FilterCacheWriter, create_filter_cache, drop_filter_cache
from lakeward.protocol.index_out_of_use import take_out_of_use
from lakeward.services.indexing.run.filter_cache_update import (
    build_filter_cache,
    rebuild_filter_cache,
    update_filter_cache,
)
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.write.request import FileSizes
from tests.clocks import SkippingClock
from tests.faults import FaultKind, FaultyStorage, Killed, faults_of
from tests.golden_tables import copy_golden
from tests.index.bloom.caches import STORAGE, cache_files, quiet, rebuilt, spoil_cache, updated
from tests.runs import runs, spread
from tests.write.writing import new_table, write


def scan(path: Path) -> TableSnapshot:
    return take_snapshot(STORAGE, str(path), clock=SkippingClock())


def insert(table: Path, *keys: str, part: str = "p") -> None:
    write(table, [(key, 1, part, "x") for key in keys], "insert", sizes=FileSizes(small_file=0))


def live(snapshot: TableSnapshot, *, with_logs: bool = False) -> list[DataFile]:
    return data_files(snapshot, with_logs=with_logs)


def notes(keys: FileKeys) -> tuple[KeyRange | None, str | None, bytes]:
    filter_ = keys.filter
    return keys.range, None if filter_ is None else filter_.type_code, b"" if filter_ is None else bytes(filter_.data)


def check_whole(snapshot: TableSnapshot, *, may_be_broken: bool = False) -> FilterCache:
    """The cache has each live file as its footer, or its log, is; a filter that was spoilt is no answer."""
    cache = FilterCache.of(STORAGE, cache_folder(snapshot.base_path))
    assert cache is not None and not cache.broken
    files = live(snapshot, with_logs=cache.manifest.with_logs)
    held = [row for row in rows_of(cache, files) if row is not None]
    assert len(held) == len(files)
    for file, keys in zip(files, cache.keys_of(held), strict=True):
        try:
            found = notes(keys.read(STORAGE))
        except BrokenFile:
            assert may_be_broken
        else:
            assert found == notes(read_file_keys(STORAGE, snapshot, file))
    return cache


def rows_of(cache: FilterCache, files: list[DataFile]) -> list[int | None]:
    return cache.rows_of([file.path for file in files], [file.size for file in files])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE")
    insert(table, "a", "b")
    insert(table, "c", "\U00010000\uffff", part="q")
    return table


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(runs(4)))
@pytest.mark.parametrize("with_logs", [False, True])
def test_any_life_of_a_table(tmp_path: Path, seed: int, with_logs: bool) -> None:
    """Keeps 1 and 2 of services/indexing/run/filter_cache_update, Keeps 2 of protocol/index/filter_cache_writer:
    whatever comes, is replaced and broken between updates, the cache then has each live file as its footer is, in files
    as large as asked for."""
    print(f"seed {seed}")
    chance = Random(seed)
    size = chance.choice([1, 300, 10**6])
    table = new_table(tmp_path / "table", table_type="MERGE_ON_READ" if with_logs else "COPY_ON_WRITE")
    insert(table, "a", "b")
    rebuilt(scan(table), with_logs=with_logs, file_bytes=size)
    spoilt = False
    for _ in range(8):
        if chance.random() < 0.6:
            insert(table, *chance.sample("abcdefgh", 3), part=chance.choice("pq"))
        else:
            write(table, [(key, 5, "p", "y") for key in chance.sample("abcdefgh", 2)])
        if chance.random() < 0.4:
            spoil_cache(table, chance)
            spoilt = True
        snapshot = scan(table)
        try:
            updated(snapshot, file_bytes=size)
        except Refused:
            assert spoilt, "its only manifest was lost"
            rebuilt(snapshot, with_logs=with_logs, file_bytes=size)
        cache = check_whole(snapshot, may_be_broken=spoilt)
        assert cache.manifest.with_logs == with_logs or spoilt, "its manifest was broken"
        if size == 1:
            assert all(file.entries == 1 for file in cache.manifest.files)
        if chance.random() < 0.3:
            rebuilt(snapshot, with_logs=with_logs if spoilt else None, file_bytes=size)
            assert check_whole(snapshot).manifest.with_logs == with_logs
            spoilt = False


def test_what_an_update_reads(table: Path) -> None:
    """It reads the footers of files that came, and writes nothing where there is nothing new; of files in which half is
    gone the rest is taken over, without a footer; once there are many small ones they become one."""
    snapshot = scan(table)
    assert rebuilt(snapshot).read == len(live(snapshot)) == 2
    before = cache_files(table)
    change = updated(snapshot)
    assert (change.covered, change.read, change.gone, change.notes) == (2, 0, 0, ())
    assert cache_files(table) == before
    with pytest.raises(Refused, match="has a cache of filters already"):
        build_filter_cache(STORAGE, snapshot, with_logs=False, on_file=quiet)

    write(table, [("a", 9, "p", "y")])
    snapshot = scan(table)
    change = updated(snapshot)
    assert (change.covered, change.read, change.gone, change.files) == (2, 1, 1, 1)
    check_whole(snapshot)

    for number in range(SMALL_MAX):
        insert(table, f"new {number}")
        change = updated(scan(table))
        assert (change.read, change.files) == (1, number + 2)
    insert(table, "last")
    snapshot = scan(table)
    change = updated(snapshot)
    assert (change.read, change.files, change.covered) == (1, 1, len(live(snapshot)))
    check_whole(snapshot)


def test_what_is_broken_is_shown_and_read_again(table: Path) -> None:
    """The entries of a file, a filter that is to be taken over, a file that is lost, the manifest; and a base file
    whose footer cannot be read is left out."""
    snapshot = scan(table)
    rebuilt(snapshot)
    (entries,) = (path for path in cache_files(table) if path.suffix == ".keys")
    entries.write_bytes(entries.read_bytes()[:-1])
    change = updated(snapshot)
    assert change.read == 2 and "is broken" in change.notes[0]
    check_whole(snapshot)

    (filters,) = (path for path in cache_files(table) if path.suffix == ".keys" and path != entries)
    filters.write_bytes(b"\0" * 40 + filters.read_bytes()[40:])
    write(table, [("a", 9, "p", "y")])
    insert(table, "d", part="r")
    snapshot = scan(table)
    change = updated(snapshot)
    assert change.read >= 2
    rebuilt(snapshot)

    for lost in cache_files(table):
        if lost.suffix == ".keys":
            lost.unlink()
    assert "It is not there." in updated(snapshot).notes[0]
    check_whole(snapshot)
    newest = max(path for path in cache_files(table) if path.suffix == ".json")
    newest.write_text("{}")
    assert "The manifest" in updated(snapshot).notes[0]
    check_whole(snapshot)

    base = table / live(snapshot)[0].path
    base.write_bytes(b"PAR1" + b"\0" * (base.stat().st_size - 4))
    change = rebuilt(snapshot)
    assert change.covered == len(live(snapshot)) - 1 and base.name in change.notes[0]


def test_one_that_is_out_of_use(table: Path) -> None:
    """A cache that was found to be wrong is not asked, until it was made again; dropped, nothing of it is left."""
    snapshot = scan(table)
    rebuilt(snapshot)
    take_out_of_use(STORAGE, str(table), IndexType.BLOOM, "It is wrong.")
    assert usable_cache(STORAGE, str(table)) is None
    rebuilt(snapshot)
    assert usable_cache(STORAGE, str(table)) is not None
    take_out_of_use(STORAGE, str(table), IndexType.BLOOM, "It is wrong.")
    assert drop_filter_cache(STORAGE, str(table)) and not drop_filter_cache(STORAGE, str(table))
    assert list((table / ".hoodie/.lakeward/index").iterdir()) == []
    with pytest.raises(Refused, match="has no cache of filters"):
        updated(snapshot)


def test_two_at_once(table: Path) -> None:
    """Keeps 1 of protocol/index/filter_cache_writer: what both add is in the cache; one that was dropped is not made
    again by the other one."""
    folder = cache_folder(str(table))
    read = create_filter_cache(STORAGE, folder, with_logs=False)
    one, other, late = (FilterCacheWriter(STORAGE, folder, read) for _ in range(3))
    for writer, path in ((one, "p/1.parquet"), (other, "p/2.parquet"), (late, "p/3.parquet")):
        writer.add(path, 7, FileKeys(KeyRange("a", "b"), None))
    one.publish(without=(), with_logs=False)
    other.publish(without=(), with_logs=False)
    cache = FilterCache.of(STORAGE, folder)
    assert cache is not None and cache.entries.column("path").to_pylist() == ["p/2.parquet", "p/1.parquet"]
    assert cache.rows_of(["p/1.parquet", "p/1.parquet"], [7, 8]) == [1, None], "of another size it is another file"

    newest = cache.manifest
    dropping = replace(newest, is_dropped=True).numbered(newest.number + 1, by="drop")
    STORAGE.create(manifest_path(folder, dropping.number), CACHE_FORM.encode(dropping))
    with pytest.raises(IndexMoved, match="dropped it"):
        late.publish(without=(), with_logs=False)
    assert FilterCache.of(STORAGE, folder) is None
    assert rebuilt(scan(table)).covered == 2


@pytest.mark.parametrize("kind", FaultKind)
def test_stopped_at_any_call(table: Path, kind: FaultKind) -> None:
    """Built, brought up to date, made again and dropped, each stopped at every call: there is a cache of which nothing
    is wrong, or none, and once all is done again it has everything, and then nothing is left."""
    early = scan(table)
    write(table, [("a", 9, "p", "y")])
    snapshot = scan(table)

    def story(storage) -> None:
        rebuild_filter_cache(storage, early, on_file=quiet)
        update_filter_cache(storage, snapshot, on_file=quiet)
        rebuild_filter_cache(storage, snapshot, on_file=quiet)

    counting = FaultyStorage()
    story(counting)
    drop_filter_cache(counting, str(table))
    for fault in spread(faults_of(kind, counting.calls)):
        storage = FaultyStorage(fault)
        with suppress(Killed, LakewardError, OSError):
            story(storage)
            drop_filter_cache(storage, str(table))
        cache = FilterCache.of(STORAGE, cache_folder(str(table)))
        if cache is not None:
            assert not cache.broken, f"{fault}"
            for keys in cache.keys_of(range(len(cache.entries))):
                keys.read(STORAGE)
        story(STORAGE)
        check_whole(snapshot)
        assert drop_filter_cache(STORAGE, str(table)), f"{fault}"
        assert cache_files(table) == []


@pytest.mark.parametrize("name", ["v8", "v9", "v9_metadata"])
def test_tables_of_hudis(tmp_path: Path, name: str) -> None:
    """Tables of each version from 8 on are taken."""
    snapshot = scan(copy_golden(name, tmp_path / "table"))
    assert rebuilt(snapshot).covered == len(live(snapshot)) > 0
    check_whole(snapshot)
