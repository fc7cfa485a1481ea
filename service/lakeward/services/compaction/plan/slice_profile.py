"""What planning knows about one file slice: its sizes, counts and ages, from names and listings; no log is opened.

Sizes and counts are those of live logs; `table/live_logs.py` says which those are.

Touches: nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.live_logs import LiveLogs, live_logs
from lakeward.table.timeline.timeline_reader import LogCompaction


@dataclass(frozen=True, slots=True)
class SliceProfile:
    slice: FileSlice
    logs: LiveLogs
    """The logs that a plan may name: those of the slice without the ones that completed too late."""
    log_bytes: int
    """Bytes of the live logs; the following numbers are of these, too."""
    median_log_bytes: float
    largest_log_bytes: int
    delta_commits: int
    """How many writes put a log into the slice."""
    base_rows: int | None = None
    """None where no commit on the active timeline says."""

    @property
    def log_files(self) -> tuple[LogFile, ...]:
        return self.logs.files

    @property
    def live(self) -> tuple[LogFile, ...]:
        return self.logs.live

    @property
    def merged(self) -> Mapping[str, tuple[LogFile, ...]]:
        return self.logs.merged

    @property
    def base_bytes(self) -> int:
        return self.slice.base_bytes

    @property
    def group_id(self) -> tuple[str, str]:
        return (self.slice.partition_path, self.slice.file_id)

    def place(self, log: LogFile) -> str:
        return self.logs.place(log)


def profile_slice(
    slice_: FileSlice, log_compactions: Sequence[LogCompaction] = (), *, late: AbstractSet[str] = frozenset()
) -> SliceProfile:
    """`late` are the instants of writes that did not complete before the plan's own instant."""
    return profile_of(slice_, live_logs(slice_, log_compactions, late=late))


def profile_of(slice_: FileSlice, logs: LiveLogs) -> SliceProfile:
    """The same where it is known which logs are live."""
    sizes = sorted(log.size for log in logs.live)
    return SliceProfile(
        slice=slice_,
        logs=logs,
        log_bytes=sum(sizes),
        median_log_bytes=statistics.median(sizes) if sizes else 0,
        largest_log_bytes=sizes[-1] if sizes else 0,
        delta_commits=len({log.name.instant for log in logs.files if not log.name.is_cdc} - logs.outputs),
    )
