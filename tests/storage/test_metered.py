"""A storage that counts what is read through it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage


def test_bytes_are_counted_as_they_are_asked_for(tmp_path: Path) -> None:
    """A file read whole, one read in part, and one that Arrow reads; all else goes to the storage below."""
    storage = MeteredStorage(LocalStorage())
    path = str(tmp_path / "file")
    storage.create(path, b"0123456789")
    assert storage.read(path) == b"0123456789"
    assert (storage.files_opened, storage.bytes_read) == (1, 10)
    with storage.open_input(path) as file:
        assert (file.seek(4), file.read(3), file.tell()) == (4, b"456", 7)
        buffer = bytearray(2)
        assert file.readinto(buffer) == 2  # type: ignore[attr-defined]
        assert buffer == b"78"
    assert (storage.files_opened, storage.bytes_read) == (2, 15)

    table = pa.table({"a": range(100_000), "b": range(100_000)})
    pq.write_table(table, tmp_path / "parquet")
    size = storage.stat(str(tmp_path / "parquet")).size
    with storage.open_input(str(tmp_path / "parquet")) as file:
        assert pq.read_table(file, columns=["a"]).num_rows == 100_000
    assert 0 < storage.bytes_read - 15 < size
    assert [entry.name for entry in storage.list(str(tmp_path))] == ["file", "parquet"]
    assert storage.delete(path) and storage.stat(path) is None
