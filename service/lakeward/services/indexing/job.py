"""Indexes as a service of the daemon: is one to be brought up to date, compared or checked, and the job that does all
of it.

    upkeep/statuses       which indexes the table has, and what is known of each
    upkeep/updates        Lakeward's own, and its cache of filters, follow the commits of every writer
    upkeep/comparisons    one on trial is compared with the one that writes use
    upkeep/inserts        keys that a commit put into base files although logs have them
    removals              indexes of the metadata table that Lakeward built and a Hudi writer removed soon: an event
    upkeep/checks         a sample of rows and entries, now and then
    upkeep/tasks          what of it runs elsewhere

Touches: what these touch.
Keeps:   what goes wrong with one index, or with an update, keeps no other one and no check back; then the job fails.
See:     docs/decisions/0084-the-daemon-keeps-indexes-at-pace.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Refused, Unsupported
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.metadata.build_notes import note_removals
from lakeward.protocol.metadata.writers_removal import WritersRemoval, find_removals
from lakeward.protocol.problem import problem_of
from lakeward.protocol.progress import Engine
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.indexing.index_memory import IndexCare, IndexMemory, IndexStatus, TeeStatus
from lakeward.services.indexing.metrics import METRICS
from lakeward.services.indexing.settings import IndexSettings
from lakeward.services.indexing.upkeep.checks import check_indexes, is_check_due, see_indexes
from lakeward.services.indexing.upkeep.comparisons import compare_tee, describe_comparison, find_tee, is_comparison_due
from lakeward.services.indexing.upkeep.inserts import commits_to_look_through, describe_look, look_for_doubled_keys
from lakeward.services.indexing.upkeep.statuses import find_builds, find_indexes, find_log_coverage
from lakeward.services.indexing.upkeep.tasks import IndexTasks
from lakeward.services.indexing.upkeep.updates import decide_update, describe_due, update_indexes
from lakeward.services.service import (
    Care,
    JobOrder,
    JobTraits,
    Service,
    ServiceDemand,
    StoredIndexes,
    TableFacts,
    TableRules,
)
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

_BUILD_LOOK_SECONDS = 60.0
_BUILD_RESTS_AFTER = 900.0
"""A build in which nothing was read for so long is looked at with the other plans of the table."""


class IndexService(Service[IndexSettings]):
    kind = JobKind.INDEX
    permission = TableService.INDEXING
    jobs: Final = {JobKind.INDEX: JobTraits(rank=1, takes_memory=True, writes=False)}
    metrics = METRICS

    def rules(self, table: TableRules) -> IndexSettings:
        return table.section(IndexSettings)

    def new_memory(self) -> IndexMemory:
        return IndexMemory()

    def demand(self, facts: TableFacts, care: Care[IndexSettings]) -> Mapping[JobKind, ServiceDemand]:
        base_path = facts.snapshot.base_path
        return {self.kind: _demand(_indexed(facts.storage, base_path, care, facts.database, facts.clock), facts)}

    def run(self, table: ServicedTable, care: Care[IndexSettings], order: JobOrder) -> JobReport:
        """Bring up to date what was due at the plan, compare the one on trial with the other one, and check what is
        due. An index that is found to be wrong is no failure of the job: it found it."""
        tasks = IndexTasks(table, care.rules, order)
        indexed = _indexed(table.storage, table.base_path, care, order.database, table.clock)
        updates = update_indexes(indexed.memory.indexes, tasks)
        compared = compare_tee(indexed, tasks, left=updates.left)
        looked = look_for_doubled_keys(indexed, tasks)
        checks = check_indexes(indexed, tasks, table_bytes=order.table_bytes)
        removed = _note_removals(indexed, order)
        figures = JobFigures(
            index_commits=updates.commits,
            index_keys_verified=checks.keys,
            index_keys_wrong=checks.wrong,
            tee_keys_compared=compared.keys,
            tee_keys_wrong=compared.wrong,
            spark_jobs=tasks.engines.count(Engine.SPARK),
        )
        problems = (*updates.problems, *compared.problems, *looked.problems, *checks.problems)
        did_something = updates.did_something or compared.commits or looked.was_due or checks.done or removed
        result = JobResult.COMMITTED if did_something else JobResult.NOTHING
        return JobReport(
            JobResult.FAILED if problems else result,
            figures,
            problems=problems,
            reasons=(*updates.reasons, *compared.reasons, *checks.reasons, *removed),
        )

    def concerns(self, memory: IndexMemory) -> Sequence[str]:
        found = []
        for index in memory.indexes:
            if index.wrong or index.out_of_use:
                found.append(f"index {index.name} is wrong")
            elif index.problem:
                found.append(f"index {index.name} cannot be read")
        if memory.tee is not None and memory.tee.tee.wrong:
            found.append(f"index {memory.tee.shadow_name}, on trial, was wrong")
        return [*found, *(f"a Hudi writer removed {each.partition}" for each in memory.removed)]


def _indexed(
    storage: Storage, base_path: str, care: Care[IndexSettings], database: StoredIndexes, clock: Clock
) -> IndexCare:
    return IndexCare(storage, base_path, care.rules, care.memory, care.may_write, database, clock)


def _demand(table: IndexCare, facts: TableFacts) -> ServiceDemand:
    """Whether indexes are to be brought up to date, compared or checked. What the table has of them, and how far builds
    are, is remembered for pages and metrics; of a build in which something was read lately the next look comes soon."""
    memory, snapshot, now = table.memory, facts.snapshot, table.clock.now()
    memory.indexes = indexes = tuple(
        replace(index, update=decide_update(index, table)) if index.type.is_kept else index
        for index in find_indexes(table, snapshot)
    )
    memory.builds = builds = find_builds(table, snapshot)
    memory.logs = find_log_coverage(table, snapshot, indexes)
    memory.tee = tee = find_tee(table, snapshot)
    memory.unlooked, unreadable = _unlooked(table, snapshot)
    memory.removed = removed = find_removals(facts.storage, snapshot)
    see_indexes(table)
    due = describe_due(indexes)
    if tee is not None and is_comparison_due(tee):
        due.append(describe_comparison(tee))
    if memory.unlooked[0]:
        due.append(describe_look(memory.unlooked[0]))
    if table.may_write:
        due += [f"The removal of {each.partition} is to be noted" for each in removed if not each.is_noted]
    due += [
        f"The index {index.name} is to be compared with the rows" for index in indexes if is_check_due(index, table)
    ]
    if due:
        return ServiceDemand(True, ". ".join(due))
    updates = [*(index.update for index in indexes), None if tee is None else tee.due]
    times = [update.due_at for update in updates if update is not None and update.due_at is not None]
    if any(now - build.newest_at < _BUILD_RESTS_AFTER for build in builds.values()):
        times.append(now + _BUILD_LOOK_SECONDS)
    trouble = " ".join(filter(None, (_describe_trouble(indexes, tee), *map(_describe_removal, removed), unreadable)))
    return ServiceDemand(False, trouble, due_at=min(times, default=None))


def _unlooked(table: IndexCare, snapshot: TableSnapshot) -> tuple[tuple[int, int], str]:
    """What is to be looked through, or why that is unknown."""
    try:
        return commits_to_look_through(table, snapshot), ""
    except (BrokenFile, Refused, Unsupported) as error:
        return (0, 0), f"Whether commits doubled keys of logs is unknown. {problem_of(error).text}"


def _note_removals(table: IndexCare, order: JobOrder) -> list[str]:
    """Note what was found at the plan and is not noted yet, with a sentence for each."""
    new = {each.partition for each in table.memory.removed if not each.is_noted}
    if not new or not table.may_write:
        return []
    table.memory.removed = noted = note_removals(table.storage, order.scanned())
    return [_describe_removal(each) for each in noted if each.partition in new]


def _describe_removal(removal: WritersRemoval) -> str:
    return f"The index {removal.partition} of the metadata table is gone. {removal.why}"


def _describe_trouble(indexes: tuple[IndexStatus, ...], tee: TeeStatus | None) -> str:
    wrong = [
        f"The index {index.name} is wrong{f' in {index.wrong:,} of {index.checked:,} keys' if index.wrong else ''}: "
        f"writers that use it insert rows again, or miss them. {index.out_of_use}".rstrip()
        for index in indexes
        if index.wrong or index.out_of_use
    ]
    unknown = [f"What the index {each.name} lacks is unknown. {each.problem}" for each in indexes if each.problem]
    if tee is not None and tee.tee.wrong:
        wrong.append(f"The index {tee.shadow_name} is on trial, and was wrong. {tee.tee.summary}")
    if tee is not None and tee.tee.shadow is None:
        unknown.append(f"The choice of the table's indexes cannot be read. {tee.against}")
    return " ".join([*wrong, *unknown])


SERVICE = IndexService()
