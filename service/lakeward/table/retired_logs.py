"""Which logs of a file group readers can do without, since the output of a log compaction stands for them.

    s1 s2 s3 -> O1        s1, s2 and s3 may go once O1 is there
    O1 s4    -> O2        O1 and s4 may go once O2 is there, and with O1 gone O2 stands for s1, s2 and s3, too

In the layout `lsm_tree` the output alone reads as its sources and it did (`engine/task/log_operation`), if Lakeward
planned it. Another program's names what it merged, also where Lakeward carried it out: Hudi's reader of the layout
`default`, by which its log compaction reads in either layout, places such an output where it meets what that merged,
and ignores it in silence where it meets nothing.

So in the layout `default`, where no clean of Lakeward's lets a log go and the snapshot has no stand-ins, a log that is
gone all the same is no damage only where the output is there with a newer source that is no output itself, its
*anchor* (decision 0132).

Touches: nothing.
Keeps:   1. a log is stood for only while an output of that log compaction is there, or is stood for in turn;
         2. nothing is stood for by a log compaction that another program planned;
         3. damage stays damage, but for a log that is gone and that readers do without;
         4. the loss of an anchor is damage.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from lakeward.format.file_name import AnyLogName, parse_any_log
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_system_view import GroupId, PartitionFiles
from lakeward.table.timeline.timeline_reader import LogCompaction

StandIns = Mapping[GroupId, Sequence[LogCompaction]]
"""The completed log compactions of each file group, oldest first."""


def find_stood_for(there: Iterable[str], stand_ins: Sequence[LogCompaction]) -> Mapping[str, str]:
    """The first log compaction that stands for each log, by the log's name, whether the log is there or not.

    Args:
        there: names of the logs of the group, or of one slice of it.
        stand_ins: those of the group, oldest first.
    """
    written_by = {_instant(name) for name in there}
    in_force: list[LogCompaction] = []
    for compaction in reversed(stand_ins):
        if compaction.is_own and compaction.instant in written_by:
            in_force.append(compaction)
            # What it merged may be an output, and be gone.
            written_by |= {_instant(name) for name in compaction.log_files}
    found: dict[str, str] = {}
    for compaction in reversed(in_force):
        for name in compaction.log_files:
            found.setdefault(name, compaction.instant)
    return found


def without_gone(
    damage: Mapping[str, Sequence[DamagedFile]],
    files: Iterable[PartitionFiles],
    *,
    log_compactions: StandIns,
    stand_ins: StandIns,
) -> Mapping[str, Sequence[DamagedFile]]:
    """The damage, without logs that are gone and that readers do without.

    Args:
        log_compactions: those by whose outputs readers pass over sources, in the layout `default`.
    """
    if not any(file.kind is DamageKind.MISSING for each in damage.values() for file in each):
        return damage
    there = {each.partition_path: {log.name.text: log.name for log in each.log_files} for each in files}

    @cache
    def stood_for(partition_path: str, file_id: str) -> Collection[str]:
        names = [name.text for name in there.get(partition_path, {}).values() if name.file_id == file_id]
        return find_stood_for(names, stand_ins.get((partition_path, file_id), ()))

    def stays(file: DamagedFile, partition_path: str) -> bool:
        name = parse_any_log(posixpath.basename(file.path), native=True)
        if file.kind is not DamageKind.MISSING or name is None:
            return True
        of_group = log_compactions.get((partition_path, name.file_id), ())
        is_gone = is_retired(name, there.get(partition_path, {}), of_group)
        return not is_gone and name.text not in stood_for(partition_path, name.file_id)

    left = {path: tuple(file for file in damaged if stays(file, path)) for path, damaged in damage.items()}
    return {path: damaged for path, damaged in left.items() if damaged}


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


def without_retired(files: Sequence[PartitionFiles], retired: Collection[str]) -> list[PartitionFiles]:
    """The files, without logs that have retired and that no query is to open any more."""
    if not retired:
        return list(files)
    return [
        replace(partition, log_files=tuple(log for log in partition.log_files if log.path not in retired))
        for partition in files
    ]


def _instant(name: str) -> str:
    parsed = parse_any_log(name, native=True)
    return "" if parsed is None else parsed.instant
