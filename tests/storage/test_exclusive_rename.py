"""A rename replaces nothing, whether the system does it in one step or we do it in two."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from lakeward.base.errors import AlreadyExists, NotFound
from lakeward.storage import exclusive_rename
from lakeward.storage.local import LocalStorage
from lakeward.storage.place import Place


@pytest.fixture
def at_once(tmp_path: Path) -> None:
    """Only where this system and the file system under the tests can."""
    (tmp_path / "probe").touch()
    probe, probed = (Place(path, None, path) for path in (str(tmp_path / "probe"), str(tmp_path / "probed")))
    if not exclusive_rename._renamed_at_once(probe, probed):
        pytest.skip("this system renames in two steps")
    (tmp_path / "probed").unlink()


@pytest.fixture(params=["at once", "in two steps", "in a table"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStorage:
    if request.param != "in two steps":
        request.getfixturevalue("at_once")
    else:
        monkeypatch.setattr(exclusive_rename, "_renameat2", lambda: None)
    return LocalStorage(str(tmp_path) if request.param == "in a table" else None)


def refuse(number: int, calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The system answers so."""

    def answer(*arguments: object) -> int:
        calls.append(number)
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(exclusive_rename, "_renameat2", lambda: answer)


@pytest.mark.parametrize("act", ["rename", "move"])
def test_a_file_gets_another_name(storage: LocalStorage, tmp_path: Path, act: str) -> None:
    """It gets only that, in a folder that may be another one; its time stays."""
    (tmp_path / "a").mkdir()
    source, target = tmp_path / "source", tmp_path / "a" / "target"
    source.write_bytes(b"x")
    os.utime(source, (1.0, 1.0))
    getattr(storage, act)(str(source), str(target))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (target.read_bytes(), target.stat().st_mtime, target.stat().st_nlink) == (b"x", 1.0, 1)


@pytest.mark.parametrize("act", ["rename", "move"])
def test_a_file_replaces_nothing(storage: LocalStorage, tmp_path: Path, act: str) -> None:
    """It replaces neither a file nor its own other name; without the source it is that which is missing, whatever the
    target is."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    os.link(source, tmp_path / "second")
    for taken in (target, tmp_path / "second"):
        with pytest.raises(AlreadyExists, match=taken.name):
            getattr(storage, act)(str(source), str(taken))
    assert (source.read_bytes(), target.read_bytes()) == (b"new", b"old")
    for missing, other in (("nothing", "elsewhere"), ("nothing", "target"), ("source", "none/x"), ("target/x", "x")):
        with pytest.raises(NotFound, match=missing):
            getattr(storage, act)(str(tmp_path / missing), str(tmp_path / other))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["second", "source", "target"]


@pytest.mark.parametrize("kind", ["empty folder", "folder", "file"])
def test_a_folder_replaces_nothing(storage: LocalStorage, tmp_path: Path, kind: str) -> None:
    """POSIX would let it replace an empty one."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    if kind == "file":
        (tmp_path / "b").touch()
    else:
        (tmp_path / "b").mkdir()
    if kind == "folder":
        (tmp_path / "b" / "y").touch()
    with pytest.raises(AlreadyExists):
        storage.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a" / "x").exists()
    storage.rename(str(tmp_path / "a"), str(tmp_path / "c"))
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["x"]


@pytest.mark.usefixtures("at_once")
def test_nothing_lies_between_the_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is stopped in a rename takes no name away later, which might be a successor's; a folder that
    appears is not replaced however late."""
    with monkeypatch.context() as patch:
        for name in ("link", "unlink", "rename", "replace"):
            patch.delattr(os, name)
        (tmp_path / "x").touch()
        (tmp_path / "a").mkdir()
        LocalStorage().rename(str(tmp_path / "x"), str(tmp_path / "y"))
        LocalStorage().rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "y"]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_where_the_system_cannot_it_is_done_in_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """An old kernel, or a file system that does not know the flag."""
    calls: list[int] = []
    refuse(number, calls, monkeypatch)
    (tmp_path / "x").touch()
    (tmp_path / "a").mkdir()
    LocalStorage().rename(str(tmp_path / "x"), str(tmp_path / "y"))
    LocalStorage().rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert calls == [number, number]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "y"]


def test_what_else_the_system_says_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried instead."""
    refuse(errno.EROFS, [], monkeypatch)
    (tmp_path / "x").touch()
    with pytest.raises(OSError, match="Read-only") as shown:
        LocalStorage().rename(str(tmp_path / "x"), str(tmp_path / "y"))
    assert (shown.value.filename, shown.value.filename2) == (str(tmp_path / "x"), str(tmp_path / "y"))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_name_is_taken_whole(storage: LocalStorage, tmp_path: Path) -> None:
    """A zero byte ends names in C: the name before it is another file."""
    (tmp_path / "x").touch()
    with pytest.raises(ValueError, match="null"):
        storage.rename(f"{tmp_path}/x\0y", str(tmp_path / "z"))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
