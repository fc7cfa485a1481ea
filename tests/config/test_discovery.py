"""Which folders are found to be tables, and what does not stop the search."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakeward.config import discovery
from lakeward.config.discovery import Discovered, discover
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from tests.mounted_storage import Mounted


def table(path: Path) -> None:
    (path / ".hoodie").mkdir(parents=True)
    (path / ".hoodie" / "hoodie.properties").touch()


def found(root: Path, *, depth: int = 4, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
    result = scan(root, depth=depth, include=include, exclude=exclude)
    assert not result.problems
    return [str(Path(path).relative_to(root)) for path in result.tables]


def scan(root: Path, *, depth: int = 4, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Discovered:
    return discover(LocalStorage(), str(root), include=include, exclude=exclude, depth=depth)


def test_tables_at_every_depth(tmp_path: Path) -> None:
    """The root itself may be one; deeper than asked for nothing is scanned."""
    for name in ("a", "b/c", "b/d/e", "b/d/x/y/z"):
        table(tmp_path / name)
    assert found(tmp_path) == ["a", "b/c", "b/d/e"]
    assert found(tmp_path, depth=1) == ["a"]
    assert found(tmp_path, depth=5) == ["a", "b/c", "b/d/e", "b/d/x/y/z"]
    assert found(tmp_path / "a") == ["."]
    assert found(tmp_path / "a", depth=0) == ["."]


def test_a_table_is_not_entered(tmp_path: Path) -> None:
    """Neither its partitions nor its metadata table, which looks like a table itself."""
    table(tmp_path / "a")
    table(tmp_path / "a" / ".hoodie" / "metadata")
    table(tmp_path / "a" / "p=1" / "nested")
    assert found(tmp_path) == ["a"]


def test_hidden_folders_are_not_entered(tmp_path: Path) -> None:
    """Hidden folders hold what an operator put away."""
    table(tmp_path / ".trash" / "a")
    table(tmp_path / ".hoodie" / "metadata")
    assert found(tmp_path) == []


def test_a_table_whose_properties_are_being_replaced(tmp_path: Path) -> None:
    """Their backup says that it is one; a folder that only looks like one is not."""
    table(tmp_path / "a")
    properties = tmp_path / "a" / ".hoodie" / "hoodie.properties"
    properties.rename(properties.with_name("hoodie.properties.backup"))
    (tmp_path / "b" / ".hoodie").mkdir(parents=True)
    assert found(tmp_path) == ["a"]


@pytest.mark.parametrize("absolute", [False, True])
def test_globs(tmp_path: Path, absolute: bool) -> None:
    """They match the path below the root or the whole one; what is excluded is not even entered."""
    for name in ("sales/orders", "sales/tmp_x", "old/orders", "orders"):
        table(tmp_path / name)
    before = f"{tmp_path}/" if absolute else ""
    assert found(tmp_path, include=[f"{before}sales/*"]) == ["sales/orders", "sales/tmp_x"]
    assert found(tmp_path, exclude=[f"{before}*tmp_*", f"{before}old"]) == ["orders", "sales/orders"]
    assert found(tmp_path, include=[f"{before}*orders"], exclude=[f"{before}old"]) == ["orders", "sales/orders"]


def test_links(tmp_path: Path) -> None:
    """A link out of the root is followed, once; one back into it is not, so that no table has two names and no circle
    is walked; one to itself or to nowhere hides no table."""
    table(tmp_path / "root" / "b" / "t")
    table(tmp_path / "outside" / "u")
    root = tmp_path / "root"
    (root / "a").symlink_to(root / "b")
    (root / "b" / "up").symlink_to(root)
    (root / "itself").symlink_to(root / "itself")
    (root / "nowhere").symlink_to(tmp_path / "nowhere")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out2").symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / "circle").symlink_to(tmp_path / "outside")
    assert found(root) == ["b/t", "out/u"]


def test_a_folder_that_is_mounted_twice(tmp_path: Path) -> None:
    """It is entered once, so that a table has one name there, too."""
    table(tmp_path / "a" / "t")
    table(tmp_path / "b" / "u")
    (tmp_path / "b" / "v").mkdir()
    (tmp_path / "c").mkdir()
    storage = Mounted({str(tmp_path / "c"): str(tmp_path / "a"), str(tmp_path / "b" / "v"): str(tmp_path / "a" / "t")})
    assert discover(storage, str(tmp_path), depth=4).tables == (f"{tmp_path}/a/t", f"{tmp_path}/b/u")


class Unreadable(LocalStorage):
    def list(self, folder: str) -> list[FileStatus]:
        if os.path.basename(folder) == "secret":
            raise PermissionError(13, "Permission denied", folder)
        return super().list(folder)


def test_a_folder_that_cannot_be_read_is_a_problem_of_its_own(tmp_path: Path) -> None:
    """The search goes on beside it and says which folder it was."""
    table(tmp_path / "a")
    table(tmp_path / "secret" / "b")
    table(tmp_path / "z")

    result = discover(Unreadable(), str(tmp_path), depth=3)

    assert [os.path.basename(path) for path in result.tables] == ["a", "z"]
    ((path, why),) = [(problem.path, problem.why) for problem in result.problems]
    assert path == str(tmp_path / "secret") and "Permission denied" in why


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    """Is said, since it is most likely misspelled or not mounted yet."""
    result = scan(tmp_path / "missing")
    assert not result.tables
    assert [problem.path for problem in result.problems] == [str(tmp_path / "missing")]


def test_a_search_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many folders there are; what was found is kept."""
    monkeypatch.setattr(discovery, "FOLDERS_MAX", 5)
    table(tmp_path / "a")
    for number in range(10):
        (tmp_path / f"x{number}").mkdir()
    result = scan(tmp_path)
    assert [os.path.basename(path) for path in result.tables] == ["a"]
    assert len(result.problems) == 1 and "more than 5 folders" in result.problems[0].why
