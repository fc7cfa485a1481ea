"""What an operation costs and what it saves, predicted from sizes. A prediction and no promise.

Sizes after a merge are not known before it. A FULL is taken to write as much as the base it replaces, or as the logs
where there is none; a LOG as much as it reads, which is the worst case: rows that were written more than once are
kept once.

A reader of a slice reads its base and all live logs. What each log adds beside its bytes, to be opened and merged, is
`OPEN_BYTES`. A FULL saves the reader all logs, a LOG all but one; of the source logs, which stay until the next FULL
is cleaned up, readers still open the head.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024

OPEN_BYTES = 4 * MIB
"""Bytes that could be read while a file is opened: Spark's own estimate (spark.sql.files.openCostInBytes)."""

BYTES_PER_SECOND = 35 * MIB
"""Input bytes that one core merges in a second, with reading, writing and verifying. Measured by
`make bench-compaction` (in process: 287 MiB in 8.2 s on a two-core virtual machine); it depends on the rows far more
than on the disk."""

OPERATION_SECONDS = 0.2
"""What an operation takes however small it is: a task is started, files are opened and closed. Assumed, too."""


def operation_seconds(read_bytes: int) -> float:
    """Core-seconds that an operation takes which merges so much."""
    return OPERATION_SECONDS + read_bytes / BYTES_PER_SECOND


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one operation."""

    read_bytes: int
    write_bytes: int
    saved_bytes: int
    """What every later read of the slice saves, files that need not be opened counted at `OPEN_BYTES`."""
    price: float = 1.0
    """What jobs of the table take over what is said here of them (`price.py`)."""

    @property
    def io_bytes(self) -> int:
        return self.read_bytes + self.write_bytes

    @property
    def benefit(self) -> float:
        """Read bytes saved per byte written."""
        return self.saved_bytes / max(1, self.write_bytes)

    @property
    def core_seconds(self) -> float:
        return self.price * operation_seconds(self.read_bytes)

    @property
    def numbers(self) -> dict[str, int | float]:
        """The cost in the form that it has among the numbers of a decision."""
        known: dict[str, int | float] = {} if self.price == 1 else {"price": round(self.price, 3)}
        return known | {
            "read_bytes": self.read_bytes,
            "write_bytes": self.write_bytes,
            "saved_bytes": self.saved_bytes,
            "core_seconds": round(self.core_seconds, 3),
        }


def full_cost(*, base_bytes: int, log_bytes: int, logs: int, price: float = 1.0) -> Cost:
    """`log_bytes` and `logs` are of live logs; of the others only heads are read."""
    write_bytes = base_bytes or log_bytes
    saved = base_bytes + log_bytes + logs * OPEN_BYTES - write_bytes
    if not base_bytes:
        saved -= OPEN_BYTES  # one file is opened instead: the new base
    return Cost(base_bytes + log_bytes, write_bytes, max(0, saved), price)


def log_cost(*, run_bytes: int, logs: int, price: float = 1.0) -> Cost:
    """`run_bytes` and `logs` are of the live logs of the run."""
    return Cost(run_bytes, run_bytes, (logs - 1) * OPEN_BYTES, price)
