"""How long to wait before the next try: twice as long after every failure, up to a most, and never all at once.

Touches: nothing; chance comes from the generator that is handed in.
Keeps:   a delay lies between half of and the whole step, so that tables that failed together come back apart.
"""

from __future__ import annotations

from random import Random

_DOUBLINGS_MAX = 40
"""More than any setting needs; a float of more would overflow."""


def delay(chance: Random, *, first: float, most: float, failures: int) -> float:
    """Seconds to wait after that many failures in a row, at least one."""
    step = min(most, first * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
    return step * chance.uniform(0.5, 1.0)
