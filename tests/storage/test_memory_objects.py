"""The object store in memory answers as the one behind requests does: what is proved with it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeward.base.errors import LakewardError
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from lakeward.storage.storage import RenamingStorage, Version, VersionedStorage
from tests.memory_objects import MemoryObjects, Objects


def answers(storage: Any, base: str) -> list[object]:
    """To the same questions, as values in which versions have no names of their own."""
    given: list[object] = []
    versions: list[Version] = []

    def ask(act: Callable[[], object]) -> None:
        try:
            answer = act()
        except LakewardError as error:
            answer = type(error)
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Version):
            answer = (answer[0], versions.index(answer[1]))
        if isinstance(answer, Version):
            assert answer not in versions
            versions.append(answer)
            answer = len(versions) - 1
        given.append(answer)

    def listed(folder: str) -> list[tuple[str, int, bool]]:
        return [(s.path[len(base) :], s.size, s.is_folder) for s in storage.list(folder)]

    def write(path: str, *, fail: bool = False, meanwhile: Callable[[], object] = lambda: None) -> int:
        with storage.open_output(path) as sink:
            sink.write(b"12345")
            meanwhile()
            if fail:
                raise LakewardError
            return int(sink.tell())

    x, y = f"{base}/x", f"{base}/f/y"
    ask(lambda: storage.replace(x, b"1", expected=None))
    ask(lambda: storage.replace(x, b"2", expected=None))
    ask(lambda: storage.replace(x, b"2", expected=versions[0]))
    ask(lambda: storage.replace(x, b"3", expected=versions[0]))
    ask(lambda: storage.read_version(x))
    ask(lambda: storage.replace(y, b"3", expected=versions[0]))
    ask(lambda: storage.create(x, b""))
    ask(lambda: storage.create(y, b""))
    ask(lambda: listed(base))
    ask(lambda: listed(f"{base}/f"))
    ask(lambda: listed(x))
    ask(lambda: storage.stat(f"{base}/none"))
    ask(lambda: storage.stat(f"{base}/f").is_folder)
    ask(lambda: storage.stat(x).is_folder)
    ask(lambda: write(x))
    ask(lambda: write(f"{base}/z", fail=True))
    ask(lambda: write(f"{base}/z", meanwhile=lambda: storage.create(f"{base}/z", b"faster")))
    ask(lambda: write(f"{base}/w"))
    for name in ("x", "z", "w", "none"):
        ask(lambda name=name: storage.read(f"{base}/{name}"))  # type: ignore[misc]
        ask(lambda name=name: storage.open_input(f"{base}/{name}").read())  # type: ignore[misc]
        ask(lambda name=name: storage.delete(f"{base}/{name}"))  # type: ignore[misc]
        ask(lambda name=name: storage.delete(f"{base}/{name}"))  # type: ignore[misc]
    ask(lambda: storage.create(f"{base}/v", b""))
    ask(lambda: storage.delete_many([f"{base}/v", f"{base}/none"]))
    ask(lambda: storage.stat(f"{base}/v"))
    ask(lambda: storage.delete_folder(f"{base}/f"))
    ask(lambda: storage.delete_folder(f"{base}/f"))
    ask(lambda: storage.free_bytes(base))
    ask(lambda: listed(base))
    return given


@pytest.mark.services
def test_both_answer_alike(bucket: str) -> None:
    """They give the same results to everything that is asked of a storage."""
    real = answers(ObjectStore(parse_object_url(bucket)), bucket)
    assert answers(MemoryObjects(Objects()), bucket) == real
    assert len(real) > 30


def test_it_is_no_file_system() -> None:
    """Nothing may be renamed in it."""
    storage = MemoryObjects(Objects())
    assert isinstance(storage, VersionedStorage) and not isinstance(storage, RenamingStorage)
