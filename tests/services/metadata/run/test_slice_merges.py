"""Slices of the metadata table are merged by tasks: elsewhere as here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from benchmarks.metadata_compaction import fill
from lakeward.base.errors import Cancelled, TaskFailed, VerificationFailed
from lakeward.base.paths import join
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.local import LocalDispatcher, places_of_machine
from lakeward.engine.task.entry import merge_metadata_slice_at
from lakeward.engine.task.metadata_merge import merge_metadata_slice
from lakeward.engine.task.metadata_merge_spec import MergedMetadata, MetadataMergeSpec
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.services.metadata.plan.metadata_due import find_backlog
from lakeward.services.metadata.run.compaction import MetadataCompactor
from lakeward.services.metadata.run.metadata_round import in_this_process
from lakeward.services.metadata.run.slice_merges import MergeTasks, merge_metadata_slices
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA
from tests.processes import ScriptedProcesses
from tests.services.bench import Watcher
from tests.services.metadata.run.compacting_metadata import compact_metadata, serviced_table
from tests.services.metadata.run.test_compaction import (
    compactions,
    metadata_leftovers,
    records,
    scan_metadata,
    slices_of,
)

RunTask = Callable[[MetadataMergeSpec, int], MergedMetadata | None]


def processes_of(base: Path, run_task: RunTask | None = None) -> MergeTasks:
    """Two processes of this machine."""
    dispatcher = LocalDispatcher(places_of_machine(), memory_bytes=256 * 1024**2)
    return MergeTasks(lambda size: dispatcher, run_task or partial(merge_metadata_slice_at, str(base)))


def content_of(base: Path) -> dict[str, bytes]:
    """The bytes of each newest base file, by its file group."""
    return {
        file_id: Path(join(str(base / METADATA), slice_.base_file.path)).read_bytes()
        for (_, file_id), slice_ in slices_of(base).items()
        if slice_.base_file is not None
    }


def specs_of(base: Path, folder: Path) -> list[MetadataMergeSpec]:
    """A merge of each slice with logs, as of a compaction that is not published."""
    table = scan_metadata(base)
    (slice_,) = (each for each in table.slices[RECORD_INDEX] if each.base_file is not None and each.log_files)
    with (base / METADATA / slice_.base_file.path).open("rb") as file:  # type: ignore[union-attr]
        schema = HFileReader(file, length=slice_.base_bytes, name="base").info["schema"].decode()
    return [
        MetadataMergeSpec(
            table.base_path,
            table.valid_instants,
            slice_,
            schema,
            "20990101000000000",
            str(folder),
            index,
            7,
            verify=True,
        )
        for index, slice_ in enumerate(find_backlog(table).slices)
    ]


def test_elsewhere_as_here(tmp_path: Path) -> None:
    """In processes of this machine the base files are those of one process, byte by byte, and nothing is left."""
    here, there = (copy_golden(GOLDEN, tmp_path / name) for name in ("here", "there"))
    before = records(here)
    assert compact_metadata(here, LocalStorage()) is not None
    table = serviced_table(str(there), LocalStorage(), ScriptedProcesses())
    done = MetadataCompactor(table, {}, processes_of(there)).compact()
    assert done is not None and done.file_groups > 1
    assert records(there) == records(here) == before
    assert content_of(there) == content_of(here)
    assert metadata_leftovers(there) == []


def fails_of_files(base: Path, spec: MetadataMergeSpec, task_attempt: int) -> MergedMetadata | None:
    if spec.index == 1:
        raise VerificationFailed("It is another file.")
    return merge_metadata_slice_at(str(base), spec, task_attempt)


def breaks(spec: MetadataMergeSpec, task_attempt: int) -> MergedMetadata | None:
    if spec.index == 1:
        raise ZeroDivisionError
    return None


def test_a_task_that_fails(tmp_path: Path) -> None:
    """Keeps 1 of services/metadata/run/slice_merges: its error names the file group, and nothing is published."""
    base = copy_golden(GOLDEN, tmp_path / "t")
    before, own = records(base), compactions(base)
    second = find_backlog(scan_metadata(base)).slices[1].group_id
    for run_task, error in ((partial(fails_of_files, base), VerificationFailed), (breaks, TaskFailed)):
        table = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
        with pytest.raises(error) as failed:
            MetadataCompactor(table, {}, processes_of(base, run_task)).compact()
        assert failed.value.file_group == second
        assert records(base) == before and compactions(base) == own and metadata_leftovers(base) == []


def test_progress(tmp_path: Path) -> None:
    """Keeps 2 of services/metadata/run/slice_merges: the guard stops it. Bytes and slices grow to their totals, also
    where tasks are on other machines."""
    base = copy_golden(GOLDEN, tmp_path / "t")
    folder = tmp_path / "folder"

    class Elsewhere(InProcessDispatcher):
        is_on_this_machine = False

    for number, dispatcher in enumerate((InProcessDispatcher(), Elsewhere())):
        (folder / str(number)).mkdir(parents=True)
        watcher = Watcher()
        table = replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), observer=watcher)
        specs = specs_of(base, folder / str(number))
        tasks = MergeTasks(lambda size, it=dispatcher: it, in_this_process(LocalStorage()).run_task)  # type: ignore[misc]
        made = merge_metadata_slices(table, specs, tasks, name="compaction")
        assert len([each for each in made if each is not None]) > 1
        seen = [(state.operations, state.input_bytes) for state in watcher.states]
        assert seen == sorted(seen) and seen[0] == (0, 0)
        total = sum(spec.input_bytes for spec in specs)
        assert seen[-1] == (len(specs), total)
        assert any(0 < input_bytes < total for _, input_bytes in seen)

    def stop() -> None:
        raise Cancelled("Stopped.")

    table = replace(table, guard=stop)
    with pytest.raises(Cancelled):
        merge_metadata_slices(table, specs, tasks, name="compaction")


def test_what_a_task_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of engine/task/metadata_merge: a file that reads back otherwise is no result, but where the operator
    waives that; two attempts of a task do not meet, and without the attempt's folder nothing is written."""
    base = copy_golden(GOLDEN, tmp_path / "t")
    folder = tmp_path / "folder"
    folder.mkdir()
    spec = max(specs_of(base, folder), key=lambda each: each.input_bytes)
    storage: Storage = LocalStorage()
    made = [merge_metadata_slice(storage, spec, attempt) for attempt in (0, 1)]
    names = [each.file_name for each in made if each is not None]
    assert sorted(names) == sorted(path.name for path in folder.iterdir()) and len(set(names)) == 2
    assert (folder / names[0]).read_bytes() == (folder / names[1]).read_bytes()
    monkeypatch.setattr("lakeward.format.metadata.base_file.read_digest", lambda *of: -1)
    with pytest.raises(VerificationFailed, match="does not hold what was written"):
        merge_metadata_slice(storage, spec, 2)


