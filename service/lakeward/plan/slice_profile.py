"""What planning knows about one file slice: its sizes, counts and ages, from names and listings; no log is opened.

A log compaction leaves its source logs where they are, and readers take the output in their stead, at the place of
the newest source. So a slice has more files than *live* logs:

    files     t1  t2  t3  t4 (merged t1 t2)     live    t4 at the place of t2, then t3

Which logs an output stands for is in its plan, on the timeline. When that is archived the sources count as live
again: then a slice seems to hold more logs than it does, and may get a LOG too early, never a wrong one.

Touches: nothing.
Keeps:   1. every log of the slice that completed before the plan's instant is live, or merged, or of no effect;
         2. the live logs are in the order in which readers merge them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lakeward.format.timeline.instant import comparable_time
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.timeline_reader import LogCompaction

_NOTHING_MERGED: Mapping[str, tuple[LogFile, ...]] = {}


@dataclass(frozen=True, slots=True)
class SliceProfile:
    slice: FileSlice
    log_files: tuple[LogFile, ...]
    """The logs that a plan may name: those of the slice without the ones that completed too late."""
    live: tuple[LogFile, ...]
    """Logs among them whose content readers merge, in that order."""
    merged: Mapping[str, tuple[LogFile, ...]]
    """Maps the name of a live output of log compaction to the logs it stands for, outputs among them included."""
    log_bytes: int
    """Bytes of the live logs; the following numbers are of these, too."""
    median_log_bytes: float
    largest_log_bytes: int
    oldest_log_instant: str | None
    delta_commits: int
    """How many writes put a log into the slice."""
    base_rows: int | None = None
    """None where no commit on the active timeline says."""

    @property
    def base_bytes(self) -> int:
        return self.slice.base_bytes

    @property
    def group_id(self) -> tuple[str, str]:
        return (self.slice.partition_path, self.slice.file_id)

    def place(self, log: LogFile) -> str:
        """The instant at whose place readers merge a live log: its own, or that of its newest source."""
        if not (sources := self.merged.get(log.name.text)):
            return log.instant
        written = (source.instant for source in sources if source.name.text not in self.merged)
        return max(written, key=comparable_time)


def profile_slice(
    slice_: FileSlice, log_compactions: Sequence[LogCompaction] = (), *, late: AbstractSet[str] = frozenset()
) -> SliceProfile:
    """`late` are the instants of writes that did not complete before the plan's own instant."""
    logs = slice_.log_files
    if late:
        logs = tuple(log for log in logs if log.instant not in late)
    if not log_compactions:
        return _profile(slice_, logs, logs, _NOTHING_MERGED, delta_commits=len({log.instant for log in logs}))

    by_name = {log.name.text: log for log in logs}
    merged: dict[str, tuple[LogFile, ...]] = {}
    outputs = {compaction.instant for compaction in log_compactions}
    output_names = {log.instant: name for name, log in by_name.items() if log.instant in outputs}
    hidden: set[str] = set()
    for compaction in log_compactions:
        output = output_names.get(compaction.instant)
        if output is None:
            continue
        if not compaction.log_files <= by_name.keys():
            # A full compaction took its sources away from under it: readers never use it.
            hidden.add(output)
            continue
        merged[output] = tuple(by_name[name] for name in sorted(compaction.log_files))
        hidden |= compaction.log_files
    profile = _profile(
        slice_,
        logs,
        tuple(log for name, log in by_name.items() if name not in hidden),
        merged,
        delta_commits=len({log.instant for log in logs} - outputs),
    )
    # An output stands at the place of its newest source, which may lie before logs of older instants than its own.
    in_order = sorted(profile.live, key=lambda log: (comparable_time(profile.place(log)), log.name.sort_key))
    return _profile(slice_, logs, tuple(in_order), merged, delta_commits=profile.delta_commits)


def _profile(
    slice_: FileSlice,
    log_files: tuple[LogFile, ...],
    live: tuple[LogFile, ...],
    merged: Mapping[str, tuple[LogFile, ...]],
    *,
    delta_commits: int,
) -> SliceProfile:
    sizes = sorted(log.size for log in live)
    middle = len(sizes) // 2
    median: float = 0
    if sizes:
        median = sizes[middle] if len(sizes) % 2 else (sizes[middle - 1] + sizes[middle]) / 2
    return SliceProfile(
        slice=slice_,
        log_files=log_files,
        live=live,
        merged=merged,
        log_bytes=sum(sizes),
        median_log_bytes=median,
        largest_log_bytes=sizes[-1] if sizes else 0,
        oldest_log_instant=min((log.instant for log in live), key=comparable_time) if live else None,
        delta_commits=delta_commits,
    )
