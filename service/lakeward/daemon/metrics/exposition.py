"""The text of a scrape, made once for all who ask at the same time.

With thousands of tables it takes a third of a second of Python, and as long as that runs the daemon's other threads get
half of a core. So one is made at a time, and serves those who ask within a second: however many ask, and however often,
polls and plans keep the larger part of the processor.

Touches: the registry, reading only.
Keeps:   1. a text is never older than a second, by the clock that goes on without steps;
         2. two are never made at once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from lakeward.base.clock import Clock

SHARED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Scrape:
    body: bytes
    content_type: str


class Exposition:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._made: dict[bool, tuple[float, Scrape]] = {}
        self._making = threading.Lock()

    def scrape(self, *, openmetrics: bool) -> Scrape:
        """The text of now. May wait for another one that is being made, so it is called from a thread of its own."""
        with self._making:
            now = self._clock.monotonic()
            made = self._made.get(openmetrics)
            if made is not None and now - made[0] < SHARED_SECONDS:
                return made[1]
            # Only the name of the format is taken from the header: the library trips over versions that are no numbers.
            encode, content_type = choose_encoder("application/openmetrics-text; version=1.0.0" if openmetrics else "")
            scrape = Scrape(encode(self._registry), content_type)
            self._made[openmetrics] = now, scrape
            return scrape
