"""One job under way, seen from outside: how far it is, and the switch that stops it.

The job's own thread reports here, the service's loop reads and switches. Figures and seconds go to the metrics as they
come, so that a job which fails in the end has still been counted.

Touches: nothing but the metrics it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from structlog.stdlib import BoundLogger

from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.scheduling.events import Job
from lakeward.daemon.status import JobProgress, JobStatus
from lakeward.errors import Cancelled, LeaseLost
from lakeward.execute.progress import Count, DeletedSoFar, Merged, Phase


class JobWatch:
    """An `Observer` and a guard."""

    def __init__(
        self, job: Job, *, began_at: float, is_safe: Callable[[], bool], metrics: Metrics, log: BoundLogger
    ) -> None:
        """
        Args:
            is_safe: whether no other daemon may hold the table's lease by now.
        """
        self.job = job
        self._is_safe = is_safe
        self._metrics = metrics
        self._log = log
        self._stopped: str | None = None
        self._deleted: DeletedSoFar | None = None
        self._plan_bytes = 0
        self._read_bytes = self._read_bytes_taken = 0
        self._status = JobStatus(job.id, job.table, job.service, began_at, progress=JobProgress("starting"))

    @property
    def status(self) -> JobStatus:
        return self._status

    def stop(self, why: str) -> None:
        """Let the job end at its next fence or report."""
        self._stopped = why

    def guard(self) -> None:
        if self._stopped is not None:
            raise Cancelled(
                "The job was stopped before it was done.",
                why=self._stopped,
                remedy="Nothing of it was published; what it left is rolled back, now or at the next service.",
            )
        if not self._is_safe():
            raise LeaseLost(
                f"The lease of {self.job.table} is not safe any more.",
                why="It was not renewed in time, so another daemon may service the table by now.",
                remedy="Nothing has to be done: the daemon that holds the lease finishes what is left.",
            )

    # ---- what the job's thread reports

    def step(self, text: str) -> None:
        self._log.info("step", step=text)
        self._show(step=text)

    def waiting(self, text: str, seconds: float) -> None:
        self._show(step=f"waiting: {text}")

    def merged(self, state: Merged) -> None:
        if state.input_bytes_total != self._plan_bytes:  # the next of its plans
            self._plan_bytes = state.input_bytes_total
            self._read_bytes += state.input_bytes_total
        self._show(
            operations=state.operations,
            operations_total=state.operations_total,
            input_bytes=state.input_bytes,
            input_bytes_total=state.input_bytes_total,
        )

    def take_deleted(self) -> DeletedSoFar | None:
        """How far a clean is, where that was not taken yet."""
        state, self._deleted = self._deleted, None
        return state

    def take_size(self) -> int | None:
        """What its plans have to read, all together, where that is more than was taken before."""
        if self._read_bytes == self._read_bytes_taken:
            return None
        self._read_bytes_taken = self._read_bytes
        return self._read_bytes_taken

    def deleted(self, state: DeletedSoFar) -> None:
        self._deleted = state
        self._show(operations=state.files, operations_total=state.files_total)

    def phase(self, phase: Phase, seconds: float) -> None:
        self._metrics.phase(self.job.table, phase, seconds)

    def counted(self, count: Count, number: int = 1) -> None:
        self._metrics.counted(self.job.table, count, number)

    def _show(self, **changes: object) -> None:
        progress = self._status.progress or JobProgress("")
        self._status = replace(self._status, progress=replace(progress, **changes))  # type: ignore[arg-type]
