"""Which logs of a file slice readers merge, and which a log compaction has superseded; no log is opened for it.

A log compaction leaves its source logs where they are, and readers take the output in their stead, at the place of
the newest source. So a slice has more files than *live* logs:

    files     t1  t2  t3  t4 (merged t1 t2)     live    t4 at the place of t2, then t3     superseded    t1, t2

Which logs an output stands for is in its plan, on the timeline. When that is archived the sources count as live
again: then a slice seems to hold more logs than it does, and may get a LOG too early, never a wrong one.

Sources may be gone: readers need one that is no output itself, and put the output into the place of the newest such
one that is left. So the newest is the output's *anchor*, and the others are *retired*. Readers pass over an output
that has none, and its rows are gone without a word (decision 0132).

    files     t2  t3  t4 (merged t1 t2)             live    t4 at the place of t2, then t3     anchor    t2

In the layout `lsm_tree` readers merge the sources as well, as long as they are there, each log at the place of its own
instant. Rows come out the same with and without them, so there, too, the live logs are those that have to be read.

A log of changes (`.cdc`), which a compaction leaves beside its base file, is neither: no snapshot reads it.

Touches: nothing.
Keeps:   1. every log of the slice is live, or superseded (merged into an output, or an output of no effect), or of
            changes;
         2. the live logs are in the order in which readers merge them;
         3. a log that is gone is no damage where an output that stands for it is there with a newer source, which is no
            output: the loss of an anchor is damage.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from lakeward.format.file_name import AnyLogName, parse_any_log
from lakeward.format.timeline.instant import comparable_time
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.file_system_view import GroupId, PartitionFiles
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

    @property
    def superseded(self) -> tuple[LogFile, ...]:
        """Logs that lie on storage and need not be read: readers open the heads of their blocks, and in the layout
        `lsm_tree` merge them all the same."""
        if len(self.live) == len(self.files):
            return ()
        live = {log.name.text for log in self.live}
        return tuple(log for log in self.files if log.name.text not in live and not log.name.is_cdc)

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
        if self.by_rank or not (sources := self.merged.get(log.name.text)):
            return log.instant
        written = (source.instant for source in sources if source.name.text not in self.merged)
        return max(written, key=comparable_time)


def live_logs(
    slice_: FileSlice, log_compactions: Sequence[LogCompaction] = (), *, late: AbstractSet[str] = frozenset()
) -> LiveLogs:
    """`late` are instants of writes whose logs are left out."""
    logs = slice_.log_files
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
    for compaction in log_compactions:
        if not (written := output_names.get(compaction.instant)):
            continue
        sources = tuple(by_name[name] for name in sorted(compaction.log_files & by_name.keys()))
        if not by_rank and all(source.instant in outputs for source in sources):
            # A full compaction took its sources away from under it: readers never use it.
            hidden.update(written)
            continue
        merged |= dict.fromkeys(written, sources)
        hidden |= compaction.log_files
    live = tuple(log for name, log in by_name.items() if name not in hidden and not log.name.is_cdc)
    found = LiveLogs(logs, live, merged, outputs, by_rank)
    # An output stands at the place of its newest source, which may lie before logs of older instants than its own.
    in_order = sorted(live, key=lambda log: (comparable_time(found.place(log)), log.name.sort_key))
    return replace(found, live=tuple(in_order))


def without_anchored(
    damage: Mapping[str, Sequence[DamagedFile]],
    files: Iterable[PartitionFiles],
    log_compactions: Mapping[GroupId, Sequence[LogCompaction]],
) -> Mapping[str, Sequence[DamagedFile]]:
    """The damage of these partitions without the logs that are gone and retired."""
    if not log_compactions or not any(file.kind is DamageKind.MISSING for each in damage.values() for file in each):
        return damage
    there = {partition.partition_path: names_of(partition) for partition in files}

    def is_passed_over(file: DamagedFile, partition_path: str) -> bool:
        name = parse_any_log(posixpath.basename(file.path), native=True)
        if file.kind is not DamageKind.MISSING or name is None:
            return False
        of_group = log_compactions.get((partition_path, name.file_id), ())
        return is_retired(name, there.get(partition_path, {}), of_group)

    left = {path: [file for file in damaged if not is_passed_over(file, path)] for path, damaged in damage.items()}
    return {path: damaged for path, damaged in left.items() if damaged}


def names_of(files: PartitionFiles) -> dict[str, AnyLogName]:
    return {log.name.text: log.name for log in files.log_files}


def is_retired(gone: AnyLogName, there: Mapping[str, AnyLogName], log_compactions: Sequence[LogCompaction]) -> bool:
    """Whether readers read an output in the stead of a log that is gone, and find their way to it without that: in the
    layout `default`.

    Args:
        there: the names of the logs in its partition.
        log_compactions: of its file group.
    """
    by_instant = {compaction.instant: compaction for compaction in log_compactions}
    of_gone = by_instant.get(gone.instant)
    for compaction in log_compactions:
        if compaction.ranks_last or gone.text not in compaction.log_files:
            continue
        left = [there[name] for name in compaction.log_files & there.keys()]
        outputs = [name for name in there.values() if name.instant == compaction.instant]
        if not outputs:  # gone as well
            taken = (parse_any_log(name, native=True) for each in log_compactions for name in each.log_files)
            outputs = [name for name in taken if name is not None and name.instant == compaction.instant]
            if any(is_retired(output, there, log_compactions) for output in outputs):
                return True
            continue
        # What a lost output alone stood for would be read beside the output that took it.
        if of_gone is not None and of_gone.log_files & there.keys() - compaction.log_files:
            continue
        plain = (name for name in left if name.instant not in by_instant)
        if any(of_gone is not None or name.sort_key > gone.sort_key for name in plain):
            return True
    return False
