"""What the end of a job, or a poll that failed, means for its table: when it is tried again, and what is parked.

    problem        the table                                              a file group that it names
    TEMPORARY      backs off, a little longer every time, for ever        -
    REFUSED        the service is held for retry_max, sooner if the       parked at once
                   timeline changes; a recovery holds the table
    FAILED         backs off; failures_max in a row: PARKED               counted; failures_max in a row: parked
    VERIFICATION   PARKED at once                                         parked at once
    CANCELLED      waits a first back-off, without blame                  -
    LOST           waits a first back-off, without blame                  -

What prevents the metadata table's services is no failure: they alone are tried again after a growing while. So
are rollback and clean, whatever goes wrong with them, unless it is that a result was wrong: compaction goes on.

A problem that names a file group is the group's: the table backs off and goes on without it. A poll or a plan that
failed backs off whatever its problem was, because a poll does no harm and a table never vanishes.

Touches: nothing; time and chance are handed in.
Keeps:   1. every trouble has an end, and a sentence;
         2. what went well forgets all that went before, apart from what is parked;
         3. a delay lies between half of and the whole step, so that tables that failed together come back apart.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TypeVar

from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.events import FactKind, Record
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.scheduling.tracked_table import HELD_ALONE, OWN_TROUBLES, Scan, ServiceRetry, TrackedTable, Trouble
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.services.services import ROUND

_Perhaps = TypeVar("_Perhaps", Trouble, Trouble | None)

_BLAMES_A_GROUP = frozenset({ProblemKind.FAILED, ProblemKind.VERIFICATION, ProblemKind.REFUSED})
_BLAMES_AT_ONCE = frozenset({ProblemKind.VERIFICATION, ProblemKind.REFUSED})
"""A second try would find the same: wrong rows, or what this release does not merge."""
_OWN = frozenset({ProblemKind.TEMPORARY, ProblemKind.REFUSED, ProblemKind.FAILED})
"""What a service of `OWN_TROUBLES` keeps to itself."""


_DOUBLINGS_MAX = 40
"""More than any setting needs; a float of more would overflow."""


def delay(chance: Random, *, first: float, most: float, failures: int) -> float:
    """Seconds to wait after that many failures in a row, at least one.

    How long to wait before the next try: twice as long after every failure, up to a most, and never all at once.
    """
    step = min(most, first * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
    return step * chance.uniform(0.5, 1.0)


def settle(table: TrackedTable, job: Job, report: JobReport, now: float, chance: Random) -> list[Record]:
    """The table after its job has ended, and what is worth remembering."""
    records = blame_groups(table, report, now)
    service = job.service
    table.refused_jobs.pop(service, None)
    if service in ROUND:
        table.served = service
    if report.result is JobResult.FAILED:
        problem = _problem_of(job, report)
        if service in OWN_TROUBLES and problem.kind in _OWN:
            return records + _retry_service(table, service, problem.text, now, chance)
        return records + _react(table, service, problem, now, chance)
    if service in (JobKind.METADATA_CLEAN, JobKind.METADATA_COMPACTION):
        _settle_metadata(table, service, report, now, chance)
        return records
    if service in OWN_TROUBLES:
        if report.result is JobResult.COMMITTED:
            table.service_retries.pop(service, None)
            return records
        # The plan saw something to do: another process did it meanwhile, or what prevents it shows only now.
        return records + _retry_service(table, service, "", now, chance)
    if service is JobKind.RECOVERY:
        # One that was cancelled may belong to a lease that was lost and gained again since.
        table.recovered = job.cancelled is None
    elif service is JobKind.VERIFICATION:
        table.verify_at = now + table.schedule.verification_interval
    elif service is JobKind.PLAN_EXPIRY:
        table.expiry_tried = job.expired_plans
    else:
        table.expiry_tried = ()
    table.failures, table.job_trouble, table.refusal_recorded = 0, None, ""
    if service is JobKind.COMPACTION and report.result is JobResult.NOTHING:
        # The plan saw work and the job saw none: another service did it, or the two disagree. A second time it looks
        # like the latter, and without back-off they would disagree as fast as the machine can.
        table.retries += 1
        if table.retries > 1:
            _back_off(table, "The last jobs found nothing to do although the plans did.", now, chance)
    else:
        table.retries = 0
    return records


def _settle_metadata(table: TrackedTable, service: JobKind, report: JobReport, now: float, chance: Random) -> None:
    """What prevented it is the metadata table's trouble: the table goes on, and this service is tried again."""
    is_clean = service is JobKind.METADATA_CLEAN
    # A clean that found nothing has scanned, and that does for this round. A compaction that was due and found nothing
    # would be found due again as fast as the machine can.
    if report.result is JobResult.COMMITTED or (is_clean and not report.problems):
        table.service_retries.pop(service, None)
        table.metadata_is_cleaned = is_clean
        return
    _retry_service(table, service, "", now, chance)


