"""One job under way, seen from outside: how far it is, what it waits for, and the switch that stops it.

The job's own thread reports here, the service's loop reads and switches. Figures and seconds go to the metrics as they
come, so that a job which fails in the end has still been counted.

    working --waiting()--> waiting --any other report, but of a look at the table--> working

Touches: nothing but the metrics it is given.
Keeps:   1. each second of a job is counted once, as one that it worked or as one that it waited;
         2. a job that has merged and waits to publish does not "only wait": what it made would be lost;
         3. each second of a job is in one phase at most.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from structlog.stdlib import BoundLogger

from lakeward.base.clock import Clock
from lakeward.base.errors import Cancelled, LeaseLost
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.metrics.specs import JobDoing
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.status import JobProgress, JobSpent, JobWait, PhaseSpan
from lakeward.protocol.progress import Count, DeletedSoFar, Merged, Phase

_TAKEN_SECONDS = 10.0
"""How often the store gets how far a job is: a short one costs it nothing."""


_SPANS_MAX = 200
"""A job that waits looks at the table again and again."""

_LOGGED_SECONDS = 10.0
"""A wait that lasts is in the log, once; most are over before."""


class JobWatch:
    """An `Observer` and a guard."""

    def __init__(
        self,
        job: Job,
        *,
        clock: Clock,
        is_safe: Callable[[], bool],
        metrics: Metrics,
        log: BoundLogger,
    ) -> None:
        """
        Args:
            is_safe: whether no other daemon may hold the table's lease by now.
        """
        self.job = job
        self._clock = clock
        self._is_safe = is_safe
        self._metrics = metrics
        self._log = log
        self._stopped: str | None = None
        self._deleted: DeletedSoFar | None = None
        self._plan_bytes = 0
        self._read_bytes = self._read_bytes_taken = 0
        self._holds_work = self._wait_logged = False
        self._lock = threading.Lock()
        self._counted_until = self._taken_at = clock.monotonic()
        self._waited = 0.0
        self._phases: dict[Phase, float] = {}
        self._ended_phases: list[tuple[float, float]] = []
        self._spans: deque[PhaseSpan] = deque(maxlen=_SPANS_MAX)
        self._progress = JobProgress("starting")

    @property
    def progress(self) -> JobProgress:
        return self._progress

    @property
    def only_waits(self) -> bool:
        """The job waits for others, and holds nothing that it made and has yet to publish."""
        return self._progress.wait is not None and not self._holds_work

    def count_seconds(self) -> None:
        """Count the seconds since they were counted last."""
        with self._lock:
            now = self._clock.monotonic()
            seconds, self._counted_until = now - self._counted_until, now
            is_waiting = self._progress.wait is not None
            self._waited += seconds if is_waiting else 0.0
            self._metrics.job_spent(self.job.service, JobDoing.WAITING if is_waiting else JobDoing.WORKING, seconds)

    @property
    def spent(self) -> JobSpent:
        """What its seconds went into, as far as they are counted."""
        return JobSpent(self._waited, {phase.value: seconds for phase, seconds in self._phases.items()})

    @property
    def phases(self) -> tuple[PhaseSpan, ...]:
        """When its newest phases began and ended."""
        return tuple(self._spans)

    def take_progress(self) -> JobProgress | None:
        """How far the job is, where that was not taken in the last seconds; None for one that has just begun."""
        now = self._clock.monotonic()
        if now - self._taken_at < _TAKEN_SECONDS:
            return None
        self._taken_at = now
        return self._progress

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
        self._go_on()
        self._show(step=text)

    def waiting(self, text: str, seconds: float) -> None:
        wait = self._progress.wait
        if wait is None:
            self.count_seconds()
            self._wait_logged = False
        since = self._clock.now() - seconds if wait is None else wait.since
        self._show(wait=JobWait(text, since))
        waited = self._clock.now() - since
        if waited >= _LOGGED_SECONDS and not self._wait_logged:
            self._wait_logged = True
            self._log.info("waiting", seconds=round(waited), step=text)

    def merged(self, state: Merged) -> None:
        if state.input_bytes_total != self._plan_bytes:  # the next of its plans
            self._plan_bytes = state.input_bytes_total
            self._read_bytes += state.input_bytes_total
        self._holds_work = True
        self._go_on()
        self._show(merged=state)

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
        self._go_on()
        self._show(deleted=state)

    def phase(self, phase: Phase, seconds: float) -> None:
        self._metrics.phase(self.job.table, phase, seconds)
        self._add_phase(phase, seconds)
        now = self._clock.now()
        self._spans.append(PhaseSpan(phase, now - seconds, now))
        if phase in (Phase.MERGE, Phase.COMMIT):
            self._holds_work = phase is Phase.MERGE
        if phase is not Phase.SCAN:  # who waits looks at the table again and again
            self._go_on()

    def _add_phase(self, phase: Phase, seconds: float) -> None:
        """Phases nest, and the inner one ends first: its seconds are not those of the outer one, too."""
        if phase is Phase.BESIDE_WRITES:
            return  # the same seconds as a lock's, seen from writers
        ended = self._clock.monotonic()
        began, own = ended - seconds, seconds
        while self._ended_phases and self._ended_phases[-1][1] > began:
            inner = self._ended_phases.pop()
            own -= inner[1] - inner[0]
        self._ended_phases.append((began, ended))
        self._phases[phase] = self._phases.get(phase, 0.0) + max(0.0, own)

    def counted(self, count: Count, number: int = 1) -> None:
        self._metrics.counted(self.job.table, count, number)

    def _go_on(self) -> None:
        if self._progress.wait is not None:
            self.count_seconds()
            self._show(wait=None)

    def _show(self, **changes: object) -> None:
        self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]
