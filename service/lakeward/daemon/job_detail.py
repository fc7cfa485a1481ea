"""What the page of one job shows, put together from the daemon's status and the store.

Touches: the store, reading only.
Keeps:   1. a job that the daemon runs has a page, also before the store knows it;
         2. what the store has of after the status is left out, as on a table's page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeward.base.errors import UsageError
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.status import EventStatus, JobPage, JobProgress, JobWait, ServiceStatus
from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.decision import Choice, Decision
from lakeward.services.compaction.plan.decision_in_words import decision_of
from lakeward.state.records import DecisionRecord, JobRecord
from lakeward.surface.documents import progress_of
from lakeward.surface.store_answers import StoreAnswers

CHOSEN_SHOWN = 50
"""File groups of a compaction that its page has."""


def job_detail(status: ServiceStatus, stored: StoreAnswers, job_id: str) -> JobPage | None:
    """None for a job that neither the daemon nor the store knows."""
    running = next((job for job in status.running if job.id == job_id), None)
    try:
        answer = stored.job(job_id)
    except UsageError:
        return None if running is None else _unknown_to_the_store(status, running)
    record, card = answer.record, answer.card
    if running is not None and record.ended_at is not None:
        record, card = replace(record, ended_at=None, result=None, error=None, figures={}), None
    trail = stored.trail(record)
    chosen, total = _chosen(record, trail.chosen)
    return JobPage(
        record=record,
        at=status.at,
        table=status.table(record.table),
        running=running,
        progress=_progress(status, record),
        card=card,
        attempts=tuple(each for each in trail.attempts if (each.ended_at or 0.0) <= status.at),
        events=tuple(EventStatus(each.at, each.kind, each.text) for each in trail.events if each.at <= status.at),
        cleans=tuple(answer.cleans or ()),
        chosen=chosen,
        chosen_total=total,
        spark=None if running is None else status.spark,
    )


def _unknown_to_the_store(status: ServiceStatus, job: Job) -> JobPage:
    record = JobRecord(
        job.id,
        job.table,
        job.service.value,
        job.started_at,
        operations=job.operations,
        read_bytes=job.read_bytes,
        write_bytes=job.write_bytes,
        memory_bytes=job.memory_bytes,
    )
    table = status.table(job.table)
    return JobPage(record, status.at, table, job, _progress(status, record), None, spark=status.spark)


def _progress(status: ServiceStatus, record: JobRecord) -> JobProgress | None:
    """What this daemon says, and of a job of another one what the store has of it."""
    here = next((table.progress[record.id] for table in status.tables if record.id in table.progress), None)
    if here is not None or record.ended_at is not None:
        return here
    said = progress_of(record)
    if not said:
        return None
    wait = JobWait(said["waiting_for"], said["waiting_since"]) if "waiting_for" in said else None
    return JobProgress(": ".join(filter(None, (said.get("step", ""), said.get("sentence", "")))), wait=wait)


def _chosen(record: JobRecord, decided: Sequence[DecisionRecord]) -> tuple[tuple[Decision, ...], int]:
    """What a compaction began with, the most bytes of logs first; and how many there were."""
    if record.service != JobKind.COMPACTION:
        return (), 0
    decisions = filter(None, map(decision_of, decided))
    found = [each for each in decisions if each.choice is not Choice.NONE]
    found.sort(key=lambda each: (-each.numbers.get("log_bytes", 0), each.partition_path, each.file_id))
    return tuple(found[:CHOSEN_SHOWN]), len(found)
