"""Verification as a service of the daemon: the job that merges a sample of file groups again and compares.

It comes by time, so there is no demand. What compactions of the daemon made since the sample before is taken first.

Touches: the table, reading, through `services/verification/sample_verification.py`.
Keeps:   instants of which a sample failed are sampled again.
"""

from __future__ import annotations

import random
from typing import Final

from lakeward.engine.task.entry import check_slice_at
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.protocol.progress import Engine
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.service import Care, JobOrder, JobTraits, Service
from lakeward.services.verification.metrics import METRICS
from lakeward.services.verification.sample_verification import verify_sample

SAMPLE_GROUPS = 4
"""File groups that one verification looks at; over the days it gets to others, as they are drawn."""


class VerificationService(Service[None]):
    kind = JobKind.VERIFICATION
    permission = TableService.VERIFICATION
    jobs: Final = {
        JobKind.VERIFICATION: JobTraits(rank=2, waits_for_window=True, takes_memory=True, writes=False),
    }
    is_of_merges = True
    metrics = METRICS

    def run(self, table: ServicedTable, care: Care[None], order: JobOrder) -> JobReport:
        lately = order.unsampled.instants
        dispatcher = order.choose(order.bytes_of(SAMPLE_GROUPS))
        report = verify_sample(
            table.storage,
            table.base_path,
            number=SAMPLE_GROUPS,
            seed=random.SystemRandom().getrandbits(32),
            dispatcher=dispatcher,
            run_check=order.task(check_slice_at),
            clock=table.clock,
            timezone=table.options.timezone,
            lately=lately,
            memory_bytes=table.options.memory_bytes,
            guard=table.guard,
        )
        order.unsampled.remove(lately)  # not before: a sample that failed is taken again
        problems = tuple(
            WorkProblem(ProblemKind.VERIFICATION, problem.what, problem.group) for problem in report.problems
        )
        wrong = len({problem.group for problem in report.problems})
        figures = JobFigures(
            groups_verified=len(report.groups),
            groups_mismatched=wrong,
            spark_jobs=int(bool(report.groups) and dispatcher.engine is Engine.SPARK),
        )
        return JobReport(JobResult.COMMITTED if report.groups else JobResult.NOTHING, figures, problems=problems)


SERVICE = VerificationService()