class Measured:
    """Remembers how much was asked for at once."""

    def __init__(self, file: BinaryIO, sizes: list[int]) -> None:
        self._file = file
        self._sizes = sizes

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._sizes.append(len(data))
        return data

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def __enter__(self) -> Measured:
        return self

    def __exit__(self, *of: object) -> None:
        self._file.close()


class MeasuredStorage(LocalStorage):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def open_input(self, path: str) -> BinaryIO:
        return cast(BinaryIO, Measured(super().open_input(path), self.sizes))


def test_a_block_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of engine/task/metadata_merge: of a base file and a log that is not small no more than a block is read at
    once, nor of the new file."""
    monkeypatch.setattr("lakeward.table.metadata.metadata_reader._WHOLE_BYTES_MAX", 1024)
    base = copy_golden(GOLDEN, tmp_path / "t")
    fill(base / METADATA / RECORD_INDEX, records=60_000, updates=40_000)
    folder = tmp_path / "folder"
    folder.mkdir()
    spec = max(specs_of(base, folder), key=lambda each: each.input_bytes)
    assert min(spec.slice.base_bytes, spec.slice.log_bytes) > 512 * 1024
    storage = MeasuredStorage()
    made = merge_metadata_slice(storage, spec, 0)
    assert made is not None and made.entries == 60_000
    assert sum(storage.sizes) > spec.input_bytes and max(storage.sizes) < 128 * 1024
