"""The table lock as a queue in ZooKeeper: Apache Curator's mutex, which Hudi's ZooKeeper lock providers use.

Every one who wants the lock makes an ephemeral, numbered node below the lock's own; the lowest number has the lock,
and each of the others watches the one before it. Curator orders *all* nodes there by what follows the last `lock-` in
their names, so Lakeward's are named and ordered the same way. What Hudi calls the lock's place:

    ZookeeperBasedLockProvider                    <base_path>/<lock_key>; the key is the table's name unless given
    ZookeeperBasedImplicitBasePathLockProvider    /tmp/<hash of the table's base path>/lock_key

A lock is one session: it begins with `acquire` and ends with `release`, and if we die the server ends it for us.

    away --connect--> queued --(all before us gone)--> held --release--> away
                      queued --(session lost)--> connect again      held --(session lost)--> lost: `fence` raises

The fence is a write to our own node. A read could be answered by a server that is behind and has not heard of the
end of our session; a write is answered by the quorum, and only if the node is there.

Touches: the nodes of the lock; the table's properties, for its name.
Keeps:   1. only the server says who has the lock; nothing is concluded from a connection that looks well;
         2. a place that Hudi's implicit provider would have made is never made by us: if it is missing, our idea of
            the table's base path is not the writers', or no writer uses that provider.
"""

from __future__ import annotations

import logging
import re
import threading
import uuid
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import KazooTimeoutError

from lakeward.base.clock import Clock
from lakeward.base.errors import LockHeld, LockLost, LockServiceAway, Refused
from lakeward.format.metadata.key import hash_id
from lakeward.protocol.lock.table_lock import OnWait, TableLock, wait_silently
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions
from lakeward.protocol.owner import Owner, parse_owner
from lakeward.storage.storage import Storage
from lakeward.table.table_config import load_table_config

CONNECT_SECONDS = 15.0
"""Hudi's default (hoodie.write.lock.zookeeper.connection_timeout_ms)."""
SHORTEST_CONNECT_SECONDS = 5.0
"""So long any server has to answer, also where a process would wait for no lock at all: a busy one takes its time, and
a lock that is free is to be had."""
ANSWER_SECONDS = 10.0
"""Longer than this no single answer is waited for."""
POLL_SECONDS = 0.5

_IMPLICIT_BASE_PATH = "/tmp/"
_IMPLICIT_LOCK_KEY = "lock_key"
_ORDERED_BY = "lock-"
_Trouble = (KazooException, KazooTimeoutError)
"""What the client raises when the server says no or nothing."""
_Passing = (
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,  # an empty place may be removed by the server; one that was a container is
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    KazooTimeoutError,
)
"""Troubles among these that may be gone the next time."""

# What matters of the client's own words is in our errors; an application that sets logging up hears them all.
_LOG = logging.getLogger("kazoo")
_LOG.addHandler(logging.NullHandler())


def implicit_base_path(base_path: str) -> str:
    """The path at which Hudi's implicit provider keeps the lock of the table at `base_path`, written as its writers
    write it."""
    written = re.sub(r"^s3a(?=://)", "s3", base_path, flags=re.IGNORECASE)
    return _IMPLICIT_BASE_PATH + hash_id(written).hex().upper()


