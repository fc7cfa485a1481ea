"""The storage of the simulations answers as the real one does."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import LakewardError
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import RenamingStorage, Storage
from tests.simulation.memory_storage import MemoryStorage

NAMES = ("a", "b", "a/x", "a/y", "b/x", ".x.crc", "x", "a/.x.crc", "c/d/e", "missing/x")
STEPS = 60
KINDS = (
    "list",
    "stat",
    "read",
    "create",
    "write",
    "touch",
    "make_folder",
    "rename",
    "move",
    "link",
    "put_over",
    "mark",
    "delete",
    "remove",
    "folder",
)


_OF_FILES = ("move", "link", "put_over")


def answer(act: Callable[[], Any]) -> str:
    """What a call returned or raised, in words that both storages share."""
    try:
        result = act()
    except LakewardError as error:
        return type(error).__name__
    except OSError:
        return "OSError"  # a file where a folder should be, or the reverse; no caller asks which
    return repr(result)


def shape(storage: Storage, root: str, path: str = "") -> list[tuple[str, bool, bytes]]:
    found = []
    for status in storage.list(f"{root}{path}"):
        name = status.path.removeprefix(root)
        if status.is_folder:
            found += [(name, True, b""), *shape(storage, root, name)]
        else:
            assert status.size == len(storage.read(status.path))
            found.append((name, False, storage.read(status.path)))
    return found


def write(storage: Storage, path: str) -> None:
    with storage.open_output(path) as file:
        file.write(b"one")
        file.flush()
        file.write(b"two")


@pytest.mark.parametrize("seed", range(60))
def test_both_storages_answer_alike(tmp_path: Path, seed: int) -> None:
    """Any sequence of calls returns the same, raises the same and leaves the same, on disk and in memory."""
    rng = random.Random(seed)
    memory = MemoryStorage(lambda: 0.0)
    memory.make_folder("/root")
    places: list[tuple[RenamingStorage, str]] = [(LocalStorage(), str(tmp_path)), (memory, "/root")]
    for step in range(STEPS):
        kind = rng.choice(KINDS)
        one, two = rng.choice(NAMES), rng.choice(NAMES)
        answers = []
        for storage, root in places:
            if kind in _OF_FILES and (status := storage.stat(f"{root}/{one}")) is not None and status.is_folder:
                continue  # folders may not be linked or moved; file systems say so in different words
            path, other = f"{root}/{one}", f"{root}/{two}"
            if kind == "rename" and other.startswith(f"{path}/"):
                continue  # a folder into itself
            act: Callable[[], Any] = {
                "list": lambda s=storage, p=path: [(i.name, i.is_folder, i.size) for i in s.list(p)],
                "stat": lambda s=storage, p=path: (i := s.stat(p)) and (i.name, i.is_folder, i.size),
                "read": lambda s=storage, p=path: s.read(p),
                "create": lambda s=storage, p=path, n=step: s.create(p, b"%d" % n),
                "write": lambda s=storage, p=path: write(s, p),
                "touch": lambda s=storage, p=path: s.touch(p),
                "make_folder": lambda s=storage, p=path: s.make_folder(p),
                "rename": lambda s=storage, p=path, o=other: s.rename(p, o),
                "move": lambda s=storage, p=path, o=other: s.move(p, o),
                "link": lambda s=storage, p=path, o=other: s.link(p, o),
                "put_over": lambda s=storage, p=path, o=other: s.put_over(p, o),
                "mark": lambda s=storage, p=path: s.mark(p),
                "delete": lambda s=storage, p=path: s.delete(p),
                "remove": lambda s=storage, p=path: s.remove(p),
                "folder": lambda s=storage, p=path: s.delete_folder(p),
            }[kind]
            answers.append(answer(act))
        assert len(set(answers)) <= 1, (seed, step, kind, one, two, answers)
        assert shape(*places[0]) == shape(*places[1]), (seed, step, kind, one, two)


def test_a_link_is_a_second_name_of_the_same_bytes() -> None:
    """Renamed and linked files keep their time, and an unlinked file that is open has no name, like on disk."""
    now = [1.0]
    storage = MemoryStorage(lambda: now[0])
    storage.make_folder("/t")
    storage.create("/t/a", b"1")
    now[0] = 2.0
    storage.link("/t/a", "/t/b")
    storage.touch("/t/b")
    assert storage.stat("/t/a") is not None
    assert storage.file("/t/a") is storage.file("/t/b")
    assert storage.file("/t/a").modified == 2.0
    with storage.open_output("/t/open") as file:
        storage.delete("/t/open")
        file.write(b"too late")
    assert storage.stat("/t/open") is None
