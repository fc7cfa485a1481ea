"""A read that fails once is the storage's failure: never taken for corruption, and over with the next scan."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.read.file_slice import open_slice
from lakeward.read.row_lookup import sample_keys
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.read.log_files import block
from tests.scenarios.damaged_table import BASE_FILE, FILE_ID, HEADERS, put_log, row
from tests.scenarios.test_bad_input import parquet


class FailingReads(LocalStorage):
    """Fails at the n-th read of a file's bytes, as a network file system does now and then."""

    def __init__(self, failing: int) -> None:
        super().__init__()
        self.left = failing

    def open_input(self, path: str) -> BinaryIO:
        return cast(BinaryIO, _Watched(super().open_input(path), path, self))

    def count(self, path: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)


class _Watched(io.RawIOBase):
    def __init__(self, file: BinaryIO, path: str, storage: FailingReads) -> None:
        self._file, self._path, self._storage = file, path, storage

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        self._storage.count(self._path)
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def failing_ever_later() -> Iterator[FailingReads]:
    """Until one does not fail any more: then there is no later read."""
    failing = 1
    while True:
        yield FailingReads(failing)
        failing += 1


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """With a log of each kind: Avro, deletes and Parquet."""
    table = copy_golden("v9", tmp_path / "table")
    return put_log(table, block(5, HEADERS, parquet(row("k1"), row("k9"))))  # type: ignore[arg-type]


def take(base: Path, storage: LocalStorage) -> TableSnapshot:
    return take_snapshot(storage, str(base), timezone="UTC", clock=SkippingClock())


def rows(base: Path, snapshot: TableSnapshot, storage: LocalStorage) -> list[dict[str, Any]]:
    (slice_,) = snapshot.latest_slices
    assert snapshot.schema is not None
    given = SliceInput(
        base_path=str(base),
        partition_path="p",
        file_id=FILE_ID,
        base_file=BASE_FILE,
        log_files=tuple(log.path for log in slice_.log_files),
        instant="9",
        schema=snapshot.schema,
        rules=merge_rules(snapshot),
    )
    with open_slice(storage, given) as merged:
        return [one for batch in merged.batches() for one in batch.to_pylist()]


def test_a_read_that_fails_in_a_scan_ends_the_scan(base: Path) -> None:
    """Nothing is called broken or frozen that could not be read at that moment."""
    whole = take(base, LocalStorage())
    for storage in failing_ever_later():
        try:
            seen = take(base, storage)
        except OSError as error:
            assert error.errno == errno.ESTALE
            continue
        assert storage.left > 0, "a failure was swallowed"
        assert seen == whole
        break


def test_a_read_that_fails_in_a_merge_is_the_storages(base: Path) -> None:
    """Whatever was being read, the error says so with its number: Parquet, Avro or heads of blocks."""
    snapshot = take(base, LocalStorage())
    whole = rows(base, snapshot, LocalStorage())
    for storage in failing_ever_later():
        try:
            read = rows(base, snapshot, storage)
        except OSError as error:
            assert error.errno == errno.ESTALE
            continue
        assert storage.left > 0, "a failure was swallowed"
        assert read == whole
        break


def test_a_read_that_fails_in_a_sample_is_the_storages(base: Path) -> None:
    """The same for the keys by which a table is verified."""
    snapshot = take(base, LocalStorage())
    for storage in failing_ever_later():
        try:
            sample_keys(storage, snapshot, [BASE_FILE], 3, 1, meter=ReadMeter())
        except OSError as error:
            assert error.errno == errno.ESTALE
            continue
        assert storage.left > 0, "a failure was swallowed"
        break
