"""What merging one file slice needs to know, and what it counts: the values that travel to executors and back.

Touches: nothing; they import neither readers nor kernels, so that a process that only sends work stays small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakeward.format.file_name import parse_any_log
from lakeward.format.timeline.instant import is_before
from lakeward.merge.memory_budget import MEMORY_BYTES, MemoryBudget
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.read.logs.committed_writes import CommittedWrites


@dataclass(frozen=True, slots=True)
class SliceInput:
    """One slice to merge; travels to executors."""

    partition_path: str
    file_id: str
    base_file: str | None
    """Relative to the base path."""
    log_files: tuple[str, ...]
    """Relative to the base path, in comparator order."""
    base_path: str
    instant: str
    """The instant the merge is for: blocks of later instants are left out."""
    schema: str
    """Avro schema JSON of the table, without meta columns."""
    rules: MergeRules
    memory_bytes: int = MEMORY_BYTES
    accept_damaged_logs: bool = False
    """Go on without corrupt blocks, as Hudi's readers do."""
    widens_nested_floats: bool = True
    """False where the table's readers make another double of a float in a list than we would (version 8)."""
    committed: CommittedWrites | None = None
    """The writes whose blocks count, where the file-system view does not know their files (version 6)."""
    superseded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Paths among the logs that need not be opened, with the instants that each stands for itself."""
    key_fields: tuple[str, ...] = ()
    """The fields of which keys are made (`read/made_keys`); none where rows carry their keys."""
    since: str | None = None
    """The instant of the slice's base file (`FileSlice.since`) where all logs of the slice are here, else None."""
    sorts: bool = False
    """The rows are to come by their keys, whatever order the base file has."""

    @property
    def comes_by_key(self) -> bool:
        """Every file of the layout `lsm_tree` is sorted, and so is one before its table gets that layout."""
        return self.sorts or self.rules.by_rank

    @property
    def merges_by_rank(self) -> bool:
        """No log is from before the table got the layout `lsm_tree`: readers folded such a log with those of its slice
        first, and the rows as of its time stay what they were."""
        names = (parse_any_log(path.rpartition("/")[2], native=True) for path in self.log_files)
        since = self.rules.ranked_since
        return self.rules.by_rank and all(
            name is None or name.is_cdc or is_before(since, name.instant) for name in names
        )

    @property
    def budget(self) -> MemoryBudget:
        return MemoryBudget(self.memory_bytes)


MERGED_BY_KEY = "lakeward.merged.by"
"""Entry of a compaction's commit: how its file groups were merged, as "hashes 3, order 1, row groups copied 30"."""


class MergedBy(StrEnum):
    """How the base file's rows met those of the logs, or those of the logs each other."""

    ORDER = "order"
    """Both in the order of their keys, in which the rows come out."""
    HASHES = "hashes"
    """The base file is not sorted."""
    SORTING = "sorting"
    """The logs did not fit memory, and a base file, if there is one, is not sorted: they were sorted in files first."""
    HASHES_AFTER_ORDER = "hashes-after-order"
    """The base file says that it is sorted, and is not: what was merged by order was thrown away."""
    SORTING_AFTER_ORDER = "sorting-after-order"
    RANKS = "ranks"
    """All records of a key in the order of their files, the base file's first: in the layout `lsm_tree`, where that
    may give another row than the logs among themselves do."""
    OUT_OF_RANKS = "out-of-ranks"
    """The table has that layout, and a file of the slice is none of it: a log is inline, holds partial updates or is
    from before the table got the layout, and the slice was merged as in the layout `default`; or a file is not in the
    order of its keys, and was sorted first."""


@dataclass(frozen=True, slots=True)
class MergeCounts:
    base_rows: int
    log_files: int
    log_blocks: int
    corrupt_blocks: int
    rollback_blocks: int
    log_records: int
    """Records of the blocks that count, deletes included."""
    log_keys: int
    updated: int
    inserted: int
    deleted: int
    """Base rows that a log record deleted."""
    rows: int
    merged_by: MergedBy = MergedBy.HASHES
    folded: int = 0
    """Base rows over which another base row of their key won, where those are versions of one row."""
    row_groups_copied: int = 0
    """Row groups of the base file that went into the output as they are stored; their rows are among the others."""

    @property
    def changes(self) -> int:
        """How many keys a log of changes names."""
        return self.inserted + self.updated + self.deleted


def count_merges(counts: Iterable[MergeCounts]) -> dict[str, int]:
    """How many slices were merged by what."""
    return dict(sorted(Counter(str(each.merged_by) for each in counts).items()))
