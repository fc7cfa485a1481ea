"""Many keys are looked up as tasks of an engine: on processes of this machine, or on Spark.

    keys -> runs by part (`index/lookup_runs`) -> a task each asks the index alone
         -> what it says, in Arrow, under what the index does not have yet

What the index does not have yet stays here: it may be 256 MiB, and each task would get all of it.

Touches: processes of this machine or Spark, by the dispatcher; its tasks read the files of the index.
Keeps:   1. the answers are those of a lookup in this process;
         2. there are as many tasks as the parts that are asked have files, while their keys are worth it.
See:     docs/decisions/0088-a-lookup-as-a-job.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

import pyarrow as pa

from lakeward.engine.dispatch.dispatcher import Dispatcher, Failure, Progress
from lakeward.engine.task.entry import look_up_at
from lakeward.index.index import HashedIndex
from lakeward.index.lookup_runs import RUN_KEYS_MIN, plan_lookup
from lakeward.index.overlay import OverlaidHashed


def look_up_by_job(
    location: str,
    index: HashedIndex,
    keys: pa.Array,
    partitions: Collection[str] | None,
    choose_dispatcher: Callable[[int], Dispatcher],
    *,
    guard: Callable[[], None] = lambda: None,
    on_run: Callable[[int, int], None] = lambda done, of: None,
    run_keys_min: int = RUN_KEYS_MIN,
) -> Iterator[pa.RecordBatch]:
    """The locations of these keys, in `LOCATIONS`, in no order. Raises what the tasks raise.

    Args:
        location: of the table, as tasks open its storage.
        index: as of a snapshot, with what it does not have yet.
        partitions: where the keys are looked for, of an index that is not global; None: in all.
        choose_dispatcher: the dispatcher for so many bytes.
        guard: stops it by raising an error of Lakeward.
        on_run: called with how many runs are done, and of how many.
    """
    alone, overlay = (index.index, index.overlay) if isinstance(index, OverlaidHashed) else (index, None)
    planned = plan_lookup(alone, keys, partitions, run_keys_min=run_keys_min)
    dispatcher = choose_dispatcher(planned.bytes)
    dispatcher.probe(guard)

    def report(progress: Progress) -> None:
        guard()
        on_run(progress.finished, progress.total)

    ask = partial(look_up_at, location, alone)
    outcomes = dispatcher.run(ask, planned.runs, description="keys in an index", on_progress=report)
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise outcome.error
        found = outcome.result.to_batches()
        yield from found if overlay is None else map(overlay.over, found)
    if overlay is not None:
        yield from overlay.own(keys, partitions).to_batches()