class ZooKeeperLock(TableLock):
    queues = True

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        owner: Owner,
        options: ZooKeeperLockOptions,
        *,
        clock: Clock,
        on_wait: OnWait = wait_silently,
    ) -> None:
        self._storage = storage
        self._base_path = base_path
        self._data = owner.to_line()
        self._options = options
        self._clock = clock
        self._on_wait = on_wait
        self._client: KazooClient | None = None
        self._place = ""
        """The node of the lock; those who want it are below."""
        self._node = ""
        """The name of this process's node; empty before there is one."""

    def acquire(self) -> None:
        self._place = self._find_place()
        waited_since = self._clock.monotonic()
        while True:
            try:
                self._connect()
                self._queue_up()
                self._wait_for_turn(waited_since)
                return
            except _Trouble as trouble:
                # Mostly the servers chose a new leader. Our node went with the session, or we cannot know.
                self.release()
                waited = self._clock.monotonic() - waited_since
                if waited >= self._options.wait_seconds or not isinstance(trouble, _Passing):
                    raise self._away(f"It answered with {_text(trouble)}.") from trouble
                self._on_wait(f"ZooKeeper at {self._options.url} broke off with {_text(trouble)}", waited)
                self._clock.sleep(POLL_SECONDS)

    def fence(self) -> None:
        try:
            if self._client is None:
                raise SessionExpiredError("no session")
            status = self._ask(self._client.set_async(self._path_of(self._node), self._data))
        except _Trouble as trouble:
            raise LockLost(
                f"It cannot be proved that this process still holds the table lock {self._name}.",
                why=f"ZooKeeper answered with {_text(trouble)}. It gives the lock to another when it has not heard of "
                "us for the time of a session.",
                remedy="Nothing was published. Run the command again; if this repeats, look at the way to ZooKeeper, "
                "and raise the maxSessionTimeout of its servers.",
            ) from trouble
        assert status.ephemeralOwner == self._client.client_id[0], "our node belongs to our session"

    def release(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            if self._node:
                self._ask(client.delete_async(self._path_of(self._node)))
        except _Trouble:
            pass  # it goes with the session, which ends now; or, out of the server's reach, when its time is over
        finally:
            self._node = ""
            _end(client)

    def renew(self) -> None:
        """Nothing is to be done: the client's own thread keeps the session alive."""

    def free_dead(self) -> None:
        """Nothing is to be done: the server ends the sessions of the dead."""

    @property
    def _name(self) -> str:
        return f"{self._place} in ZooKeeper at {self._options.url}"

    def _find_place(self) -> str:
        if self._options.base_path is None:
            return f"{implicit_base_path(self._base_path)}/{_IMPLICIT_LOCK_KEY}"
        key = self._options.lock_key or load_table_config(self._storage, self._base_path, clock=self._clock).config.name
        if not key or "/" in key:
            raise Refused(
                f"The table lock of {self._base_path} has no name.",
                why="It is called as the table is, and hoodie.table.name is missing or holds a slash.",
                remedy="Set locks.zookeeper.lock_key to what the writers have as hoodie.write.lock.zookeeper.lock_key.",
            )
        return f"{self._options.base_path}/{key}"

    def _connect(self) -> None:
        try:
            # Kept before it starts, so that `release` ends it whatever happens.
            client = self._client = KazooClient(
                hosts=self._options.url, timeout=self._options.session_seconds, logger=_LOG
            )
        except ValueError as error:
            raise self._away(f"{error}.") from error
        connected = client.start_async()
        started = self._clock.monotonic()
        limit = min(CONNECT_SECONDS, max(self._options.wait_seconds, SHORTEST_CONNECT_SECONDS))
        while not connected.wait(min(POLL_SECONDS, limit)):
            waited = self._clock.monotonic() - started
            if waited >= limit:
                raise self._away(f"It did not answer for {waited:.0f} s.")
            self._on_wait(f"ZooKeeper at {self._options.url} does not answer", waited)

    def _queue_up(self) -> None:
        assert self._client is not None
        if self._options.base_path is not None:
            self._ask(self._client.ensure_path_async(self._place))
        elif self._ask(self._client.exists_async(self._place)) is None:
            raise Refused(
                f"No writer has ever taken the table lock {self._name}.",
                why=f"Its place is derived from the base path {self._base_path}, and is not there. Hudi's "
                "ZookeeperBasedImplicitBasePathLockProvider makes it before a writer writes, from the base path as the "
                "writer writes it.",
                remedy='Run a writer with that provider first. If one ran: its log has a line that begins with "The '
                'Zookeeper lock key for the base path"; set locks.zookeeper.base_path (--lock-zookeeper-path) to what '
                f'stands there, and locks.zookeeper.lock_key (--lock-zookeeper-key) to "{_IMPLICIT_LOCK_KEY}".',
            )
        created = self._ask(
            self._client.create_async(
                self._path_of(f"_c_{uuid.uuid4()}-{_ORDERED_BY}"), self._data, ephemeral=True, sequence=True
            )
        )
        self._node = created.rpartition("/")[2]

    def _wait_for_turn(self, waited_since: float) -> None:
        assert self._client is not None
        while (ahead := self._ahead_of_us()) is not None:
            moved = threading.Event()
            if self._ask(self._client.exists_async(self._path_of(ahead), watch=_Bell(moved))) is None:
                continue
            while not moved.is_set():
                waited = self._clock.monotonic() - waited_since
                if waited >= self._options.wait_seconds:
                    raise self._held(waited)
                self._on_wait(f"the table lock {self._name} is held", waited)
                moved.wait(POLL_SECONDS)

    def _queue(self) -> list[str]:
        assert self._client is not None
        return sorted(self._ask(self._client.get_children_async(self._place)), key=_number_of)

    def _ahead_of_us(self) -> str | None:
        queue = self._queue()
        if self._node not in queue:
            raise SessionExpiredError("our node is gone")
        at = queue.index(self._node)
        return queue[at - 1] if at else None

    def _held(self, waited: float) -> LockHeld:
        assert self._client is not None
        try:
            holder = _shown(self._ask(self._client.get_async(self._path_of(self._queue()[0])))[0])
        except _Trouble as trouble:
            holder = f"a process that ZooKeeper did not name: {_text(trouble)}"
        return LockHeld(
            f"The table lock {self._name} is held by another process.",
            why=f"After {waited:.0f} s it was held by {holder}.",
            remedy="Wait for the writer that holds it, or wait longer (--lock-wait). A holder that died "
            "loses it when its session ends.",
        )

    def _away(self, why: str) -> LockServiceAway:
        return LockServiceAway(
            f"ZooKeeper at {self._options.url}, which keeps the table lock, cannot be reached.",
            why=why,
            remedy="Start it, or correct locks.zookeeper.url (--lock-zookeeper); the writers need it too. "
            "Nothing was published.",
        )

    def _path_of(self, node: str) -> str:
        return f"{self._place}/{node}"

    def _ask(self, answer: Any) -> Any:
        # Without a limit a request waits for as long as the client tries to connect again, which is for ever.
        return answer.get(timeout=min(ANSWER_SECONDS, self._options.session_seconds / 3))


class _Bell:
    """Rings when what is watched changed, or can be watched no longer."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __call__(self, event: object) -> None:
        self._event.set()


def _number_of(node: str) -> str:
    """The number by which Curator sorts."""
    return node.rpartition(_ORDERED_BY)[2]


def _shown(data: bytes) -> str:
    owner = parse_owner(data)
    if owner is not None:
        return owner.shown
    return data[:200].decode(errors="replace") or "a process that says nothing of itself"


def _text(trouble: Exception) -> str:
    return f"{type(trouble).__name__}{f' ({trouble})' if str(trouble) else ''}"


def _end(client: KazooClient) -> None:
    try:
        client.stop()
        client.close()
    except WriterNotClosedException as error:
        # Its thread is stuck. It has been asked to stop, and the server ends a session of which it hears nothing.
        _LOG.warning("a ZooKeeper client did not stop: %s", error)
