"""Files that are deleted, by what the storage can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import Conflict
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.storage.local import LocalStorage
from tests.faults import FaultyStorage
from tests.memory_objects import MemoryObjects, Objects


def test_many_files_are_gone_for_good(tmp_path: Path) -> None:
    """Each is one effect; each folder is synced once, after all of them, and only if something was in it."""
    storage = FaultyStorage()
    for folder in ("p", "q", "r"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kept").touch()
    paths = [f"{folder}/{name}" for name in ("a", "b") for folder in ("q", "p")]
    for path in paths:
        (tmp_path / path).touch()
    fencing_of(storage).delete_files(str(tmp_path / path) for path in [*paths, "r/never"])
    calls = [call.replace(f"{tmp_path}/", "") for call in storage.calls]
    assert calls == [*(f"remove {path}" for path in paths), "remove r/never", "sync p", "sync q"]
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["kept"] * 3


def test_in_an_object_store_there_is_nothing_to_sync() -> None:
    """They go in one call, which the store carries out with as few requests as it can."""
    objects = Objects()
    for name in ("a", "b", "c"):
        objects.put(f"s3://lake/{name}", b"")
    storage = MemoryObjects(objects)
    fencing_of(storage).delete_files(["s3://lake/a", "s3://lake/c"])
    assert storage.writes == ["delete s3://lake/a", "delete s3://lake/c"]
    assert list(objects.data) == ["s3://lake/b"]


@pytest.mark.parametrize("store", ["files", "objects"])
def test_a_file_is_replaced_where_it_is_what_was_read(tmp_path: Path, store: str) -> None:
    """Another process's content is never written over; and what is there already is not an error in an object store,
    where the reply to an earlier try may have been lost."""
    storage: LocalStorage | MemoryObjects
    if store == "files":
        storage, path = LocalStorage(), str(tmp_path / "x")
    else:
        storage, path = MemoryObjects(Objects()), "s3://lake/x"
    storage.create(path, b"old")
    with pytest.raises(Conflict, match="changed while it was held"):
        fencing_of(storage).replace_file(path, b"other", b"new")
    assert storage.read(path) == b"old"
    fencing_of(storage).replace_file(path, b"old", b"new")
    assert storage.read(path) == b"new"
    fencing_of(storage).replace_file(path, b"new", b"newer")
    assert storage.read(path) == b"newer"
