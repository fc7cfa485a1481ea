"""Which logs of a file slice readers merge, and which a log compaction has superseded; no log is opened for it.

A log compaction leaves its source logs where they are, and readers take the output in their stead, at the place of
the newest source. So a slice has more files than *live* logs:

    files     t1  t2  t3  t4 (merged t1 t2)     live    t4 at the place of t2, then t3     superseded    t1, t2

Which logs an output stands for is in its plan, on the timeline or in the history, where archivers take it along
(decision 0145). Where that cannot be read the sources count as live again: then a slice seems to hold more logs than
it does, and may get a LOG too early, never a wrong one.

Sources may be gone (`table/retired_logs`): readers put the output into the place of the newest one that is left and is
no output itself, its *anchor*. They pass over an output that has none (decision 0132).

    files     t2  t3  t4 (merged t1 t2)             live    t4 at the place of t2, then t3     anchor    t2

In the layout `lsm_tree` readers merge the sources as well, as long as they are there, each log at the place of its own
instant. Rows come out the same with and without them, so there, too, the live logs are those that have to be read.

A log of changes (`.cdc`), which a compaction leaves beside its base file, is neither: no snapshot reads it.

Touches: nothing.
Keeps:   1. every log of the slice is live, or superseded (merged into an output, or an output of no effect), or of
            changes;
         2. the live logs are in the order in which readers merge them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from lakeward.format.timeline.instant import comparable_time
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.timeline.timeline_reader import LogCompaction

_NOTHING_MERGED: Mapping[str, tuple[LogFile, ...]] = {}


@dataclass(frozen=True, slots=True)
class LiveLogs:
    files: tuple[LogFile, ...]
    """All logs that were asked about, those of changes included, in comparator order."""
    live: tuple[LogFile, ...]
    """Logs among them whose content readers merge, in that order."""
    merged: Mapping[str, tuple[LogFile, ...]]
    """Maps the name of an output of log compaction to the logs it stands for, outputs among them included."""
    outputs: frozenset[str] = frozenset()
    """Instants of log compactions, those of no effect included."""
    by_rank: bool = False
    """The outputs are of the layout `lsm_tree`."""
    superseded: tuple[LogFile, ...] = ()
    """Logs that lie on storage and need not be read: readers open the heads of their blocks, and in the layout
    `lsm_tree` merge them all the same."""
    places: Mapping[str, str] = field(default_factory=dict)
    """The instants at whose places readers merge outputs, by their names, where these are not their own."""

    @property
    def superseded_paths(self) -> Mapping[str, tuple[str, ...]]:
        """The logs for which a live output stands, by path, each with the instants that it stands for itself. None in
        the layout `lsm_tree`, where no log leads a reader past another."""
        if self.by_rank:
            return {}
        return {
            source.path: tuple(dict.fromkeys(each.instant for each in self.merged.get(source.name.text, ())))
            for log in self.live
            for source in self.merged.get(log.name.text, ())
        }

    def merged_by(self, name: str) -> str | None:
        """The log compaction whose output is read in place of the log of that name."""
        outputs = ((output, self.merged.get(output.name.text, ())) for output in self.live)
        return next((out.instant for out, sources in outputs if any(each.name.text == name for each in sources)), None)

    def place(self, log: LogFile) -> str:
        """The instant at whose place readers merge a live log: its own, or that of its newest source."""
        return self.places.get(log.name.text, log.name.instant) if self.places else log.name.instant


def live_logs(
    slice_: FileSlice, log_compactions: Sequence[LogCompaction] = (), *, late: AbstractSet[str] = frozenset()
) -> LiveLogs:
    """`late` are instants of writes whose logs are left out."""
    logs = slice_.log_files
    # Of another program's in the layout `lsm_tree` source and output have to be read.
    log_compactions = [compaction for compaction in log_compactions if compaction.is_own]
    if late:
        logs = tuple(log for log in logs if log.instant not in late)
    if not log_compactions:
        return LiveLogs(logs, tuple(log for log in logs if not log.name.is_cdc), _NOTHING_MERGED)

    by_name = {log.name.text: log for log in logs}
    merged: dict[str, tuple[LogFile, ...]] = {}
    by_rank = any(compaction.ranks_last for compaction in log_compactions)
    outputs = frozenset(compaction.instant for compaction in log_compactions)
    output_names: dict[str, list[str]] = defaultdict(
        list
    )  # an output of rows and one of deletes, where logs are native
    for name, log in by_name.items():
        if log.instant in outputs:
            output_names[log.instant].append(name)
    hidden: set[str] = set()
    places: dict[str, str] = {}
    for compaction in log_compactions:
        if not (written := output_names.get(compaction.instant)):
            continue
        sources = tuple(by_name[name] for name in sorted(compaction.log_files & by_name.keys()))
        if not by_rank and all(source.instant in outputs for source in sources):
            # A full compaction took its sources away from under it: readers never use it.
            hidden.update(written)
            continue
        merged |= dict.fromkeys(written, sources)
        if not by_rank:
            newest = max((log.instant for log in sources if log.instant not in outputs), key=comparable_time)
            places |= dict.fromkeys(written, newest)
        hidden |= compaction.log_files
    live = tuple(log for name, log in by_name.items() if name not in hidden and not log.name.is_cdc)
    superseded = tuple(log for name, log in by_name.items() if name in hidden and not log.name.is_cdc)
    found = LiveLogs(logs, live, merged, outputs, by_rank, superseded, places)
    # An output stands at the place of its newest source, which may lie before logs of older instants than its own.
    in_order = sorted(live, key=lambda log: (comparable_time(found.place(log)), log.name.sort_key))
    return replace(found, live=tuple(in_order))
