"""What one operation may hold in memory, and who of it how much.

All that grows with rows has a share, and spills, cuts or refuses before it holds more:

    share      holds                                              beyond it
    logs       log records, their key index and states; or        sorted runs in files (`merge/logs/log_records`)
               a batch of each run
    hashes     a hash of every key of an unsorted base file       sorted hashes in files (`merge/rows/hash_watch`)
    batch      one batch or block that is decoded, or one row     fewer rows; a row that needs more is refused
    window     what is put together to one output batch           more and smaller batches
    row_group  rows that wait for the end of a row group,         smaller row groups
               while as many are encoded

Touches: nothing; a plain value.
Source:  the shares are measured (`benchmarks/README.md`, Memory).
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024 * 1024
MEMORY_BYTES = 512 * _MIB
"""The default of an operation, interpreter included."""
INTERPRETER_BYTES = 224 * _MIB
"""Python, Arrow and the compiled kernels, before any row."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    total: int = MEMORY_BYTES

    @property
    def rows(self) -> int:
        """What is left for rows; where the interpreter leaves little, a quarter all the same."""
        return max(self.total - INTERPRETER_BYTES, self.total // 4)

    @property
    def logs(self) -> int:
        return self.rows // 4

    @property
    def hashes(self) -> int:
        return self.rows // 16

    @property
    def batch(self) -> int:
        """The bound of what a single row may take, too, and so larger than what most batches have."""
        return self.total // 4

    @property
    def window(self) -> int:
        return min(4 * _MIB, max(1, self.rows // 64))

    @property
    def row_group(self) -> int:
        return self.rows // 6
