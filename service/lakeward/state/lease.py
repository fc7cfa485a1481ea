"""A lease as its holder sees it: a right that ends, by its own clock, well before another process may take it.

The database decides who holds a lease, and by its clock when it is over. The holder cannot ask it at every step, and
a holder that sleeps through the end (a paused process, a stuck disk) does not know that it slept. So the holder
measures on its own monotonic clock, from before the call was sent, and stops when two thirds are over:

    asked_at     renew_at                      safe_until                    the database lets another in
       |------------|------------------------------|------------------------------|----
       0           1/3                            2/3                        1 (or later: the call took its time)

A table's lease saves work; that no process publishes twice is the timeline's doing, not the lease's.

Touches: nothing itself; `take` and `keep` call the store.
Keeps:   two holders are never both safe, as long as a holder's clock runs at more than two thirds of the speed of
         the database's, and that one is not set forward by a third of a lease (`daemon/loop/leases.py` sees to it that
         no daemon takes one then whose holder still renews it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.state.lease_rows import LeaseRows
from lakeward.state.records import Lease

SAFE_PART = 2 / 3
RENEW_PART = 1 / 3


@dataclass(frozen=True, slots=True)
class HeldLease:
    lease: Lease
    seconds: float
    """How long it was asked for."""
    asked_at: float
    """The holder's monotonic clock just before the call was sent that gave or renewed it."""

    @property
    def renew_at(self) -> float:
        return self.asked_at + self.seconds * RENEW_PART

    @property
    def safe_until(self) -> float:
        return self.asked_at + self.seconds * SAFE_PART

    def is_safe(self, monotonic: float) -> bool:
        """True while the holder may work. Not safe is not lost: a renewal may still succeed."""
        return monotonic < self.safe_until

    def is_due(self, monotonic: float) -> bool:
        """True when it is time to renew."""
        return monotonic >= self.renew_at


def take(leases: LeaseRows, table: str, holder: str, seconds: float, clock: Clock) -> HeldLease | None:
    """The lease of `table`; None while another process has it."""
    asked_at = clock.monotonic()
    lease = leases.acquire(table, holder, seconds, clock.now())
    return None if lease is None else HeldLease(lease, seconds, asked_at)


def keep(leases: LeaseRows, held: Sequence[HeldLease], seconds: float, clock: Clock) -> dict[str, HeldLease]:
    """The same leases for longer, by table; those that another process has taken are missing."""
    asked_at = clock.monotonic()
    kept = leases.renew([each.lease for each in held], seconds, clock.now())
    return {lease.table: HeldLease(lease, seconds, asked_at) for lease in kept}
