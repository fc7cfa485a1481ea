"""What a table's plan would take by now, in time of this machine.

Its price is that of the planner: what jobs of the table took over what the model says of them.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.daemon.status import TableStatus
from lakeward.daemon.web.signs import StateSign, Tone
from lakeward.services.compaction.plan.cost import BYTES_PER_SECOND, OPERATION_SECONDS
from lakeward.services.compaction.plan.price import PastMerge, price_of

_BANDS = (
    (60.0, StateSign("under a minute", "ring", Tone.GOOD)),
    (600.0, StateSign("minutes", "half", Tone.BUSY)),
    (3600.0, StateSign("most of an hour", "disc", Tone.BUSY)),
    (8 * 3600.0, StateSign("hours", "triangle", Tone.WARN)),
)
_MOST = StateSign("more than a night", "square", Tone.BAD)


@dataclass(frozen=True, slots=True)
class Debt:
    seconds: float
    """How long this machine would be busy, all of its cores."""
    sign: StateSign


def debt_of(table: TableStatus, cores: int) -> Debt | None:
    """None where no plan says what there is to do, or nothing is."""
    demand = table.outlook.demand
    if demand is None or not demand.operations:
        return None
    past = [
        PastMerge(each.ended_at, each.predicted_seconds or 0.0, each.actual_seconds or 0.0, each.detail.get("price", 1))
        for each in table.served.costs
    ]
    model = demand.operations * OPERATION_SECONDS + demand.read_bytes / BYTES_PER_SECOND
    seconds = model * price_of(past).factor / max(1, cores)
    return Debt(seconds, next((sign for most, sign in _BANDS if seconds < most), _MOST))
