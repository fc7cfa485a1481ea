"""What one operation may hold in memory, and who of it how much.

All that grows with rows has a share, and spills, cuts or refuses before it holds more:

    share      holds                                              beyond it
    logs       log records, their key index and states; or        sorted runs in files (`merge/logs/log_records`)
               a batch of each run
    runs       instead of those, pages and batches of logs that   they are read one after the other, as others are
               are merged out of their files
    batch      one batch that is decoded, or one block of         fewer rows; a row, or such a block, that needs more is
               deletes that are Java objects                      refused
    row        one row that is written, six times over            refused
    window     what is put together to one output batch           more and smaller batches
    row_group  rows that wait for the end of a row group,         smaller row groups
               while as many are encoded
    log_block  a block of a log that is written                   more and smaller blocks
    change_    a block of a log of changes, beside the row group  more and smaller blocks
    block      of the base file
    bloom_     the bits of the bloom filter of a base file that   a filter that errs more often
    filter     is written; as text they are there twice more
    footer     what footers and indexes say of row groups that    the rows are decoded and encoded
               are copied

A row that is larger than a window is in memory several times over: put together, encoded, as a page, compressed, and on
its way to the file. These are five copies at once; beside them rows before and after it wait, which have as much as one
of them. Together they have all that there is for rows.

Touches: nothing; a plain value.
Source:  the shares are measured (`benchmarks/README.md`, Memory).
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024 * 1024
MEMORY_BYTES = 512 * _MIB
"""The default of an operation, interpreter included."""
INTERPRETER_BYTES = 272 * _MIB
"""Python, Arrow and the compiled kernels, with what they keep once they ran, before any row."""

ROW_COPIES = 6
"""So many times what a large row takes is held while it is written."""


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
    def runs(self) -> int:
        return self.rows // 2

    @property
    def run_batch(self) -> int:
        """A batch of such a log, unless the fewest rows that are worth a batch take more."""
        return self.rows // 256

    @property
    def batch(self) -> int:
        """What a single row that is only read may take, too, or the page that it is in, and so larger than what most
        batches have; no less than a chunk of a file that is read at once."""
        return max(self.total // 4, 16 * _MIB)

    @property
    def row(self) -> int:
        """No less than what a window has."""
        return max(self.rows // ROW_COPIES, 4 * _MIB)

    @property
    def window(self) -> int:
        return min(4 * _MIB, max(1, self.rows // 64))

    @property
    def row_group(self) -> int:
        return self.rows // 6

    @property
    def log_block(self) -> int:
        """A block is in memory as rows, encoded and as it is written."""
        return min(64 * _MIB, self.rows // 6)

    @property
    def change_block(self) -> int:
        """It waits encoded, beside all that a FULL holds; rows of changes are a window's, before and after."""
        return min(16 * _MIB, self.rows // 16)

    @property
    def bloom_filter(self) -> int:
        """Its text is a third larger, and held as long as the footer is put together. No less than is worth a
        footer."""
        return max(self.rows // 15, _MIB)

    @property
    def footer(self) -> int:
        """Ten kilobytes for each column of each row group: where no log touches them nothing else is held."""
        return self.rows // 4


def total_for_row(row_bytes: int) -> int:
    """The smallest budget, in whole MiB, in which a row of this size can be written."""
    return -(-(INTERPRETER_BYTES + ROW_COPIES * row_bytes) // _MIB) * _MIB
