"""What the store says of one job, for the command line and the API alike.

Touches: the store, reading only.
"""

from __future__ import annotations

from lakeward.base.clock import Clock
from lakeward.base.errors import UsageError
from lakeward.config.job_card import Card, card_of
from lakeward.state.records import JobRecord
from lakeward.state.store import Store


def find_job(store: Store, job_id: str) -> JobRecord:
    """Raises `UsageError` for one that the store does not know."""
    found = store.jobs.find(job_id)
    if found is None:
        raise UsageError(
            f"There is no job {job_id}.",
            why="The store does not know it; ended jobs are forgotten after 90 days.",
            remedy="Run `lakeward jobs` to see which there are.",
        )
    return found


def card_of_job(store: Store, job: JobRecord, clock: Clock) -> Card | None:
    """None for a job that runs, or was ended by another release."""
    cost = store.jobs.costs(job.table, [job.id]).get(job.id)
    return None if cost is None else card_of(cost, store.jobs.costs_since(job.table, cost.ended_at), now=clock.now())
