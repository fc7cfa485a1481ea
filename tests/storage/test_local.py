"""A POSIX file system as storage: whole files, no replacement, honest answers."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import AlreadyExists, LakewardError, NotFound, UsageError
from lakeward.base.paths import join, parent
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage_of_url import open_root, open_storage


def test_create_never_replaces(tmp_path: Path) -> None:
    """The second create fails, the first content stays, and no temporary name is left."""
    storage = LocalStorage()
    path = str(tmp_path / "x")
    storage.create(path, b"one")
    with pytest.raises(AlreadyExists):
        storage.create(path, b"two")
    assert storage.read(path) == b"one"
    assert [item.name for item in tmp_path.iterdir()] == ["x"]


class FullDisk(io.FileIO):
    """A file on a disk that is full after its first bytes."""

    def write(self, data: Any) -> int:
        if self.tell() >= 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(bytes(data)[:3])


class BadDisk(io.FileIO):
    """A file of a file system that says only at the end that there was no room, as network file systems do."""

    def close(self) -> None:
        was_open = not self.closed
        super().close()
        if was_open:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("fault", ["write", "sync", "close", "link"])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, size: int
) -> None:
    """Wherever the room ends, the error is reported, and neither the file, its temporary name nor a descriptor is
    left."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    descriptors = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        if fault in ("write", "close"):
            patch.setattr(io, "FileIO", {"write": FullDisk, "close": BadDisk}[fault])
        else:
            patch.setattr(os, {"sync": "fsync", "link": "link"}[fault], fail)
        with pytest.raises(OSError, match=r"No space left|quota exceeded") as shown:
            LocalStorage().create(str(tmp_path / "x"), b"d" * size)
        assert shown.value.errno in (errno.ENOSPC, errno.EDQUOT)
        assert len(os.listdir("/dev/fd")) == descriptors
    assert list(tmp_path.iterdir()) == []

    LocalStorage().create(str(tmp_path / "x"), b"d" * size)
    assert (tmp_path / "x").stat().st_size == size


def test_outputs_never_replace(tmp_path: Path) -> None:
    """A stream does not either."""
    storage = LocalStorage()
    with storage.open_output(str(tmp_path / "x")) as file:
        file.write(b"one")
    with pytest.raises(AlreadyExists):
        storage.open_output(str(tmp_path / "x"))
    with pytest.raises(NotFound):
        storage.open_output(str(tmp_path / "missing" / "x"))


@pytest.mark.parametrize("act", ["rename", "link"])
def test_names_are_never_reused(tmp_path: Path, act: str) -> None:
    """A rename or link onto a name in use fails and changes nothing; so does one without a source."""
    storage = LocalStorage()
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    with pytest.raises(AlreadyExists):
        getattr(storage, act)(str(source), str(target))
    assert (source.read_bytes(), target.read_bytes()) == (b"new", b"old")
    with pytest.raises(NotFound):
        getattr(storage, act)(str(tmp_path / "nothing"), str(tmp_path / "elsewhere"))


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    """What Hadoop kept as the checksum of the old one goes before it, and without a source nothing happens."""
    storage = LocalStorage()
    source, target, checksum = tmp_path / "source", tmp_path / "target", tmp_path / ".target.crc"
    target.write_bytes(b"old")
    checksum.write_bytes(b"of the old one")
    with pytest.raises(NotFound):
        storage.put_over(str(source), str(target))
    assert (target.read_bytes(), checksum.exists()) == (b"old", True)
    source.write_bytes(b"new")
    storage.put_over(str(source), str(target))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target"]
    assert target.read_bytes() == b"new"


def test_folders_are_renamed_whole(tmp_path: Path) -> None:
    """A file in a folder that was renamed away is not found under its old name."""
    storage = LocalStorage()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    storage.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    with pytest.raises(NotFound):
        storage.rename(str(tmp_path / "a" / "x"), str(tmp_path / "x"))
    (tmp_path / "a").mkdir()
    with pytest.raises(AlreadyExists):
        storage.rename(str(tmp_path / "a"), str(tmp_path / "b"))


