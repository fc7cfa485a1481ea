"""The writers of a table, as a run of a service sees them: which writes are live, and for how long they held it up.

A pending write is *live* while its heartbeat beats. Hudi's writers start it before their `.requested` where they leave
failed writes to a later clean (`hoodie.clean.failed.writes.policy=LAZY`), which sharing a lock asks of them. One that
failed has removed it, one that was killed lets it expire; either holds nothing back.

Touches: reads the timeline, heartbeats, and `.inflight` files of live writes.
Keeps:   1. a pending write without a heartbeat that beats is not among the live ones;
         2. what a service of Lakeward commits is taken for no writer's.
See:     docs/decisions/0027-writers-are-waited-for.md
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from itertools import pairwise
from statistics import median_low

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import Instant, State, comparable_time, parse_instant_time
from lakeward.protocol.attempts.heartbeat import Life, read_liveness
from lakeward.protocol.owner import Processes
from lakeward.protocol.writers_conflict import LiveWrite, Writes
from lakeward.storage.storage import Storage
from lakeward.table.table_config import TableConfig, load_table_config
from lakeward.table.timeline.service_instants import SERVICES_OF_ONE
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline, load_timeline
from lakeward.table.timeline.timeline_reader import TimelineCache, TimelineReader

USUAL_OF = 5
"""So many of the last writes say how long one takes."""


class WriterWatch:
    def __init__(self, storage: Storage, base_path: str, *, clock: Clock, processes: Processes) -> None:
        self._storage = storage
        self._base_path = base_path
        self._clock = clock
        self._processes = processes
        self._config: TableConfig | None = None
        self._profiles: TimelineCache = {}
        self._held_since: dict[str, float] = {}

    def scan(self, timeline: Timeline | None = None) -> Writes:
        """
        Args:
            timeline: as it was listed just now; else it is.
        """
        if self._config is None:
            self._config = load_table_config(self._storage, self._base_path, clock=self._clock).config
        timeline = timeline or load_timeline(self._storage, self._base_path, self._config)
        pending = [instant for instant in timeline.pending if instant.action in WRITE_ACTIONS]
        live = [instant for instant in pending if self._is_live(instant)]
        ends = {
            instant.time: instant.completion_time for instant in timeline.completed_writes if instant.completion_time
        }
        written = _of_writers(timeline)
        newest = written[-1] if written else None
        return Writes(
            live=self._live_writes(timeline, live),
            completed=ends,
            newest_commit=None if newest is None else newest.completion_time,
            newest_commit_age=None if newest is None else self._clock.now() - timeline.modified[newest.file_name],
            usual_seconds=_usual_seconds(timeline, written[-USUAL_OF:]),
            usual_pause=_usual_pause(written[-USUAL_OF:]),
        )

    def held_up_by(self, writes: Iterable[LiveWrite]) -> None:
        """These hold the run up from now on, or since they were first said to."""
        for write in writes:
            self._held_since.setdefault(write.instant, self._clock.monotonic())

    @property
    def waited(self) -> dict[str, float]:
        """For how long each write that holds the run up, or did, has been known to."""
        now = self._clock.monotonic()
        return {instant: now - since for instant, since in self._held_since.items()}

    def _is_live(self, instant: Instant) -> bool:
        liveness = read_liveness(
            self._storage, self._base_path, instant.time, clock=self._clock, processes=self._processes
        )
        return liveness.life is Life.ALIVE

    def _live_writes(self, timeline: Timeline, live: list[Instant]) -> tuple[LiveWrite, ...]:
        if not live:
            return ()
        assert self._config is not None
        reader = TimelineReader(self._storage, self._base_path, self._config, timeline, cache=self._profiles)
        profiles = reader.write_profiles()
        return tuple(
            LiveWrite(
                instant.time,
                profiles[instant.time].partitions if instant.time in profiles else None,
                timeline.modified[instant.file_name] if instant.state is State.INFLIGHT else None,
                self._clock.now() - timeline.modified[instant.file_name],
            )
            for instant in live
        )


def _of_writers(timeline: Timeline) -> list[Instant]:
    """The completed writes that no service made, as they completed."""
    services = {instant.time for instant in timeline.instants if instant.action in SERVICES_OF_ONE}
    written = [
        instant for instant in timeline.completed_writes if instant.completion_time and instant.time not in services
    ]
    return sorted(written, key=lambda instant: comparable_time(instant.completion_time or ""))


def _usual_seconds(timeline: Timeline, written: list[Instant]) -> float | None:
    """For how long these were inflight, the shortest of them, by the times of their files."""
    ends = {instant.time: timeline.modified[instant.file_name] for instant in written}
    return min(
        (
            ends[instant.time] - timeline.modified[instant.file_name]
            for instant in timeline.instants
            if instant.state is State.INFLIGHT and instant.time in ends
        ),
        default=None,
    )


def _usual_pause(written: list[Instant]) -> float | None:
    """The median time from the completion of one of these to the instant of the next, but for those that were under
    way when the one before completed."""
    pauses = [_seconds_between(before.completion_time or "", after.time) for before, after in pairwise(written)]
    return median_low(found) if (found := [pause for pause in pauses if pause > 0]) else None


def _seconds_between(before: str, after: str) -> float:
    """The same in every zone; 0 where one is an instant that Hudi reserves, and no moment."""
    try:
        return (parse_instant_time(after, UTC) - parse_instant_time(before, UTC)) / 1000
    except BrokenFile:
        return 0.0
