"""Whether the entries of a folder can have changed since they were listed, shown by the folder's own time alone.

A file system sets a folder's modification time whenever an entry is made, renamed or removed, but it may count in
steps of a second or two, and by a clock that is not Lakeward's. So a time proves nothing by being old: it does when a
listing was taken `CALM_SECONDS`, by our clock, after the same time was seen first. Whatever happens after such a
listing falls into another step and gives another time.

    seen --listed again, CALM_SECONDS later, the same time before it--> calm --another time--> seen

A file whose content grows without a new name is not noticed in this way; the caller lists again now and then.

Touches: the folder's status; nothing where folders are but parts of names, since there they have no time.
"""

from __future__ import annotations

from lakeward.base.clock import Clock
from lakeward.storage.storage import Storage

CALM_SECONDS = 60.0


class CalmFolder:
    def __init__(self, storage: Storage, path: str, clock: Clock) -> None:
        self._storage = storage
        self._path = path
        self._clock = clock
        self._time: float | None = None
        self._seen_at = 0.0
        self._is_calm = False
        self._tells = True

    def is_calm(self) -> bool:
        """True where nothing can have changed since `before_listing` was called last."""
        return self._is_calm and self._modified() == self._time

    def before_listing(self) -> None:
        """Call it just before the entries are listed."""
        time = self._modified()
        now = self._clock.monotonic()
        self._is_calm = time is not None and time == self._time and now - self._seen_at >= CALM_SECONDS
        if time != self._time:
            self._time, self._seen_at = time, now

    def _modified(self) -> float | None:
        if not self._tells:
            return None
        status = self._storage.stat(self._path)
        self._tells = status is None or status.modified > 0
        return status.modified if status is not None and self._tells else None
