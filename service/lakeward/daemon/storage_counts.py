"""When it is worth the time to count again what a table's storage is held by, and the counting.

    a plan           the table changed: the count is behind
    then, or a poll  where it is behind and the time has come a count begins, in a work of its own

A count goes over all files and asks for all of their slices whether a clean would take them, so no poll and no plan
waits for it, and it comes no sooner than a thousand times of what the one before took.

Touches: storage, reading only: the quarantine's manifests, and the watermarks of consumers.
Keeps:   1. counting takes no more than a thousandth of a core for each table, and nothing for one that does not change.
"""

from __future__ import annotations

from dataclasses import replace

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import StorageSample
from lakeward.daemon.table_cache import TableCache
from lakeward.protocol.job_kind import JobKind
from lakeward.services.clean.job import CleanMemory
from lakeward.services.clean.plan.decision import CleanOutcome
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.services.clean.plan.storage_states import storage_states
from lakeward.services.clean.run.clean_choice import CleanChoice, find_retention
from lakeward.services.clean.settings import CleanSettings
from lakeward.storage.storage import Storage
from lakeward.table.quarantine import load_quarantine
from lakeward.table.snapshot import TableSnapshot

SECONDS_MIN = 60.0
"""Between two counts of a table."""
TIMES_ITS_COST = 1000.0


def sample_storage(
    storage: Storage, table: ServedTable, snapshot: TableSnapshot, cache: TableCache, *, clock: Clock
) -> StorageSample:
    """A count of the table as it is."""
    began = clock.monotonic()
    memory: CleanMemory = cache.memory(JobKind.CLEAN)
    options, known = table.settings.section(CleanSettings).options, dict(memory.retentions)
    retention = find_retention(storage, snapshot, options, cache=known)
    memory.retentions = known
    outcome = CleanOutcome(CleanPolicy(), None, "", ())
    if retention.policy is not None:
        options = replace(options, policy=retention.policy)
        outcome = CleanChoice(storage, snapshot.base_path, options, clock=clock).outcome(snapshot)
    states = storage_states(snapshot, outcome, load_quarantine(storage, snapshot.base_path))
    sample = StorageSample(
        clock.now(), {state.value: total.bytes for state, total in states.items()}, outcome.consumers
    )
    took = clock.monotonic() - began
    cache.keep_storage(sample, due_at=began + max(SECONDS_MIN, took * TIMES_ITS_COST))
    return sample


def count_storage(
    storage: Storage, table: ServedTable, snapshot: TableSnapshot, cache: TableCache, *, clock: Clock
) -> StorageSample | None:
    """The same; None also where something in it is broken, which plans and jobs say."""
    try:
        return sample_storage(storage, table, snapshot, cache, clock=clock)
    except LakewardError:
        return None
