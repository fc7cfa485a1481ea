"""Operations without rows: an output holds the write ids of its inputs, and running it takes time.

Touches the storage as the real operation does (its inputs, one file in the attempt's folder, the mark that it is done),
so that whatever can go wrong with those calls does.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Any

from lakeward.base.errors import LakewardError
from lakeward.base.paths import join
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress
from lakeward.engine.task.operation_output import output_path
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.format.file_name import BaseFileName, parse_log_file
from lakeward.protocol.progress import Engine
from lakeward.read.slice_input import MergeCounts, SliceInput
from lakeward.services.clustering.run.packed_file import PackSpec
from lakeward.storage.storage import Storage
from lakeward.write.handles.stats import created_stat
from lakeward.write.target import TargetResult, WriteContext, WrittenFile
from tests.simulation.data_files import base_file, fold, log_file, read_base_file, read_log_file
from tests.simulation.world import Process, World


def merge_ids(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Stands in for `run_operation`, with sets of ids for rows."""
    ids, sources = _read(storage, spec.slice)
    is_log = spec.kind is OperationKind.LOG
    data = log_file(spec.slice.instant, ids, sources=sources) if is_log else base_file(ids)
    name_text = spec.file_name(task_attempt)
    with storage.open_output(join(spec.attempt_folder, name_text)) as file:
        file.write(data)
    storage.create(spec.place.done_path(task_attempt, rows=len(ids)), b"")
    return OperationResult(
        kind=spec.kind,
        index=spec.index,
        partition_path=spec.slice.partition_path,
        file_id=spec.slice.file_id,
        file_name=name_text,
        size_bytes=len(data),
        counts=no_counts(len(ids)),
        digest="",
        input_bytes=spec.input_bytes,
        seconds=1.0,
    )


def pack_ids(storage: Storage, context: WriteContext, spec: PackSpec, task_attempt: int) -> TargetResult:
    """Stands in for the task of a clustering, in the same way."""
    target, place = spec.target, context.place(spec.target)
    ids = set[int]().union(*(_read(storage, each)[0] for each in spec.slices))
    name, data = BaseFileName(target.file_id, place.token(task_attempt), context.instant).text, base_file(ids)
    with storage.open_output(output_path(storage, place, name)) as file:
        file.write(data)
    storage.create(place.done_path(task_attempt, rows=len(ids)), b"")
    stat = created_stat(
        target, file_id=target.file_id, name=name, size_bytes=len(data), rows=len(ids), deletes=0, seconds=1.0
    )
    written = WrittenFile(name, len(data), stat, (), replaces_base_file=False)
    return TargetResult(target.index, target.partition_path, (written,))


def _read(storage: Storage, slice_: SliceInput) -> tuple[set[int], list[str]]:
    """The ids of a slice, and the instants of the logs that count."""
    logs = []
    for path in slice_.log_files:
        name = parse_log_file(posixpath.basename(path))
        assert name is not None
        logs.append((name.instant, read_log_file(storage.read(join(slice_.base_path, path)))))
    ids, sources = fold(logs)
    if slice_.base_file is not None:
        ids |= read_base_file(storage.read(join(slice_.base_path, slice_.base_file))).ids
    return ids, sources


class SimulatedDispatcher:
    """Runs one spec after the other; each takes seconds to minutes, and some fail."""

    engine = Engine.IN_PROCESS
    parallelism = 1
    is_on_this_machine = True
    name = "the simulation"

    def __init__(self, world: World, process: Process, *, fails: float = 0.0, longest: float = 90.0) -> None:
        self._world = world
        self._process = process
        self._fails = fails
        self.longest = longest
        """Seconds that a task takes at most."""

    def run(
        self,
        task: Callable[[Any, int], Any],
        specs: Sequence[Any],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> list[Done[Any] | Failure]:
        random = self._world.random
        outcomes: list[Done[Any] | Failure] = []
        for index, spec in enumerate(specs):
            self._world.sleep(self._process, random.uniform(0.1, self.longest))
            try:
                if random.random() < self._fails:
                    raise OSError("injected: an executor was lost")
                outcomes.append(Done(index, task(spec, random.randrange(3))))
            except LakewardError as error:
                outcomes.append(Failure(index, error))
            on_progress(Progress(len(outcomes), len(specs)))
        return outcomes

    is_ready = True

    def probe(self, guard: Callable[[], None] = lambda: None) -> None:
        """This process agrees with itself."""


def no_counts(rows: int) -> MergeCounts:
    return MergeCounts(**{name: rows if name == "rows" else 0 for name in MergeCounts.__dataclass_fields__})
