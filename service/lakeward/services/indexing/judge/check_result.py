"""What a check of an index is asked to find, and what it found.

Touches: nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from lakeward.base.named_key import plain_key
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.index.placed_keys import IndexFault
from lakeward.services.indexing.judge.confidence import sample_size


@dataclass(frozen=True, slots=True)
class CheckSize:
    error_rate: float
    """A share of wrong rows, or entries, that is to be found."""
    confidence: float
    seed: int = 0
    everything: bool = False
    """Look at every row and every entry."""
    merged_bytes_max: int | None = None
    """So many bytes of file slices with logs are merged for their keys, chosen by the seed; None: all."""
    entries_max: int | None = None
    """No part of the index is begun once so many of its entries were read, in an order that the seed gives; None: all
    are read."""

    @property
    def number(self) -> int:
        return sys.maxsize // 4 if self.everything else sample_size(self.error_rate, self.confidence)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn of one population, and what of it was wrong."""

    checked: int
    of: int
    wrong: int
    excluded_rate: float | None
    """The share that fewer are wrong than, with the confidence of the check, where none of those drawn was."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    confidence: float
    rows: Drawn
    """Rows that were looked up in the index."""
    entries: Drawn | None
    """Entries that were looked for among the rows; None where the index keeps none, but reads the files."""
    faults: tuple[IndexFault, ...] = ()
    notes: tuple[str, ...] = ()
    read: ReadMeter = field(default_factory=ReadMeter)

    @property
    def wrong(self) -> int:
        return self.rows.wrong + (self.entries.wrong if self.entries is not None else 0)

    @property
    def summary(self) -> str:
        """What is wrong, as the end of a sentence, with one key for all."""
        entries = self.entries
        of_entries = "" if entries is None else f" and {entries.wrong:,} of {entries.checked:,} entries"
        example = f", such as {plain_key(self.faults[0].key)}: {self.faults[0].what}" if self.faults else ""
        return f"{self.rows.wrong:,} of {self.rows.checked:,} rows{of_entries} were found wrong{example}."

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left unlooked at."""
        drawn = (self.rows, self.entries) if self.entries is not None else (self.rows,)
        return not self.notes and all(each.checked == each.of for each in drawn)
