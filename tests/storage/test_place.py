"""Links inside of a table: nothing outside of it is read, written or deleted, whenever they appear."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LinkInTable, UntrustedName
from lakeward.storage import place
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage_of_url import open_root, open_storage

ACTS: dict[str, Callable[[LocalStorage, str], object]] = {
    "list": lambda storage, table: storage.list(f"{table}/p/q"),
    "stat": lambda storage, table: storage.stat(f"{table}/p/x"),
    "read": lambda storage, table: storage.read(f"{table}/p/x"),
    "open_output": lambda storage, table: storage.open_output(f"{table}/p/new").close(),
    "create": lambda storage, table: storage.create(f"{table}/p/new", b""),
    "make_folder": lambda storage, table: storage.make_folder(f"{table}/p/new/below"),
    "touch": lambda storage, table: storage.touch(f"{table}/p/x"),
    "rename": lambda storage, table: storage.rename(f"{table}/p/x", f"{table}/new"),
    "move away": lambda storage, table: storage.move(f"{table}/p/x", f"{table}/new"),
    "move in": lambda storage, table: storage.move(f"{table}/y", f"{table}/p/new"),
    "link": lambda storage, table: storage.link(f"{table}/y", f"{table}/p/new"),
    "mark": lambda storage, table: storage.mark(f"{table}/p/new"),
    "delete": lambda storage, table: storage.delete(f"{table}/p/x"),
    "remove": lambda storage, table: storage.remove(f"{table}/p/x"),
    "delete_folder": lambda storage, table: storage.delete_folder(f"{table}/p/q"),
    "delete_folder, the link": lambda storage, table: storage.delete_folder(f"{table}/p"),
    "sync": lambda storage, table: storage.sync(f"{table}/p"),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "q").mkdir(parents=True)
    (folder / "x").write_bytes(b"others")
    (folder / "q" / "x").write_bytes(b"others")
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    folder.mkdir()
    (folder / "y").write_bytes(b"own")
    return folder


def files(folder: Path) -> list[tuple[str, float]]:
    return sorted((str(path), path.lstat().st_mtime) for path in folder.rglob("*"))


@pytest.mark.parametrize("act", ACTS)
def test_nothing_happens_behind_a_link(table: Path, outside: Path, act: str) -> None:
    """Every call names the link, and leaves all files as they were."""
    (table / "p").symlink_to(outside)
    before = files(table), files(outside)
    with pytest.raises(LinkInTable, match=f"{table}/p is a link"):
        ACTS[act](LocalStorage(str(table)), str(table))
    assert (files(table), files(outside)) == before


@pytest.mark.parametrize("act", [act for act in ACTS if act not in ("delete_folder, the link", "sync", "list")])
def test_a_folder_that_becomes_a_link_meanwhile(
    table: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """What was opened as a folder stays that folder, wherever its path leads by the time of the call."""
    shutil.copytree(outside, table / "p")
    walk, before = place._walk, files(outside)

    def be_overtaken(base_path: str, parts: list[str]) -> int:
        reached = walk(base_path, parts)
        if parts[:1] == ["p"]:
            (table / "p").rename(table / "moved")
            (table / "p").symlink_to(outside)
            monkeypatch.setattr(place, "_walk", walk)
        return reached

    monkeypatch.setattr(place, "_walk", be_overtaken)
    with suppress(LinkInTable, FileNotFoundError):  # what the call does next finds the link
        ACTS[act](LocalStorage(str(table)), str(table))
    assert (table / "p").is_symlink()
    assert files(outside) == before


def test_a_file_that_is_a_link(table: Path, outside: Path) -> None:
    """It is not read; to be deleted or renamed means the link, never what it leads to; and no file is made of it."""
    storage = LocalStorage(str(table))
    (table / "x").symlink_to(outside / "x")
    (table / "new").symlink_to(outside / "new")
    with pytest.raises(LinkInTable, match=f"{table}/x is a link"):
        storage.read(str(table / "x"))
    for make in (storage.mark, storage.open_output, lambda path: storage.create(path, b"")):
        with pytest.raises(Exception, match="exists already"):
            make(str(table / "new"))
    storage.touch(str(table / "x"))
    storage.rename(str(table / "x"), str(table / "z"))
    assert storage.delete(str(table / "z"))
    assert [name for name, _ in files(outside)] == [f"{outside}/q", f"{outside}/q/x", f"{outside}/x"]
    assert (outside / "x").read_bytes() == b"others"


def test_the_base_path_may_be_reached_through_links(table: Path, tmp_path: Path) -> None:
    """It is the operator's word. A hard link is a file like any other."""
    (tmp_path / "lake").symlink_to(tmp_path)
    (tmp_path / "orders").symlink_to(tmp_path / "lake" / "table")
    storage = LocalStorage(str(tmp_path / "orders"))
    storage.make_folder(f"{tmp_path}/orders/a/b")
    storage.create(f"{tmp_path}/orders/a/b/x", b"1")
    storage.link(f"{tmp_path}/orders/a/b/x", f"{tmp_path}/orders/a/x")
    assert storage.read(f"{tmp_path}/orders/a/x") == b"1"
    assert [status.name for status in storage.list(f"{tmp_path}/orders")] == ["a", "y"]
    assert storage.stat(f"{tmp_path}/orders").is_folder
    assert (table / "a" / "b" / "x").stat().st_nlink == 2


def test_a_path_that_leads_above_the_base_path(table: Path, outside: Path) -> None:
    """It is refused wherever it came from."""
    storage = LocalStorage(str(table))
    with pytest.raises(UntrustedName):
        storage.delete(f"{table}/p/../../outside/x")
    assert (outside / "x").exists()


def test_what_the_system_says_names_the_whole_path(table: Path, tmp_path: Path) -> None:
    """A name alone would leave the operator searching."""
    storage = LocalStorage(str(table))
    (table / "p").mkdir()
    with pytest.raises(IsADirectoryError) as shown:
        storage.remove(f"{table}/p")
    assert shown.value.filename == f"{table}/p"
    with pytest.raises(NotADirectoryError) as shown:
        storage.list(f"{table}/y/z")
    assert shown.value.filename == f"{table}/y"


def test_descriptors_are_closed(table: Path, outside: Path) -> None:
    """They are closed however a call ends."""
    (table / "p").symlink_to(outside)
    before = os.listdir("/proc/self/fd")
    for act in ACTS.values():
        with pytest.raises(LinkInTable):
            act(LocalStorage(str(table)), str(table))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_who_looks_for_tables_follows_links(table: Path, tmp_path: Path) -> None:
    """A process that was given a table does not, below it."""
    (tmp_path / "stock").symlink_to(table)
    root, path = open_root(str(tmp_path))
    assert [status.name for status in root.list(f"{path}/stock")] == ["y"]
    storage, path = open_storage(str(tmp_path))
    with pytest.raises(LinkInTable):
        storage.list(f"{path}/stock")
