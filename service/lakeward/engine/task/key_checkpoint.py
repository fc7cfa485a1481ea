"""Read the keys of one file slice and leave them, sorted, in the folder of a build, as it runs in a task or in process.

    slice -> its keys -> sorted runs -> each key once -> a file under a name of its own -> the checkpoint's name

Two tasks may be at the same slice: a second attempt, or another build. In a file system the one that is done first
gives its file the name, and the other's goes; in an object store the one may replace the other, with the same keys.

Touches: the slice's files, reading; the folder of the build; spill files.
Keeps:   1. a file has the name of a checkpoint only when it is whole;
         2. memory is bounded: what merging the slice takes, and in place of the rows that a merge would write a run of
            keys to sort, or where no logs are merged in place of these;
         3. no more is read in a second than the task may read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from secrets import token_hex

import pyarrow as pa

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.errors import AlreadyExists
from lakeward.base.paths import join
from lakeward.engine.task.key_checkpoint_spec import CheckpointSpec
from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.engine.task.work_counters import WorkMeter
from lakeward.format.metadata.secondary_keys import secondary_index_keys
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.key_checkpoints import KeyCheckpoint, write_keys
from lakeward.index.location import KEY_COLUMN, differs
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.merge.runs.spilled_run import RawRun
from lakeward.merge.runs.whole_keys import whole_keys
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_keys import slice_keys
from lakeward.read.slice_scan import slice_rows
from lakeward.storage.metered import MeteredStorage
from lakeward.storage.storage import RenamingStorage, Storage


def make_checkpoint(
    storage: Storage, spec: CheckpointSpec, task_attempt: int, *, clock: Clock | None = None
) -> KeyCheckpoint:
    """Raises what reading keys raises, and `SpillFailed`."""
    use_tight_pool()
    limit = RateLimit(spec.bytes_per_second, clock=clock or SystemClock())
    meter = WorkMeter(spec.counters)
    source = meter.reading(storage if spec.bytes_per_second is None else MeteredStorage(storage, on_read=limit.take))
    for by_order in (True, False):
        sorter = RecordSorter(
            KEY_COLUMN,
            name="keys of an index",
            is_base=False,
            memory_bytes=_sorting_bytes(spec),
            folder=None,
        )
        rows = 0
        try:
            for keys in _keys(source, spec, by_order=by_order):
                sorter.add(pa.RecordBatch.from_arrays([keys], schema=KEY_COLUMN), block=spec.digest)
                rows += len(keys)
            meter.finish()
            limit.take(0)  # of a small slice all is one reading, which the next task must not begin with again at once
            return _put(storage, spec.folder, KeyCheckpoint(spec.digest, rows), _each_once(sorter))
        except NotSorted:
            # A base file says that it is sorted, and is not: what was found so far may be wrong.
            assert by_order, "without its order nothing is relied on"
        finally:
            sorter.close()
    raise AssertionError("the second round returns or raises")


def _sorting_bytes(spec: CheckpointSpec) -> int:
    """Keys may take what logs would, in a slice that has none."""
    budget = MemoryBudget(spec.memory_bytes)
    return budget.runs if not spec.slice_.row_logs else budget.row_group


def _keys(source: Storage, spec: CheckpointSpec, *, by_order: bool) -> Iterator[pa.StringArray]:
    if spec.column is None:
        yield from slice_keys(source, spec.reading, spec.slice_, by_order=by_order, memory_bytes=spec.memory_bytes)
        return
    query = SliceQuery((RECORD_KEY_FIELD, spec.column))
    for batch in slice_rows(
        source, spec.reading, spec.slice_, query, memory_bytes=spec.memory_bytes, by_order=by_order
    ):
        yield secondary_index_keys(batch.column(RECORD_KEY_FIELD), batch.column(spec.column))


def _each_once(sorter: RecordSorter) -> Iterator[pa.Array]:
    for batch in whole_keys([RawRun(run) for run in sorter.finish()]):
        keys = batch.column(0)
        yield keys.filter(pa.array(differs(keys)))


def _put(storage: Storage, folder: str, made: KeyCheckpoint, keys: Iterator[pa.Array]) -> KeyCheckpoint:
    """The keys as the checkpoint, or the one that another task put there meanwhile."""
    storage.make_folder(folder)
    path = join(folder, made.name)
    with suppress(AlreadyExists):
        if not isinstance(storage, RenamingStorage):
            with storage.open_output(path) as sink:
                write_keys(sink, keys)
        else:
            under_way = join(folder, f".{made.name}.{token_hex(8)}")
            try:
                with storage.open_output(under_way) as sink:
                    write_keys(sink, keys)
                storage.rename(under_way, path)
            except BaseException:
                with suppress(OSError):
                    storage.delete(under_way)
                raise
    return made
