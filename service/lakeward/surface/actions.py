"""What an operator asks the daemons for: a pause, a resume, a cancellation, by command line and by API alike.

Each is a control in the store, which holds across restarts; the daemon that services the table reads it within seconds.

Touches: the store.
Keeps:   a request that comes again with its key is answered again and carried out once; with other words it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakeward.base.clock import Clock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_time
from lakeward.state.records import ControlKind, ControlRecord, FileGroupKey, TargetKind
from lakeward.state.store import Store
from lakeward.surface.documents import ControlDocument

CANCEL_SECONDS = 3600.0
"""How long a cancellation waits for a daemon to read it."""
KEY_LENGTH_MAX = 200


class KeyReused(UsageError):
    """A key came with another request than before."""


@dataclass(frozen=True, slots=True)
class ActionTarget:
    kind: TargetKind
    name: str
    """The name of the table or of the group of tables, or the id of the job."""
    file_group: FileGroupKey | None = None

    @classmethod
    def of_table(cls, table: str, file_group: FileGroupKey | None = None) -> ActionTarget:
        return cls(TargetKind.TABLE if file_group is None else TargetKind.FILE_GROUP, table, file_group)

    @classmethod
    def of_group(cls, group: str) -> ActionTarget:
        return cls(TargetKind.GROUP, group)

    @classmethod
    def of_job(cls, job_id: str) -> ActionTarget:
        return cls(TargetKind.JOB, job_id)


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and why."""

    by: str
    reason: str = ""
    key: str | None = None
    """The key of the request: the same one again is answered as before. None: it is a new one."""


class Actions:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def pause(self, target: ActionTarget, asked: Asker, *, seconds: float | None = None) -> ControlDocument:
        """
        Args:
            seconds: how long; None: until it is resumed.
        """
        until = None if seconds is None else self._clock.now() + seconds
        return self._add(ControlKind.PAUSE, target, asked, until, lasting=seconds)

    def resume(self, target: ActionTarget, asked: Asker) -> ControlDocument:
        """End a pause, and release what is parked there."""
        return self._add(ControlKind.RESUME, target, asked, None)

    def cancel(self, target: ActionTarget, asked: Asker) -> ControlDocument:
        """Stop what runs. Raises `UsageError` for a job that is not known, or has ended."""
        if target.kind is TargetKind.JOB and not self._was_answered(asked):
            job = self._store.jobs.find(target.name)
            if job is None or job.ended_at is not None:
                ended = "" if job is None or job.ended_at is None else f"It ended at {format_time(job.ended_at)}"
                raise UsageError(
                    f"Job {target.name} cannot be cancelled.",
                    why=f"{ended}: {job.result}." if job is not None and ended else "The store does not know it.",
                    remedy="Run `lakeward jobs` to see what runs.",
                )
        return self._add(ControlKind.CANCEL, target, asked, self._clock.now() + CANCEL_SECONDS, lasting=CANCEL_SECONDS)

    def _was_answered(self, asked: Asker) -> bool:
        return asked.key is not None and self._store.controls.is_answered(asked.key)

    def _add(
        self,
        kind: ControlKind,
        target: ActionTarget,
        asked: Asker,
        until: float | None,
        *,
        lasting: float | None = None,
    ) -> ControlDocument:
        control = ControlRecord(
            kind, target.kind, target.name, asked.reason, asked.by, self._clock.now(), target.file_group, until
        )
        if asked.key is None:
            return ControlDocument.of(replace(control, id=self._store.controls.add(control)))
        if not 0 < len(asked.key) <= KEY_LENGTH_MAX or not asked.key.isprintable():
            raise UsageError(
                "The key of the request cannot be that.",
                why=f"It is a text of 1 to {KEY_LENGTH_MAX} printable characters.",
                remedy="Give each request a new key, such as a UUID, and the same one when it is sent again.",
            )
        found = self._store.controls.add_once(control, asked.key, lasting=lasting)
        if found is None:
            raise KeyReused(
                f"The key {asked.key} belongs to another request.",
                why="A request with this key, and with other words, was answered within the last day.",
                remedy="Give each request a key of its own.",
            )
        return ControlDocument.of(found)
