"""How many bytes of a table's logs say which keys they have: the one definition, for the list of indexes, for
`lakeward index tails`, for pages and gauges.

    with a tail     the log's end says it (`format/log/log_tail`)
    cached          others of which the cache of filters has an entry
    unknown         neither: a lookup by `bloom` with logs merges their slices

Counted are the logs that a query reads of the newest slices. Logs never change, so what was seen of one is remembered.

Touches: storage, reading: the choice of tails, the cache of filters, the end of each log that was not seen before.
Keeps:   1. each log counts as one of the three;
         2. of tables whose logs can have no tail, and of those of which no operator said so, no log is opened.
Memory:  path and size of each log that is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from lakeward.base.paths import join
from lakeward.base.quantities import format_size
from lakeward.index.bloom.filter_cache import usable_cache
from lakeward.index.bloom.log_tails import open_log_tail
from lakeward.index.tail_choice import read_tail_choice, why_no_tails
from lakeward.read.newest_slice import newest_slice
from lakeward.storage.storage import Storage
from lakeward.table.file_group import LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

SeenLogs = Mapping[tuple[str, int], bool]
"""Whether a log has a tail, by its path and size."""


@dataclass(frozen=True, slots=True)
class LogCoverage:
    logs: int = 0
    log_bytes: int = 0
    with_tail: int = 0
    with_tail_bytes: int = 0
    cached_bytes: int = 0
    """Bytes of logs without a tail that the cache of filters has."""
    unknown_bytes: int = 0
    """Bytes of logs that have no tail and are not in the cache."""

    @property
    def by_kind(self) -> Mapping[str, int]:
        return {"tail": self.with_tail_bytes, "cache": self.cached_bytes, "nothing": self.unknown_bytes}

    @property
    def summary(self) -> str:
        """A sentence; empty where there are no logs."""
        if not self.logs:
            return ""
        return (
            f"Logs take {format_size(self.log_bytes)}: {format_size(self.with_tail_bytes)} have a tail that says their "
            f"keys, the filter cache knows {format_size(self.cached_bytes)} of the others, and "
            f"{format_size(self.unknown_bytes)} are in neither."
        )


@dataclass(frozen=True, slots=True)
class LogsSeen:
    """The coverage at one moment, and what it was counted of."""

    coverage: LogCoverage = LogCoverage()
    tails: SeenLogs = field(default_factory=dict)

    def groups_with_tails(self, snapshot: TableSnapshot) -> frozenset[GroupId]:
        """The file groups of whose newest slices a log has a tail."""
        return frozenset(group for group, log in _logs(snapshot) if self.tails.get((log.path, log.size), False))


def look_at_logs(
    storage: Storage,
    snapshot: TableSnapshot,
    before: SeenLogs | None = None,
    *,
    cached: Set[tuple[str, int]] | None = None,
    opened_max: int | None = None,
) -> LogsSeen:
    """Raises `NotFound`, and what `read_tail_choice` does.

    Args:
        before: what was seen of the table's logs.
        cached: path and size of each log that the cache of filters has; None to read the cache for it.
        opened_max: logs that are opened; further ones count as without a tail until a later look opens them.
    """
    logs = [log for _, log in _logs(snapshot)]
    names = {(log.path, log.size): log for log in logs}
    tails: dict[tuple[str, int], bool] = {}
    if why_no_tails(snapshot.config) is None and read_tail_choice(storage, snapshot.base_path).may_be_there:
        tails = {name: has_tail for name, has_tail in (before or {}).items() if name in names}
        unseen = [name for name in names if name not in tails]
        for name in unseen[:opened_max]:
            tails[name] = _has_tail(storage, snapshot, names[name])
    others = [log for log in logs if not tails.get((log.path, log.size), False)]
    if cached is None:
        cached = _cached(storage, snapshot, others) if others else frozenset()
    cached_bytes = sum(log.size for log in others if (log.path, log.size) in cached)
    log_bytes, other_bytes = (sum(log.size for log in some) for some in (logs, others))
    coverage = LogCoverage(
        logs=len(logs),
        log_bytes=log_bytes,
        with_tail=len(logs) - len(others),
        with_tail_bytes=log_bytes - other_bytes,
        cached_bytes=cached_bytes,
        unknown_bytes=other_bytes - cached_bytes,
    )
    return LogsSeen(coverage, tails)


def _logs(snapshot: TableSnapshot) -> list[tuple[GroupId, LogFile]]:
    slices = [slice_ for group in snapshot.file_groups if (slice_ := newest_slice(group.slices)) is not None]
    return [(slice_.group_id, log) for slice_ in slices for log in slice_.row_logs]


def _cached(storage: Storage, snapshot: TableSnapshot, logs: Sequence[LogFile]) -> Set[tuple[str, int]]:
    cache = usable_cache(storage, snapshot.base_path)
    if cache is None:
        return frozenset()
    rows = cache.rows_of([log.path for log in logs], [log.size for log in logs])
    return {(log.path, log.size) for log, row in zip(logs, rows, strict=True) if row is not None}


def _has_tail(storage: Storage, snapshot: TableSnapshot, log: LogFile) -> bool:
    with storage.open_input(join(snapshot.base_path, log.path)) as file:
        return open_log_tail(file, log.size, log.file_name) is not None
