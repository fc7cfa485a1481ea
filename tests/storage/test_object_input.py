"""A file that is read in ranges reads as the file, with few requests and little memory."""

from __future__ import annotations

import io
import random

import pytest

from lakeward.storage.object_store import BLOCK, CACHE_BLOCKS, RUN_MAX, ObjectInput


class Remote:
    """Bytes behind requests, which are counted."""

    def __init__(self, size: int) -> None:
        self.data = random.Random(size).randbytes(size)
        self.requests: list[tuple[int, int]] = []

    def fetch(self, start: int, end: int) -> bytes:
        assert 0 <= start < end <= len(self.data)
        self.requests.append((start, end))
        return self.data[start:end]

    def open(self) -> io.BufferedReader:
        return io.BufferedReader(ObjectInput(len(self.data), self.fetch))


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 7, (RUN_MAX + 3) * BLOCK])
def test_it_reads_as_the_file(size: int) -> None:
    """Whatever is sought and read, at the edges too."""
    remote, seed = Remote(size), random.randrange(2**32)
    print(f"seed {seed}")
    chance, same = random.Random(seed), io.BytesIO(remote.data)
    file = remote.open()
    for _ in range(60):
        position = chance.choice([0, size, chance.randrange(size + 1), chance.randrange(size + 1) // BLOCK * BLOCK])
        length = chance.choice([-1, 0, 1, 33, BLOCK - 1, BLOCK, BLOCK + 1, RUN_MAX * BLOCK])
        assert file.seek(position) == same.seek(position)
        assert file.read(length) == same.read(length), (position, length)
        assert file.tell() == same.tell()
    assert file.seek(-1 if size else 0, io.SEEK_END) == max(0, size - 1)


def test_a_scan_costs_few_requests() -> None:
    """Requests grow while a reader reads on."""
    remote = Remote(12 * 1024 * 1024)
    file = remote.open()
    while file.read(10_000):
        pass
    sizes = [(end - start) // BLOCK for start, end in remote.requests]
    assert sizes == [1, 2, 4, 8, 16, 16, 1]


def test_reading_a_head_costs_one_small_request() -> None:
    """Here and there is no scan."""
    remote = Remote(12 * 1024 * 1024)
    file = remote.open()
    for position in (9_000_000, 100, 5_000_000):
        file.seek(position)
        file.read(50)
    assert [(end - start) // BLOCK for start, end in remote.requests] == [1, 1, 1]


def test_columns_are_read_side_by_side() -> None:
    """A reader reads on in turn from twenty places: nothing is fetched twice."""
    columns, length = 20, 3 * 1024 * 1024
    remote = Remote(columns * length)
    file = remote.open()
    for offset in range(0, length, BLOCK):
        for column in range(columns):
            file.seek(column * length + offset)
            file.read(BLOCK)
    assert sum(end - start for start, end in remote.requests) == len(remote.data)


def test_much_at_once_is_one_request() -> None:
    """That request goes past what is kept."""
    remote = Remote(8 * 1024 * 1024)
    assert remote.open().read() == remote.data
    assert len(remote.requests) == 1
    raw = ObjectInput(len(remote.data), remote.fetch)
    for _ in range(2):
        raw.seek(0)
        raw.readinto(bytearray(len(remote.data)))
    assert not raw._blocks


def test_memory_is_bounded() -> None:
    """It is so however much of the file was read."""
    remote = Remote((CACHE_BLOCKS + 40) * BLOCK)
    raw = ObjectInput(len(remote.data), remote.fetch)
    while raw.readinto(bytearray(BLOCK)):
        assert len(raw._blocks) <= CACHE_BLOCKS
