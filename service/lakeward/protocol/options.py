"""How one table is to be compacted: what an operator chooses, for a command and for the daemon.

Touches: nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from lakeward.format.bloom_size import ROW_BYTES_MAX
from lakeward.protocol.lock.lock_choice import LockOptions
from lakeward.protocol.writers_conflict import YieldOptions
from lakeward.table.listing_source import ListingSource


def state_folder() -> Path:
    """The folder of the service's own files: `$XDG_STATE_HOME/lakeward`, by default below `~/.local/state`."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(home) / "lakeward"


SILENT_AFTER_SECONDS = 6 * 3600.0
"""Hudi makes a marker for each file that it begins to write, so it is more than a file takes."""


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    writers_stopped: bool
    """The operator says that no other process writes: a foreign instant aborts the commit."""
    lock: LockOptions
    yielding: YieldOptions = field(default_factory=YieldOptions)
    """How the writers that share the table are waited for."""
    wait_seconds: float = 150.0
    """How long to wait for a living attempt of another process at a pending plan."""
    silent_after: float | None = SILENT_AFTER_SECONDS
    """A service that was begun without a heartbeat counts as dead once it gave no other sign for so many seconds; None:
    only where no other process writes."""
    timezone: str | None = None
    listing: ListingSource = ListingSource.STORAGE
    """The source of the list of the whole table's files. Those that are merged are listed in the storage in any
    case."""
    codec: str = "zstd"
    bloom_bytes_max: int = ROW_BYTES_MAX
    """What the bits of a base file's bloom filter may take."""
    verify: bool = True
    sorts: bool = False
    """What FULL makes is in the order of its keys, whatever order the base file before it has."""
    memory_bytes: int = 512 * 1024 * 1024
    """Peak memory of one operation."""
    inline_changes: bool = False
    """A FULL writes what it changes into an inline log, also where the table's version has native ones: on the way to a
    version that has none."""
    accept_damaged_logs: bool = False
    """Go on, as Hudi's readers do, where logs are gone, cut or torn: their rows are lost for good, and the commit says
    which files they were in. Only ever said on the command line, for one run."""
    state_folder: Path = field(default_factory=state_folder)
    """The folder for the bundle of a failed verification; never in the table."""