def test_many_files_are_made_and_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced but by `sync`; an existing file is not marked, and whether one was there is reported."""
    synced: list[int] = []
    fsync = os.fsync

    def count(descriptor: int) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", count)
    storage = LocalStorage()
    path = str(tmp_path / "x")
    storage.mark(path)
    with pytest.raises(AlreadyExists):
        storage.mark(path)
    with pytest.raises(NotFound):
        storage.mark(str(tmp_path / "missing" / "x"))
    storage.move(path, f"{path}2")
    assert storage.remove(f"{path}2")
    assert not storage.remove(f"{path}2")
    assert synced == []
    storage.sync(str(tmp_path))
    assert len(synced) == 1


def test_a_folder_is_deleted_whole_while_another_process_deletes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that vanishes meanwhile does not save the others."""
    for name in ("a", "b", "c"):
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / "x").touch()
    unlink, others = os.unlink, [tmp_path / "folder" / name / "x" for name in ("a", "b", "c")]

    def be_slower(name: str, **options: int) -> None:
        if others:
            victim = others.pop()
            unlink(victim)
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", be_slower)
    assert LocalStorage().delete_folder(str(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()
    assert not LocalStorage().delete_folder(str(tmp_path / "folder"))


@pytest.mark.parametrize("act", ["delete", "remove"])
def test_a_deleted_file_takes_its_checksum_along(tmp_path: Path, act: str) -> None:
    """Hadoop would hold a stale `.x.crc` against the next `x`."""
    (tmp_path / "x").touch()
    (tmp_path / ".x.crc").touch()
    assert getattr(LocalStorage(), act)(str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []
    assert not getattr(LocalStorage(), act)(str(tmp_path / "x"))


def test_listing_and_reading(tmp_path: Path) -> None:
    """Sorted by name; a missing folder is empty; a missing file is None."""
    storage = LocalStorage()
    (tmp_path / "b").write_bytes(b"12")
    (tmp_path / "a").mkdir()
    assert [(s.name, s.size, s.is_folder) for s in storage.list(str(tmp_path))] == [("a", 0, True), ("b", 2, False)]
    assert storage.list(str(tmp_path / "missing")) == []
    assert storage.stat(str(tmp_path / "missing")) is None
    with pytest.raises(NotFound):
        storage.read(str(tmp_path / "missing"))


def test_links_are_listed_as_links(tmp_path: Path) -> None:
    """The listing has what they lead to, if anything; one that leads nowhere, or to itself, hides none of its
    neighbours."""
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    for name, target in (("1", "file"), ("2", "folder"), ("3", "nowhere"), ("4", "4")):
        (tmp_path / name).symlink_to(tmp_path / target)

    found = {status.name: status for status in LocalStorage().list(str(tmp_path))}

    assert [name for name, status in found.items() if status.is_link] == ["1", "2", "3", "4"]
    assert [name for name, status in found.items() if status.is_folder] == ["2", "folder"]
    assert [found[name].size for name in ("1", "3", "4")] == [1, 0, 0]
    assert found["2"].identity == found["folder"].identity == LocalStorage().stat(str(tmp_path / "2")).identity
    assert found["folder"].identity is not None


def test_a_file_system_without_hard_links_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is published by other means, and no temporary name is left."""

    def no_link(source: str, target: str, **options: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(LakewardError, match="hard links"):
        LocalStorage().create(str(tmp_path / "x"), b"")
    assert list(tmp_path.iterdir()) == []


def test_locations(tmp_path: Path) -> None:
    """Paths and file URLs are the same place; other schemes are refused with what would work."""
    assert open_storage(str(tmp_path))[1] == str(tmp_path)
    assert open_storage(f"file://{tmp_path}/a%20b/")[1] == f"{tmp_path}/a b"
    assert open_root(f"file://{tmp_path}/a%20b/")[1] == f"{tmp_path}/a b"
    with pytest.raises(UsageError, match="hdfs://"):
        open_storage("hdfs://name/table")


@pytest.mark.parametrize("prefix", ["file://", "file:", "FILE://localhost"])
def test_escapes_in_file_urls(tmp_path: Path, prefix: str) -> None:
    """`%20` is a space, but part of the name where such a folder is there and no other, as Hudi's writers make it from
    the same URL; what could be both is refused. `#` and `?` belong to the name, as to Hadoop."""
    (tmp_path / "sp%20ace").mkdir()
    (tmp_path / "a b").mkdir()
    for formatted, name in {
        "sp%20ace/t": "sp%20ace/t",
        "a%20b/t": "a b/t",
        "new%20one": "new one",
        "x#1?y": "x#1?y",
    }.items():
        (tmp_path / "sp%20ace" / "t").mkdir(exist_ok=True)
        assert open_storage(f"{prefix}{tmp_path}/{formatted}")[1] == f"{tmp_path}/{name}", formatted
    assert open_storage(f"{tmp_path}/sp%20ace")[1] == f"{tmp_path}/sp%20ace"
    assert os.fsencode(open_storage(f"{prefix}{tmp_path}/%ff")[1]).endswith(b"/\xff")
    (tmp_path / "sp ace").mkdir()
    with pytest.raises(UsageError, match="two places"):
        open_storage(f"{prefix}{tmp_path}/sp%20ace")
    for wrong in ("%00", "a\0b"):
        with pytest.raises(UsageError, match="zero byte"):
            open_storage(f"{prefix}{tmp_path}/{wrong}")


def test_file_urls_of_other_machines() -> None:
    """They are refused, not taken for paths here."""
    with pytest.raises(UsageError, match="file://server"):
        open_storage("file://server/data")


def test_paths() -> None:
    """The unpartitioned partition path is empty and adds nothing."""
    assert join("/t", "", "x") == "/t/x"
    assert join("/t", "p=1", "x") == "/t/p=1/x"
    assert parent("/t/x") == "/t"
