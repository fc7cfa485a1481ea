"""What the daemon knows of the indexes of one table: each index, the one on trial, and builds under way.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.base.clock import Clock
from lakeward.index.bloom.cache_coverage import CacheCoverage
from lakeward.index.bloom.log_coverage import LogsSeen
from lakeward.index.build_state import BuildProgress
from lakeward.index.index_type import LookupType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.record.index_growth import IndexLoad
from lakeward.index.tee import Tee
from lakeward.index.update_choice import UpdateDecision
from lakeward.protocol.metadata.writers_removal import WritersRemoval
from lakeward.services.indexing.settings import IndexSettings
from lakeward.services.service import StoredIndexes
from lakeward.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """An index of a table that says where keys are, and what was found of it."""

    type: LookupType
    """A table has one of a type. `BLOOM` stands for the cache of filters, where there is one."""
    checked_at: float | None = None
    """When it was last compared with the rows; None: not yet by this daemon."""
    checked: int = 0
    """Rows and entries that were looked at then."""
    wrong: int = 0
    out_of_use: str = ""
    """What was found to be wrong, at whatever check it was taken out of use; empty where it is in use."""
    excluded_rate: float | None = None
    """The share that fewer are wrong than, where none was, with a confidence of 99%."""
    behind: Staleness | None = None
    """What it lacked of its table at the last plan; None of one of Hudi's, which each commit brings its part, and where
    it is unknown.
    """
    behind_at: float = 0.0
    """When that was."""
    load: IndexLoad | None = None
    """How full its buckets are; None of an index without such."""
    unmerged: int = 0
    """Files that a lookup of one key asks beside the base file of its bucket."""
    coverage: CacheCoverage | None = None
    """How much of the table the cache of filters has; None for an index of another kind, and where it is unknown."""
    update: UpdateDecision | None = None
    """Whether it is brought up to date, as of the last plan; None of one that is not Lakeward's."""
    problem: str = ""
    """Why it is unknown what the index lacks, in sentences; empty where it is known."""

    @property
    def name(self) -> str:
        return self.type.value

    def seconds_behind(self, now: float) -> float | None:
        """Since the first commit completed that it lacks; 0 where there is none."""
        if self.behind is None:
            return None
        return self.behind.seconds + max(0.0, now - self.behind_at) if self.behind.commits else 0.0


@dataclass(frozen=True, slots=True)
class TeeStatus:
    """Two indexes of a table side by side, and how far the one on trial was compared with the other."""

    tee: Tee
    """What was chosen, and what was found; nothing where that cannot be read."""
    behind: Staleness = field(default_factory=Staleness)
    """Commits that were still to be compared at the last plan."""
    due: UpdateDecision | None = None
    """Whether they are compared now; None where something prevents it."""
    against: str = ""
    """What prevents it, in a sentence; empty where nothing does."""

    @property
    def chosen(self) -> tuple[LookupType | None, LookupType | None]:
        """The primary, and the shadow, which is on trial."""
        return self.tee.primary, self.tee.shadow

    @property
    def shadow_name(self) -> str:
        return "" if self.tee.shadow is None else self.tee.shadow.value


@dataclass(slots=True)
class IndexMemory:
    """What the service remembers of one table."""

    indexes: tuple[IndexStatus, ...] = ()
    """The indexes as of the last plan, with what was found of them."""
    builds: Mapping[LookupType, BuildProgress] = field(default_factory=dict)
    """How far builds were at the last plan that are under way, or were stopped."""
    rounds: Mapping[LookupType, int] = field(default_factory=dict)
    """The round of checks in which each index was checked last, or was first seen."""
    tee: TeeStatus | None = None
    """The index on trial as of the last plan or comparison; None where there is none."""
    logs: LogsSeen | None = None
    """How many bytes of the logs say their keys, as of the last plan; None where that is unknown."""
    unlooked: tuple[int, int] = (0, 0)
    """Commits that were to be looked through for doubled keys at the last plan, and the bytes that they wrote."""
    doubled_keys: int | None = None
    """The keys that the last look found doubled by one commit; None before the first look, and after one that failed
    otherwise."""
    removed: tuple[WritersRemoval, ...] = ()
    """Indexes of the metadata table that a Hudi writer removed soon after Lakeward had built them."""


@dataclass(frozen=True, slots=True)
class IndexCare:
    """How the parts of the service go about one table."""

    storage: Storage
    base_path: str
    settings: IndexSettings
    memory: IndexMemory
    may_write: bool
    """Something is said about its writers, so that it may be written to."""
    database: StoredIndexes
    clock: Clock
