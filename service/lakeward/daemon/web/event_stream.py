"""Events as they happen, for as many clients as ask (server-sent events).

    store --once a second, while there is a client--> the newest events --> a queue for each client --> its answer
    status ------------------------------------------> tables that look different now ^

A client that reconnects says which event it had last (`Last-Event-ID`); what came since is read from the store. Where
nothing happens a line is sent now and then, so that each end knows that the other one is there.

Touches: the store, reading only, on threads of its own.
Keeps:   1. a client gets each event once, oldest first, and none that came before it asked, unless it says since when;
         2. however many clients there are, the store is asked once;
         3. a client that does not read is left behind: it comes again, and says which event it had last.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from starlette.concurrency import run_in_threadpool

from lakeward.base.errors import LakewardError
from lakeward.daemon.status import ServiceStatus, TableStatus
from lakeward.surface.documents import EventDocument
from lakeward.surface.store_answers import StoreAnswers

POLL_SECONDS = 1.0
BEAT_SECONDS = 15.0

QUEUE_MAX = 1000
"""Messages that wait for a client."""

_PART = 500
"""Events that are read at a time."""

_LATE_IDS = 64
"""How far back is looked for events that became visible late: of two daemons that write at the same time, the greater
id may be there first."""

TABLES_NAMED_MAX = 50
"""Tables that a message about the status names; of more it says only that there are."""

_BEAT = b": beat\n\n"

_log = structlog.stdlib.get_logger(__name__)


_Queued = tuple[int | None, bytes] | None
"""A message with the id of its event, if it is one; None: the client was left behind."""


@dataclass(eq=False, slots=True)
class _Client:
    wants: Callable[[str | None], bool]
    """Whether a table, or what is of none, is any of the client's business."""
    queue: asyncio.Queue[_Queued] = field(default_factory=lambda: asyncio.Queue(QUEUE_MAX))

    def give(self, message: bytes, event_id: int | None = None) -> bool:
        """False where too much waits for it already; then it gets nothing more."""
        try:
            self.queue.put_nowait((event_id, message))
        except asyncio.QueueFull:
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)
            return False
        return True


class EventStream:
    """One for a server; all of its clients are on one event loop."""

    def __init__(
        self,
        stored: StoreAnswers,
        status: Callable[[], ServiceStatus],
        *,
        poll_seconds: float = POLL_SECONDS,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        self._stored = stored
        self._status = status
        self._poll_seconds = poll_seconds
        self._beat_seconds = beat_seconds
        self._clients: set[_Client] = set()
        self._asking: asyncio.Task[None] | None = None
        self._newest = 0
        self._seen: OrderedDict[int, None] = OrderedDict()
        """Ids of the newest events that were given out."""
        self._looked_at: ServiceStatus | None = None
        self._looks: Mapping[str, object] = {}

    @property
    def clients(self) -> int:
        return len(self._clients)

    async def messages(self, after: int | None, wants: Callable[[str | None], bool]) -> AsyncIterator[bytes]:
        """What a client is sent, until it goes, or does not read.

        Args:
            after: the id of the event that it had last; None: it wants what happens from now on.
            wants: whether an event of a table, or of none, is for it.
        """
        if self._asking is None or self._asking.done():
            await self._begin()
            self._looked_at = self._status()
            self._looks = _looks(self._looked_at)
            self._asking = asyncio.create_task(self._ask(), name="event stream")
        client = _Client(wants)
        self._clients.add(client)
        until = self._newest
        try:
            yield b"retry: 5000\n\n"
            read = set[int]()
            while after is not None and after < until:
                missed = await run_in_threadpool(self._stored.events_after, after, _PART)
                read = {_id(event) for event in missed}
                for event in missed:
                    if wants(event.table) and _id(event) <= until:
                        yield _message(event)
                after = max(read, default=until)
            while True:
                try:
                    message = await asyncio.wait_for(client.queue.get(), self._beat_seconds)
                except TimeoutError:
                    yield _BEAT
                    continue
                if message is None:
                    return
                event_id, text = message
                if event_id is None or event_id > until or event_id not in read:
                    yield text
        finally:
            self._clients.discard(client)

    async def _begin(self) -> None:
        """What is there by now is no news to any client that does not say since when it asks."""
        self._newest = await run_in_threadpool(self._stored.newest_event)
        known = await run_in_threadpool(self._stored.events_after, max(0, self._newest - _LATE_IDS), _LATE_IDS)
        self._seen = OrderedDict.fromkeys(event_id for event in known if (event_id := _id(event)) <= self._newest)

    async def _ask(self) -> None:
        """Ends itself once there is no client."""
        while True:
            await asyncio.sleep(self._poll_seconds)
            if not self._clients:
                return
            try:
                after = max(0, self._newest - _LATE_IDS)
                found = await run_in_threadpool(self._stored.events_after, after, _PART)
            except LakewardError as error:
                # The page of all tables says that the store is away; here it is tried again.
                _log.debug("events could not be read", error=str(error))
                found = []
            for event in found:
                self._happened(event)
            self._look()

    def _happened(self, event: EventDocument) -> None:
        event_id = _id(event)
        if event_id in self._seen:
            return
        self._seen[event_id] = None
        while len(self._seen) > 2 * _LATE_IDS + _PART:
            self._seen.popitem(last=False)
        self._newest = max(self._newest, event_id)
        message = _message(event)
        for client in [client for client in self._clients if client.wants(event.table)]:
            self._give(client, message, event_id)

    def _look(self) -> None:
        """Say which tables look different than before."""
        status = self._status()
        if status is self._looked_at:  # one is made every few seconds
            return
        self._looked_at = status
        before, self._looks = self._looks, _looks(status)
        changed = [name for name, look in self._looks.items() if before.get(name) != look]
        changed += [name for name in before if name not in self._looks]
        for client in list(self._clients):
            mine = [name for name in changed if client.wants(name)]
            if mine:
                named = mine if len(mine) <= TABLES_NAMED_MAX else None
                message = f"event: status\ndata: {json.dumps({'tables': named})}\n\n".encode()
                self._give(client, message)

    def _give(self, client: _Client, message: bytes, event_id: int | None = None) -> None:
        if not client.give(message, event_id):
            self._clients.discard(client)


def _id(event: EventDocument) -> int:
    assert event.id is not None, "the store gives each an id"
    return event.id


def _message(event: EventDocument) -> bytes:
    return f"id: {event.id}\ndata: {event.model_dump_json()}\n\n".encode()


def _looks(status: ServiceStatus) -> Mapping[str, object]:
    """What is compared of each table: all that a page shows but times that pass by themselves."""
    return {table.name: _look(table) for table in status.tables}


def _look(table: TableStatus) -> Sequence[object]:
    outlook = table.outlook
    return (
        *(outlook.state, outlook.reason, outlook.next_action, outlook.unreadable, outlook.parked_groups),
        *(outlook.planned_at, outlook.demand, table.running, table.progress, table.backlog),
        None if table.last_job is None else table.last_job.id,
        None if table.examination is None else table.examination.tried_at,
        None if table.storage is None else table.storage.at,
    )
