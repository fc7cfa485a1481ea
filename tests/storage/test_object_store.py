"""An object store as storage, against a real S3-compatible server: of two writers one is refused, and gets an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.errors import AlreadyExists, NotFound, VersionChanged
from lakeward.storage import object_store
from lakeward.storage.object_store import PART_BYTES, ObjectStore
from lakeward.storage.object_url import parse_object_url
from lakeward.storage.storage import Version

if TYPE_CHECKING:
    from tests.servers import DroppingS3, S3Server

pytestmark = pytest.mark.services


def store_at(url: str) -> ObjectStore:
    return ObjectStore(parse_object_url(url), sleep=lambda seconds: None)


@pytest.fixture
def dropping(s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DroppingS3]:
    """The way to the server loses replies."""
    from tests.servers import DroppingS3

    proxy = DroppingS3(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    yield proxy
    proxy.close()


# --------------------------------------------------------------------------------------------------------- creating


def test_create_never_replaces(bucket: str) -> None:
    """The second is refused, and the first content stays."""
    storage = store_at(bucket)
    storage.create(f"{bucket}/x", b"one")
    with pytest.raises(AlreadyExists):
        storage.create(f"{bucket}/x", b"two")
    assert storage.read(f"{bucket}/x") == b"one"


def test_one_of_many_creators_wins(bucket: str) -> None:
    """All of them create at the same time."""
    won: list[int] = []
    start = threading.Barrier(6)

    def contend(number: int) -> None:
        start.wait()
        try:
            store_at(bucket).create(f"{bucket}/x", b"%d" % number)
        except AlreadyExists:
            return
        won.append(number)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [b"%d" % number for number in won] == [store_at(bucket).read(f"{bucket}/x")]


def test_a_bucket_that_is_not_there(bucket: str) -> None:
    """The error does not say that a file exists already."""
    storage = store_at(f"{bucket}-not")
    with pytest.raises(NotFound):
        storage.create(f"{bucket}-not/x", b"")


@pytest.mark.parametrize("size", [0, 10, PART_BYTES + 1, 2 * PART_BYTES + 3])
def test_outputs_never_replace(bucket: str, size: int) -> None:
    """A stream is seen when it is closed, whole, in one request or in parts; the name is then taken."""
    storage, path = store_at(bucket), f"{bucket}/p=1/x.parquet"
    with storage.open_output(path) as file:
        for start in range(0, size, 1_000_000):
            file.write(b"x" * min(1_000_000, size - start))
        assert file.tell() == size
        assert storage.stat(path) is None
    assert storage.read(path) == b"x" * size
    with pytest.raises(AlreadyExists):
        storage.open_output(path)


@pytest.mark.parametrize("size", [10, 3 * PART_BYTES])
def test_an_output_that_fails_is_never_seen(bucket: str, size: int) -> None:
    """Its block ends with an error, or no code closes it: in neither case is it seen."""
    storage, path = store_at(bucket), f"{bucket}/x"
    with pytest.raises(ZeroDivisionError), storage.open_output(path) as file:
        file.write(b"x" * size)
        raise ZeroDivisionError
    forgotten = storage.open_output(path)
    forgotten.write(b"x" * size)
    del forgotten
    assert storage.stat(path) is None
    assert storage.list(bucket) == []


def test_a_small_output_is_refused_when_another_writer_was_faster(bucket: str) -> None:
    """It is refused although the name was free when it was opened."""
    storage, path = store_at(bucket), f"{bucket}/x"
    file = storage.open_output(path)
    storage.create(path, b"faster")
    file.write(b"slower")
    with pytest.raises(AlreadyExists):
        file.close()
    assert storage.read(path) == b"faster"


# -------------------------------------------------------------------------------------------------------- replacing


def test_a_replacement_needs_the_version_that_was_read(bucket: str) -> None:
    """Two readers have the same version, and the second to replace it is refused; so is one whose version is gone."""
    storage, path = store_at(bucket), f"{bucket}/x"
    first = storage.replace(path, b"1", expected=None)
    assert storage.read_version(path) == (b"1", first)
    second = storage.replace(path, b"2", expected=first)
    with pytest.raises(VersionChanged):
        storage.replace(path, b"3", expected=first)
    assert storage.read_version(path) == (b"2", second)
    storage.delete(path)
    with pytest.raises(VersionChanged):
        storage.replace(path, b"3", expected=second)
    assert storage.stat(path) is None


def test_versions() -> None:
    """Are told apart by the mark of the content, or where a store has none, by its count; unknown ones never match."""
    assert Version("a", None).is_same(Version("a", "7"))
    assert not Version("a", "7").is_same(Version("b", "7"))
    assert Version(None, "7").is_same(Version("a", "7"))
    assert not Version(None, None).is_same(Version(None, None))


# ----------------------------------------------------------------------------------------------------- lost replies


def test_a_lost_reply_is_cleared_up(bucket: str, dropping: DroppingS3) -> None:
    """The write arrived and no reply did: it is found to be its own, and is not refused for being there already."""
    storage, path = store_at(bucket), f"{bucket}/x"
    dropping.drop_after("PUT /")
    version = storage.replace(path, b"1", expected=None)
    assert storage.read_version(path) == (b"1", version)
    dropping.drop_after("PUT /")
    version = storage.replace(path, b"2", expected=version)
    assert storage.read_version(path) == (b"2", version)
    assert dropping.dropped == 2


def test_a_lost_refusal_is_a_refusal(bucket: str, dropping: DroppingS3) -> None:
    """It is one even where the other writer wrote the same bytes."""
    storage, path = store_at(bucket), f"{bucket}/x"
    store_at(bucket).create(path, b"")
    dropping.drop_after("PUT /")
    with pytest.raises(AlreadyExists):
        storage.create(path, b"")
    assert dropping.dropped == 1


class Late(ObjectStore):
    """Its first write seems lost, and arrives before the second."""

    tries = 0

    def _put(self, path: str, data: bytes, mark: str, expected: Version | None) -> Version:
        self.tries += 1
        if self.tries == 1:
            raise OSError("no answer")
        if self.tries == 2:
            super()._put(path, data, mark, expected)
        return super()._put(path, data, mark, expected)


def test_a_write_that_is_refused_for_having_arrived_late(bucket: str) -> None:
    """Its mark shows that it is its own: twice sent and once written."""
    late = Late(parse_object_url(bucket), sleep=lambda seconds: None)
    version = late.replace(f"{bucket}/x", b"1", expected=None)
    assert late.read_version(f"{bucket}/x") == (b"1", version)
    assert late.tries == 2


def test_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of the operating system's kind, with the path, after a few tries."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setattr(object_store, "PAUSES_SECONDS", ())
    with pytest.raises(OSError) as error:
        store_at("s3://lake").create("s3://lake/x", b"")
    assert error.value.filename == "s3://lake/x"
    assert "hunter2" not in str(error.value)


# ---------------------------------------------------------------------------------------------- listing and reading


def test_listing_and_reading(bucket: str, s3_server: S3Server) -> None:
    """Entries of one folder are sorted by name, like in a file system; Hadoop's marks of empty folders are folders."""
    storage, base = store_at(bucket), f"{bucket}/orders"
    for name in ("b", "a/x", "a/y/z", "c=%2F é/1 2.log.1_0-1-2", "ab"):
        storage.create(f"{base}/{name}", name.encode())
    s3_server.put(f"{bucket.removeprefix('s3://')}/orders/a/", b"")
    s3_server.put(f"{bucket.removeprefix('s3://')}/orders/empty/", b"")
    assert [(s.name, s.size, s.is_folder) for s in storage.list(base)] == [
        ("a", 0, True),
        ("ab", 2, False),
        ("b", 1, False),
        ("c=%2F é", 0, True),
        ("empty", 0, True),
    ]
    assert [s.path for s in storage.list(f"{base}/a")] == [f"{base}/a/x", f"{base}/a/y"]
    assert [s.name for s in storage.list(bucket)] == ["orders"]
    assert storage.list(f"{base}/empty") == storage.list(f"{base}/missing") == []
    found = storage.stat(f"{base}/c=%2F é/1 2.log.1_0-1-2")
    assert found is not None and found.modified > 1.7e9 and not found.is_folder
    assert storage.read(found.path) == b"c=%2F \xc3\xa9/1 2.log.1_0-1-2"
    folder = storage.stat(f"{base}/a")
    assert folder is not None and folder.is_folder
    assert storage.stat(f"{base}/missing") is None
    for read in (storage.read, storage.open_input, storage.read_version):
        with pytest.raises(NotFound):
            read(f"{base}/missing")