def _retry_service(table: TrackedTable, service: JobKind, text: str, now: float, chance: Random) -> list[Record]:
    """The service alone is tried again. What it says is recorded once for a row of failures."""
    before = table.service_retries.get(service)
    failures = 1 if before is None else before.failures + 1
    table.service_retries[service] = ServiceRetry(now + _delay(table, failures, chance), failures, text)
    is_new = text and (before is None or before.text != text)
    return [Record(FactKind.SERVICE_FAILED, table.name, f"{service}: {text}")] if is_new else []


def blame_groups(table: TrackedTable, report: JobReport, now: float) -> list[Record]:
    """Count what happened to single file groups. It stays true also when the table is no longer this daemon's."""
    records = []
    blamed = set()
    for problem in report.problems:
        group = problem.file_group
        if group is None or problem.kind not in _BLAMES_A_GROUP:
            continue
        blamed.add(group)
        failures = table.parking.count(group)
        if problem.kind in _BLAMES_AT_ONCE or failures >= table.schedule.failures_max:
            times = "" if problem.kind in _BLAMES_AT_ONCE else f"{failures} failures in a row; the last: "
            until = now + table.schedule.parked_for
            table.parking.park(group, times + problem.text, until)
            records.append(Record(FactKind.PARKED, table.name, times + problem.text, group, until))
    if report.result is not JobResult.FAILED:
        table.parking.forgive_all_but(blamed)
    return records


def yield_for_a_while(table: TrackedTable, text: str, now: float, chance: Random) -> None:
    """No blame. But the reason may still be there, and a job that is stopped at once is worth nothing."""
    first = table.schedule.retry_first
    wait = delay(chance, first=first, most=first, failures=1)
    table.job_trouble = Trouble(TableState.BACKING_OFF, text, now + wait, is_failure=False)


def fail_scan(
    table: TrackedTable,
    scan: Scan,
    problem: WorkProblem,
    now: float,
    chance: Random,
    *,
    kind: FactKind = FactKind.SCAN_FAILED,
) -> list[Record]:
    """The table after a poll or a plan failed. That it could not be read is recorded once for a row of failures, as one
    of `kind`; that it did not answer, each time."""
    table.scan_failures += 1
    table.scan_trouble_of_plan = scan.is_plan
    table.plan_wanted = True
    wait = _delay(table, table.scan_failures, chance)
    if problem.kind is not ProblemKind.REFUSED:
        table.scan_trouble = Trouble(TableState.BACKING_OFF, problem.text, now + wait)
        is_new = table.scan_failures == 1 or kind is FactKind.STUCK
        records = [Record(kind, table.name, problem.text)] if is_new else []
    else:
        # A refused plan is scanned again when the poll says changed. No poll says so for a refused one, which is
        # therefore tried again as one that failed is.
        until = now + table.schedule.retry_max if scan.is_plan else now + wait
        table.scan_trouble = Trouble(TableState.REFUSED, problem.text, until, sooner_at=now)
        records = _refusal(table, problem.text)
    if not scan.is_plan:
        table.poll_at = table.scan_trouble.until
    return records


def report_refused(table: TrackedTable, demand: Demand | None) -> list[Record]:
    """Services that this plan found refused, and the one before did not, or for another reason."""
    found = {} if demand is None else demand.refused
    new = {service: text for service, text in found.items() if table.refused.get(service) != text}
    return [Record(FactKind.REFUSED, table.name, f"{service}: {text}") for service, text in new.items()]


