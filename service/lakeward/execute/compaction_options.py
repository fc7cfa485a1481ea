"""How one table is to be compacted: what an operator chooses, whoever asks for it.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lakeward.commit.lock import LockOptions
from lakeward.execute.replay import state_folder
from lakeward.table.listing import ListingSource


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    writers_stopped: bool
    """The operator says that nobody else writes: an instant of somebody else aborts the commit."""
    lock: LockOptions
    wait_seconds: float = 150.0
    """How long to wait for a living attempt of somebody else at a pending plan."""
    timezone: str | None = None
    listing: ListingSource = ListingSource.STORAGE
    """What tells the files of the whole table. Those that are merged are listed in the storage in any case."""
    codec: str = "zstd"
    verify: bool = True
    memory_bytes: int = 512 * 1024 * 1024
    """Peak memory of one operation."""
    accept_damaged_logs: bool = False
    """Go on, as Hudi's readers do, where logs are gone, cut or torn: their rows are lost for good, and the commit says
    which files they were in. Only ever said on the command line, for one run."""
    state_folder: Path = field(default_factory=state_folder)
    """Where the bundle of a failed verification goes; never in the table."""
