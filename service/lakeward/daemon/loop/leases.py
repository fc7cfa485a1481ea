"""Which tables are this daemon's to service, where several daemons share one store.

Every daemon holds as many tables as its share: all tables over all living daemons, rounded up. It takes what none
holds, gives back what is too much for it and idle, and stops work on what it may have lost before another can
take it. On SQLite the daemons of one machine share in the same way.

    free --take--> held --renew--> held --(not renewed in time, on its own clock)--> lost
                     `--give back, when idle and too many--> free

The database's clock says when a lease is over, and a clock can be set, or wake up late. So one that is over and was not
given back is taken only when its row also stayed as it is, while we looked on, for as long as a holder works without a
renewal: by then the holder has stopped by itself. Who runs beside it has looked on all the time and loses none.

A daemon that ran on this machine and is provably dead (`protocol/owner.py`: host, boot, process namespace, process id
and its start) holds nothing any more: what it held is given back for it at once. Of another machine's nothing is
guessed.

A lease only saves work: what keeps two daemons from publishing twice is the protocol on the table (room `commit`).

Touches: the store; the process table.
Keeps:   1. `is_safe` turns false on the monotonic clock before anybody else may hold the table;
         2. a store that does not answer loses leases by time: work that runs goes on until then;
         3. every lease that was gained or lost is reported, also when the store fails in between;
         4. a table at work is not given back;
         5. no step of a clock alone takes a lease from a daemon that renews it;
         6. a lease that is not over is taken only from a process that is provably dead, on the machine that proves it.
See:     docs/decisions/0017-what-clocks-prove.md, docs/decisions/0025-history-is-no-rival.md
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from lakeward.base.clock import Clock
from lakeward.protocol.owner import Processes, parse_owner
from lakeward.protocol.times.stillness import Stillness
from lakeward.state import lease as terms
from lakeward.state.lease import HeldLease
from lakeward.state.records import DaemonRecord
from lakeward.state.store import Store
from lakeward.table.timeline.service_instants import daemon_of

LEASE_SECONDS = 60.0
"""How long a table stays with a daemon that renews nothing: so long a store may be slow or away."""


@dataclass(frozen=True, slots=True)
class LeaseChanges:
    gained: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    """Table to why, as a sentence."""
    held_by: Mapping[str, str] = field(default_factory=dict)
    """Tables that another daemon holds, to what people call that: its process, host and store."""
    is_watching: bool = False
    """A lease is over, and it is not yet certain that its holder stopped."""
    daemons: int = 1
    """Daemons that are alive, this one included."""
    problem: Exception | None = None
    """What kept the store from answering all of it; what is said above happened all the same."""


class Leases:
    """The leases of one daemon. `is_safe` may be asked from any thread, the rest is for one thread at a time."""

    def __init__(
        self, store: Store, daemon: DaemonRecord, *, seconds: float, clock: Clock, processes: Processes
    ) -> None:
        self._store = store
        self._processes = processes
        self._daemon = daemon
        self._seconds = seconds
        self._clock = clock
        self._stillness = Stillness()
        """How long the leases of others have not changed."""
        self._held: dict[str, HeldLease] = {}
        self._safe_until = math.inf
        """Before this moment no lease that is held runs out. May be too early, never too late."""
        self._lock = threading.Lock()

    @property
    def holder(self) -> str:
        return self._daemon.holder

    @property
    def held(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._held)

    def is_safe(self, table: str) -> bool:
        """True while no other daemon may hold the lease of `table`."""
        with self._lock:
            held = self._held.get(table)
        return held is not None and held.is_safe(self._clock.monotonic())

    def token(self, table: str) -> int | None:
        """The fencing token of the lease of `table`."""
        with self._lock:
            held = self._held.get(table)
        return held.lease.token if held is not None else None

    def keep(self, tables: Sequence[str], *, busy: AbstractSet[str]) -> LeaseChanges:
        """Renew what is due, take what is free and this daemon's by share, give back idle ones beyond it.

        Args:
            tables: all that may be serviced, by name; leases of others are given back.
            busy: tables with work under way; they are not given back.
        """
        gained: list[str] = []
        lost: dict[str, str] = {}
        held_by: dict[str, str] = {}
        daemons, is_watching, problem = 1, False, None
        try:
            self._store.daemons.beat(self._daemon, self._clock.now())
            self._bury_the_dead()
            daemons = max(1, len(self._store.daemons.alive(self._clock.now())))
            share = math.ceil(len(tables) / daemons)
            self._renew(lost)
            self._give_back(tables, busy, share, lost)
            free, held_by, is_watching = self._others(tables)
            for table in free:
                if len(self.held) < share and table not in lost and self._take(table):
                    gained.append(table)
        except Exception as error:  # the caller has to hear what was done before it, and judges the error
            problem = error
        return LeaseChanges(tuple(gained), lost, held_by, is_watching, daemons, problem)

    def expire(self) -> Mapping[str, str]:
        """Forget the leases that are not safe any more. Sends no request; for every step of the loop."""
        now = self._clock.monotonic()
        with self._lock:
            if now < self._safe_until:
                return {}
            over = [table for table, held in self._held.items() if not held.is_safe(now)]
            for table in over:
                del self._held[table]
            self._safe_until = min((held.safe_until for held in self._held.values()), default=math.inf)
        return dict.fromkeys(
            over, "The lease was not renewed in time; the store did not answer, or this process was suspended."
        )

    def release(self, tables: Iterable[str]) -> None:
        """Let others take these tables at once."""
        for table in tables:
            with self._lock:
                held = self._held.pop(table, None)
            if held is not None:
                self._store.leases.release(held.lease)

    def _bury_the_dead(self) -> None:
        """Give back what a killed daemon of this machine held, and forget that it lives: its share is free, too."""
        dead = {daemon.holder for daemon in self._store.daemons.known() if self._is_provably_dead(daemon)}
        if not dead:
            return
        now = self._clock.now()
        for lease in (*self._store.leases.held(now), *self._store.leases.expired(now)):
            if lease.holder in dead:
                self._store.leases.release(lease)
        for holder in sorted(dead):  # last, since only its row says that it is dead
            self._store.daemons.leave(holder)

    def _is_provably_dead(self, daemon: DaemonRecord) -> bool:
        owner = None if daemon.process is None else parse_owner(daemon.process.encode())
        return owner is not None and daemon.holder != self.holder and self._processes.is_provably_dead(owner)

    def _renew(self, lost: dict[str, str]) -> None:
        with self._lock:
            due = [held for held in self._held.values() if held.is_due(self._clock.monotonic())]
        if not due:
            return
        kept = terms.keep(self._store.leases, due, self._seconds, self._clock)
        for table in (held.lease.table for held in due):
            with self._lock:
                if table not in self._held:
                    continue  # it expired while the store was asked; the loop knows
                if table in kept:
                    self._held[table] = kept[table]
                    continue
                del self._held[table]
            lost[table] = (
                "The store does not know the lease any more: another daemon took it, or the store is another one."
            )

    def _give_back(self, tables: Sequence[str], busy: AbstractSet[str], share: int, lost: dict[str, str]) -> None:
        for table in sorted(self.held - set(tables) - busy):
            lost[table] = "The table is not to be serviced any more."
            self.release([table])
        for table in sorted(self.held - busy)[: max(0, len(self.held) - share)]:
            lost[table] = "Given to another daemon, for its share of the work."
            self.release([table])

    def _others(self, tables: Sequence[str]) -> tuple[list[str], dict[str, str], bool]:
        """What is free, what is not and whose it is, and whether something of that is over and only watched."""
        if self.held.issuperset(tables):
            return [], {}, False
        now, monotonic = self._clock.now(), self._clock.monotonic()
        over = {lease.table: lease for lease in self._store.leases.expired(now)}
        shown = {daemon.holder: self._shown(daemon) for daemon in self._store.daemons.known()}
        held_by = {}
        is_watching = False
        for lease in (*self._store.leases.held(now), *over.values()):
            if lease.table not in tables or lease.holder == self.holder:
                continue
            still = self._stillness.seconds(lease.table, lease, monotonic=monotonic)
            if lease.table not in over:
                held_by[lease.table] = shown.get(lease.holder, lease.holder)
            elif still < self._seconds * terms.SAFE_PART:
                held_by[lease.table] = shown.get(lease.holder, lease.holder)
                is_watching = True
        free = [table for table in tables if table not in held_by and table not in self.held]
        return free, held_by, is_watching

    def _shown(self, daemon: DaemonRecord) -> str:
        """Its name in the store where its row does not say its process."""
        owner = None if daemon.process is None else parse_owner(daemon.process.encode())
        if owner is None:
            return daemon.holder
        return daemon_of(pid=owner.pid, host=owner.host, store=self._store.name)

    def _take(self, table: str) -> bool:
        held = terms.take(self._store.leases, table, self.holder, self._seconds, self._clock)
        if held is None:
            return False
        with self._lock:
            self._held[table] = held
            self._safe_until = min(self._safe_until, held.safe_until)
        return True
