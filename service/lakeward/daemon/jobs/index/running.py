"""A task on an index: its spec, made from the table's settings, and the run of it on an engine.

Touches: what runs the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakeward.base.errors import LakewardError, TaskFailed
from lakeward.daemon.jobs.index.tasks import IndexSpec
from lakeward.daemon.served_table import ServedTable
from lakeward.engine.dispatch.dispatcher import Dispatcher, Failure
from lakeward.index.index_type import IndexType
from lakeward.protocol.job_report import WorkProblem
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.problem import problem_of
from lakeward.services.indexing.settings import record_options_of
from lakeward.table.listing_source import listing_source

S = TypeVar("S")
R = TypeVar("R")


def index_spec(type_: IndexType, base_path: str, table: ServedTable, store_url: str) -> IndexSpec:
    settings = table.settings
    listing, record = listing_source(base_path), record_options_of(settings)
    return IndexSpec(type_, settings.timezone, listing, record, store_url if type_ is IndexType.POSTGRES else "")


def problem_with(index: str, what: str, error: LakewardError) -> WorkProblem:
    """What one index failed with, by its name.

    A file group that the error names is the index's trouble alone: compaction judges it by itself.

    Args:
        index: its name.
        what: what was not done.
    """
    problem = problem_of(error)
    return WorkProblem(problem.kind, f"The index {index} was not {what}. {problem.text}")


def run_task(
    dispatcher: Dispatcher, task: Callable[[S, int], R], spec: S, *, description: str, guard: Guard
) -> R | LakewardError:
    """One task, which may fail. Raises what the guard raises, and what says that the engine died."""
    dispatcher.probe(guard)
    try:
        (outcome,) = dispatcher.run(task, [spec], description=description, on_progress=lambda progress: guard())
    except TaskFailed as error:
        return error
    return outcome.error if isinstance(outcome, Failure) else outcome.result
