"""For how long something has not changed, as this process saw it: two readings, apart by a clock that is never set.

The age of a file is the difference of two wall clocks, and grows by ten minutes when one of them is set forward by ten,
or when the machine wakes up from that long a sleep. A process that lives and is bound to give a sign each interval has
given one by the end of the next; so before something is taken for its age alone, it is looked at for longer than an
interval.

Touches: nothing.
Keeps:   1. what counts was seen the same at both ends, by the monotonic clock, which stands while a machine sleeps;
         2. what it remembers is bounded; what is forgotten is watched again.
See:     docs/decisions/0017-what-clocks-prove.md
"""

from __future__ import annotations

import threading

NAMES_MAX = 10_000


class Stillness:
    """Asked from any thread."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, float]] = {}
        """States by name: what it was, and since when."""
        self._lock = threading.Lock()

    def seconds(self, name: str, state: object, *, monotonic: float) -> float:
        """For how long `name` has been `state` and nothing else, since this was asked for the first time."""
        with self._lock:
            known = self._seen.pop(name, None)
            since = monotonic if known is None or known[0] != state else known[1]
            self._seen[name] = (state, since)
            if len(self._seen) > NAMES_MAX:
                del self._seen[next(iter(self._seen))]  # asked for longest ago
        return monotonic - since
