"""Files on their way out of the table, and back."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Conflict, LakewardError
from lakeward.protocol.quarantine import FileRemoval, begin_purge, begin_undo, bring_back, find_missing, purge
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.quarantine import (
    QuarantinedFile,
    QuarantinedRun,
    QuarantineKind,
    load_quarantine,
    quarantined_path,
    run_folder,
)
from tests.faults import FaultKind, FaultyStorage, Killed, faults_of
from tests.memory_objects import MemoryObjects, Objects
from tests.runs import spread

RUN = "20260701000000000"
UNDO = "20260702000000000"
FILES = (QuarantinedFile("p=1/q=2", "a.parquet", 1), QuarantinedFile("", "b.parquet", 2))


def files_in(base: Path) -> dict[str, bytes]:
    return {str(path.relative_to(base)): path.read_bytes() for path in base.rglob("*") if path.is_file()}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "table"
    for file in FILES:
        path = base / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.name[: file.size].encode())
    (base / ".hoodie").mkdir()
    return base


def keep(base: Path | str, storage: Storage, *files: QuarantinedFile) -> FileRemoval:
    removal = FileRemoval(storage, str(base))
    removal.keep(RUN, files or FILES, kind=QuarantineKind.CLEAN, attempt=7, since=100.0, keep_until=200.0)
    return removal


def found(base: Path | str, storage: Storage | None = None) -> QuarantinedRun:
    run = load_quarantine(storage or LocalStorage(), str(base)).find(RUN)
    assert run is not None
    return run


def test_what_comes_back_is_what_went(base: Path):
    """Moved out and back, each file has the bytes that it had, and its time. Keeps 2 of protocol/quarantine."""
    before = files_in(base)
    times = {file.path: (base / file.path).stat().st_mtime_ns for file in FILES}
    keep(base, LocalStorage()).take(file.path for file in FILES)
    assert not any((base / file.path).exists() for file in FILES)
    assert found(base).bytes == 3 and find_missing(LocalStorage(), str(base), found(base)) == []

    bring_back(LocalStorage(), str(base), RUN, found(base).files)
    assert {file.path: (base / file.path).read_bytes() for file in FILES} == before
    assert {file.path: (base / file.path).stat().st_mtime_ns for file in FILES} == times


def test_a_manifest_names_a_file_before_it_leaves_its_place(base: Path):
    """Stopped at any call, a file is in its place, or in the quarantine of a run that names it. Keeps 1 of
    protocol/quarantine."""
    unhurt = FaultyStorage()
    copy = Path(shutil.copytree(base, base.with_name("whole")))
    keep(copy, unhurt).take(file.path for file in FILES)
    for kind in FaultKind:
        for fault in spread(faults_of(kind, unhurt.calls)):
            trial = Path(shutil.copytree(base, base.with_name(f"{kind}{fault.call}")))
            storage = FaultyStorage(fault)
            with suppress(LakewardError, OSError, Killed):
                keep(trial, storage).take(file.path for file in FILES)
            run = load_quarantine(LocalStorage(), str(trial)).find(RUN)
            for file in FILES:
                if not (trial / file.path).exists():
                    assert run is not None and file in run.files, (kind, fault)
                    assert Path(quarantined_path(str(trial), RUN, file.path)).stat().st_size == file.size


def test_where_nothing_is_moved_files_stay_but_those_of_replaced_groups():
    """In an object store the manifest alone says what goes; a replaced file would be read again, so it goes now."""
    store = MemoryObjects(Objects())
    replaced = QuarantinedFile("", "c.parquet", 1, replaced_by="20260101000000000")
    for file in (*FILES, replaced):
        store.create(f"s3://lake/{file.path}", b"x" * file.size)
    keep("s3://lake", store, *FILES, replaced).take(file.path for file in (*FILES, replaced))

    assert all(store.stat(f"s3://lake/{file.path}") for file in FILES)
    assert store.stat(f"s3://lake/{replaced.path}") is None
    run = found("s3://lake", store)
    assert run.in_place and {file.path for file in run.files} == {file.path for file in FILES}


def test_of_a_purge_and_an_undo_one_goes_on(base: Path):
    """Each says that it begins before it looks for the other. Keeps 3 of protocol/quarantine."""
    keep(base, LocalStorage()).take(file.path for file in FILES)
    before = found(base)
    begin_undo(LocalStorage(), str(base), RUN, UNDO)
    assert begin_purge(LocalStorage(), str(base), before) is False
    assert found(base).undone_by == UNDO and not found(base).is_purging

    Path(run_folder(str(base), RUN), f"undo-{UNDO}").unlink()
    assert begin_purge(LocalStorage(), str(base), found(base)) is True
    with pytest.raises(Conflict, match="being deleted"):
        begin_undo(LocalStorage(), str(base), RUN, UNDO)
    assert found(base).is_purging and found(base).undone_by is None


def test_a_run_whose_manifest_cannot_be_read_is_not_purged(base: Path):
    """It is reported, and begins no purge; so is one that lost its manifest. Keeps 4 of protocol/quarantine."""
    keep(base, LocalStorage()).take(file.path for file in FILES)
    before = found(base)
    manifest = Path(run_folder(str(base), RUN), "manifest-7")
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-3])
    assert "not a readable manifest" in (found(base).problem or "")
    assert begin_purge(LocalStorage(), str(base), before) is False

    manifest.write_bytes(whole.replace(b'"p=1/q=2"', b'"../../etc"'))
    assert found(base).problem is not None
    manifest.unlink()
    assert "no manifest" in (found(base).problem or "") and not found(base).is_purging


def test_a_purge_that_was_stopped_is_ended_by_the_next(base: Path):
    """At each call, in whatever order the storage lists: what is left says that it is going, and the next purge leaves
    nothing. Keeps 5 of protocol/quarantine."""
    keep(base, LocalStorage()).take(file.path for file in FILES)

    def purged(trial: Path, storage: Storage) -> None:
        run = load_quarantine(storage, str(trial)).find(RUN)
        if run is not None and begin_purge(storage, str(trial), run):
            purge(storage, str(trial), run, ())

    class Backwards(FaultyStorage):
        def list(self, folder: str) -> list[FileStatus]:
            return sorted(super().list(folder), key=lambda status: status.name, reverse=True)

    unhurt = Backwards()
    purged(Path(shutil.copytree(base, base.with_name("whole"))), unhurt)
    for kind in (FaultKind.BEFORE, FaultKind.KILL, FaultKind.LOST_REPLY):
        for fault in faults_of(kind, unhurt.calls):
            trial = Path(shutil.copytree(base, base.with_name(f"{kind}{fault.call}")))
            with suppress(LakewardError, OSError, Killed):
                purged(trial, Backwards(fault))
            left = load_quarantine(LocalStorage(), str(trial)).find(RUN)
            assert left is None or left.problem is None, (kind, fault)
            is_whole = left is not None and find_missing(LocalStorage(), str(trial), left) == []
            assert left is None or left.is_purging or is_whole, "a run without its files says that it is purged"
            purged(trial, LocalStorage())
            assert not Path(run_folder(str(trial), RUN)).exists(), (kind, fault)


def test_a_process_that_wakes_up_after_a_purge_moves_nothing(base: Path):
    """The folders are made once, so what a stopped process still moves finds none."""
    removal = keep(base, LocalStorage())
    purge(LocalStorage(), str(base), found(base), ())
    with pytest.raises(AttemptLost):
        removal.take(file.path for file in FILES)
    assert all((base / file.path).exists() for file in FILES)


def test_two_files_of_one_name_are_shown(base: Path):
    """A file in its place with another size is not deleted."""
    keep(base, LocalStorage()).take(file.path for file in FILES)
    (base / FILES[1].path).write_bytes(b"other bytes")
    with pytest.raises(Conflict, match="two files"):
        keep(base, LocalStorage()).take(file.path for file in FILES)
    assert (base / FILES[1].path).read_bytes() == b"other bytes"
