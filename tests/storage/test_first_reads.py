"""A storage that counts what is read for the first time."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.storage.first_reads import CHUNK_BYTES, FirstReads
from lakeward.storage.local import LocalStorage


def test_what_is_read_again_is_not_shown_again(tmp_path: Path) -> None:
    """Another opening of the file counts no more than the first; a second file is another one."""
    counted: list[int] = []
    storage = FirstReads(LocalStorage(), on_first=counted.append)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    storage.create(one, b"x" * (2 * CHUNK_BYTES + 10))
    storage.create(two, b"y" * 5)
    with storage.open_input(one) as file:
        assert len(file.read(CHUNK_BYTES + 1)) == CHUNK_BYTES + 1
        assert counted == [2 * CHUNK_BYTES]
        file.seek(0)
        assert len(file.read(10)) == 10
        assert file.read(0) == b""
    with storage.open_input(one) as file:
        file.read(20)
        file.seek(-3, 2)
        assert len(file.read()) == 3
    with storage.open_input(two) as file:
        file.read()
        assert file.read() == b""
    assert counted == [2 * CHUNK_BYTES, 10, 5]
    assert storage.first_bytes == sum(counted)


def test_all_of_a_file_is_as_long_as_the_file(tmp_path: Path) -> None:
    """Keeps of storage/first_reads, whatever is read in whatever order, and as Arrow reads a Parquet file."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for size in (1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 7 * CHUNK_BYTES + 123):
        storage = FirstReads(LocalStorage())
        path = str(tmp_path / str(size))
        storage.create(path, bytes(size))
        with storage.open_input(path) as file:
            for _ in range(50):
                before = storage.first_bytes
                file.seek(chance.randrange(size))
                file.read(chance.randrange(2 * CHUNK_BYTES))
                assert before <= storage.first_bytes <= size
            file.seek(0)
            file.read()
        assert storage.first_bytes == size
    table = pa.table({"a": [chance.random() for _ in range(200_000)]})
    pq.write_table(table, tmp_path / "parquet")
    storage = FirstReads(LocalStorage())
    with storage.open_input(str(tmp_path / "parquet")) as file:
        assert pq.read_table(file).equals(table)
    assert storage.first_bytes == (tmp_path / "parquet").stat().st_size