def test_deleting(bucket: str) -> None:
    """One file, said whether it was there; or all below a folder and nothing beside it."""
    storage = store_at(bucket)
    for name in ("t/a", "t/b/c", "tt/d"):
        storage.create(f"{bucket}/{name}", b"")
    assert storage.delete(f"{bucket}/t/a")
    assert not storage.delete(f"{bucket}/t/a")
    assert storage.delete_folder(f"{bucket}/t")
    assert not storage.delete_folder(f"{bucket}/t")
    assert [s.name for s in storage.list(bucket)] == ["tt"]


def test_deleting_many(bucket: str) -> None:
    """The files that are there go, and nothing else."""
    storage = store_at(bucket)
    names = [f"t/{number}" for number in range(5)]
    for name in names:
        storage.create(f"{bucket}/{name}", b"")
    storage.delete_many([f"{bucket}/{name}" for name in (*names[1:4], "t/none")])
    assert [s.name for s in storage.list(f"{bucket}/t")] == ["0", "4"]
    storage.delete_many([])


def test_a_file_that_is_replaced_while_it_is_read(bucket: str) -> None:
    """It is an error, and not half of the one and half of the other."""
    storage, path = store_at(bucket), f"{bucket}/x"
    version = storage.replace(path, b"a" * 700_000, expected=None)
    with storage.open_input(path) as file:
        assert file.read(10) == b"a" * 10
        storage.replace(path, b"b" * 700_000, expected=version)
        file.seek(600_000)
        with pytest.raises(OSError):
            file.read(10)


def test_parquet_is_read_through_it(bucket: str) -> None:
    """Pyarrow reads column by column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: list(range(50_000)) for name in "abc"})
    storage, path = store_at(bucket), f"{bucket}/x.parquet"
    with storage.open_output(path) as sink:
        pq.write_table(table, sink)
    with storage.open_input(path) as source:
        read: Any = pq.ParquetFile(source, pre_buffer=False, buffer_size=64 * 1024).read(["c", "a"])
    assert read == table.select(["c", "a"])
