"""The keys of all file groups as locations, by keys: checkpoints in, which are sorted each, one sorted stream out.

    128 checkpoints -> a run; 128 runs -> a run; … -> the last 128 or fewer are merged as they are read

So an index whose entries are sorted takes them as they come, and a database puts them beside each other. Of several
tasks that make the files of an index each merges the keys of its buckets alone.

Touches: the folder of the build, reading, but for a checkpoint that is broken: it is deleted, to be made again; spill
         files.
Keeps:   1. each key comes with each file group that has it, of the same key the file groups in their order, all in one
            batch;
         2. no more than `OPEN_RUNS_MAX` runs of a level are open, each with a frame or two in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.index.key_checkpoints import KeyCheckpoint, read_keys
from lakeward.index.location import LOCATIONS, RECORD_KEY
from lakeward.merge.runs.sorted_run import BaseRun, SortedRun
from lakeward.merge.runs.spilled_run import RawRun, SpilledRun
from lakeward.merge.runs.whole_keys import whole_keys
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId

OPEN_RUNS_MAX: Final = 128
"""Runs that are read at once, of each of which a frame is in memory."""

_PLACED = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field("place", pa.int32())])


Chosen = Callable[[pa.StringArray], npt.NDArray[np.bool_]]
"""Which of some keys are wanted."""


def located_keys(
    storage: Storage, folder: str, made: Sequence[tuple[GroupId, KeyCheckpoint]], instant: str
) -> Iterator[pa.RecordBatch]:
    """In `LOCATIONS`, by keys. Raises `NotFound` for a checkpoint that went or is broken, and `SpillFailed`.

    Args:
        instant: the commit that all locations are said to be of.
    """
    paths, file_ids = (pa.array([group[part] for group, _ in made], pa.string()) for part in (0, 1))
    for rows in placed_keys(storage, folder, [checkpoint for _, checkpoint in made]):
        keys, places = rows.columns
        instants = pa.repeat(pa.scalar(instant, pa.string()), rows.num_rows)
        columns = [keys, paths.take(places), file_ids.take(places), instants]
        yield pa.RecordBatch.from_arrays(columns, schema=LOCATIONS)


def placed_keys(
    storage: Storage, folder: str, made: Sequence[KeyCheckpoint], chosen: Chosen | None = None
) -> Iterator[pa.RecordBatch]:
    """Keys, and in which of the checkpoints each is, by keys. Raises what `located_keys` does.

    Args:
        chosen: which keys come; None for all.
    """
    with _Levels() as levels:
        for place, checkpoint in enumerate(made):
            levels.add(BaseRun(checkpoint.name, _placed(storage, folder, checkpoint, place, chosen), ()))
        yield from _merged(levels.rest())


def _placed(
    storage: Storage, folder: str, checkpoint: KeyCheckpoint, place: int, chosen: Chosen | None
) -> Iterator[pa.RecordBatch]:
    try:
        for keys in read_keys(storage, folder, checkpoint):
            if chosen is not None:
                keys = keys.filter(pa.array(chosen(keys)))
            if len(keys):
                places = pa.array(np.full(len(keys), place, np.int32))
                yield pa.RecordBatch.from_arrays([keys, places], schema=_PLACED)
    except BrokenFile as broken:
        storage.delete(join(folder, checkpoint.name))
        raise NotFound(broken.what, why=broken.why, remedy=broken.remedy) from broken


def _merged(runs: Sequence[SortedRun]) -> Iterator[pa.RecordBatch]:
    yield from whole_keys(runs)


class _Levels:
    """Runs in their order: those of a higher level are before those of a lower one, and are each of 128 of these."""

    def __init__(self) -> None:
        self._levels: list[list[SortedRun]] = []
        self._spilled: list[SpilledRun] = []

    def add(self, run: SortedRun, level: int = 0) -> None:
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) == OPEN_RUNS_MAX:
            self._levels[level] = []
            self.add(self._folded(runs), level + 1)

    def rest(self) -> list[SortedRun]:
        """All that was added, as no more runs than are open at once."""
        while sum(map(len, self._levels)) > OPEN_RUNS_MAX:
            lowest = next(level for level, runs in enumerate(self._levels) if runs)
            runs, self._levels[lowest] = self._levels[lowest], []
            self.add(self._folded(runs), lowest + 1)
        return [run for runs in reversed(self._levels) for run in runs]

    def _folded(self, runs: Sequence[SortedRun]) -> SortedRun:
        spilled = SpilledRun.of(_merged(runs), _PLACED, name="keys of an index", is_base=False, folder=None)
        self._spilled.append(spilled)
        for each in runs:
            if isinstance(each, RawRun):
                each.run.close()
                self._spilled.remove(each.run)
        return RawRun(spilled)

    def __enter__(self) -> _Levels:
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._spilled:
            run.close()