def reconsider_refusals(table: TrackedTable, now: float) -> None:
    """The timeline changed, and with it perhaps what a refusal was about."""
    table.scan_trouble = _sooner(table.scan_trouble, now)
    table.job_trouble = _sooner(table.job_trouble, now)
    table.refused_jobs = {kind: _sooner(trouble, now) for kind, trouble in table.refused_jobs.items()}


def expire(table: TrackedTable, now: float) -> list[Record]:
    """Let go what was parked, held or backed off for long enough."""
    records = []
    table.refused_jobs = {kind: trouble for kind, trouble in table.refused_jobs.items() if trouble.until > now}
    text = "Its time is over; it gets one try."
    trouble = table.job_trouble
    if trouble is not None and trouble.until <= now:
        table.job_trouble = None
        if trouble.state is TableState.PARKED:
            # Half open: one more failure parks it again.
            table.failures = table.schedule.failures_max - 1
            records.append(Record(FactKind.UNPARKED, table.name, text))
    for group in table.parking.expire(now, failures_max=table.schedule.failures_max):
        table.plan_wanted = True
        records.append(Record(FactKind.UNPARKED, table.name, text, group.file_group))
    return records


def _problem_of(job: Job, report: JobReport) -> WorkProblem:
    """The one that the table answers for: one that names no file group, if there is any."""
    if not report.problems:
        return WorkProblem(ProblemKind.FAILED, "The job failed and did not say why.")
    problem = min(report.problems, key=lambda problem: problem.file_group is not None)
    if job.stuck and problem.kind is ProblemKind.CANCELLED:
        return WorkProblem(ProblemKind.FAILED, "The job had not answered by its deadline and was cancelled.")
    return problem


def _react(table: TrackedTable, service: JobKind, problem: WorkProblem, now: float, chance: Random) -> list[Record]:
    """The table's column of the table above."""
    if problem.kind in (ProblemKind.CANCELLED, ProblemKind.LOST):
        yield_for_a_while(table, problem.text, now, chance)
        return []
    table.retries += 1
    if problem.kind is ProblemKind.REFUSED and problem.file_group is None:
        sooner = now + _delay(table, table.retries, chance)
        until = now + table.schedule.retry_max
        trouble = Trouble(TableState.REFUSED, problem.text, until, sooner_at=sooner)
        if service not in HELD_ALONE:
            table.job_trouble = trouble
            return _refusal(table, problem.text)
        table.refused_jobs[service] = trouble
        return _refusal(table, f"{service}: {problem.text}")
    if problem.kind is ProblemKind.VERIFICATION and problem.file_group is None:
        # Rows are at stake and it is unknown which: not one more job before a person has seen them.
        table.failures = table.schedule.failures_max
        return [_park(table, problem.text, now)]
    if problem.kind is ProblemKind.FAILED and problem.file_group is None:
        table.failures += 1
        if table.failures >= table.schedule.failures_max:
            return [_park(table, f"{table.failures} failures in a row; the last: {problem.text}", now)]
    # Also where the group is parked already: a fault of Lakeward and not of the group would otherwise send job after
    # job against one group after the other.
    _back_off(table, problem.text, now, chance)
    return []


def _back_off(table: TrackedTable, text: str, now: float, chance: Random) -> None:
    table.job_trouble = Trouble(TableState.BACKING_OFF, text, now + _delay(table, table.retries, chance))


def _park(table: TrackedTable, text: str, now: float) -> Record:
    until = now + table.schedule.parked_for
    table.job_trouble = Trouble(TableState.PARKED, text, until)
    return Record(FactKind.PARKED, table.name, text, until=until)


def _refusal(table: TrackedTable, text: str) -> list[Record]:
    """Recorded once, however often it is scanned again."""
    if text == table.refusal_recorded:
        return []
    table.refusal_recorded = text
    return [Record(FactKind.REFUSED, table.name, text)]


def _delay(table: TrackedTable, failures: int, chance: Random) -> float:
    return delay(chance, first=table.schedule.retry_first, most=table.schedule.retry_max, failures=failures)


def _sooner(trouble: _Perhaps, now: float) -> _Perhaps:
    if trouble is None or trouble.sooner_at is None:
        return trouble
    return replace(trouble, until=min(trouble.until, max(now, trouble.sooner_at)))
