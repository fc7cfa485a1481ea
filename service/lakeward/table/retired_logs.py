"""Which logs of a file group readers can do without, since the output of a log compaction stands for them.

    s1 s2 s3 -> O1        s1, s2 and s3 may go once O1 is there
    O1 s4    -> O2        O1 and s4 may go once O2 is there, and with O1 gone O2 stands for s1, s2 and s3, too

In the layout `lsm_tree` the output alone reads as its sources and it did (`engine/task/log_operation`), if Lakeward
planned it. Another program's names what it merged, also where Lakeward carried it out: Hudi's reader of the layout
`default`, by which its log compaction reads in either layout, places such an output where it meets what that merged,
and ignores it in silence where it meets nothing. So in the layout `default` no log may go, and the snapshot has no
stand-ins there (`TimelineReader.stand_ins`).

Touches: nothing.
Keeps:   1. a log is stood for only while an output of that log compaction is there, or is stood for in turn;
         2. nothing is stood for by a log compaction that another program planned;
         3. damage stays damage, but for a log that is gone and stood for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from lakeward.format.file_name import parse_any_log
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


def without_stood_for(
    damage: Mapping[str, Sequence[DamagedFile]], files: Iterable[PartitionFiles], stand_ins: StandIns
) -> Mapping[str, Sequence[DamagedFile]]:
    """The damage, without logs that are gone and for which a log compaction stands."""
    if not damage or not stand_ins:
        return damage
    stood_for = _paths_stood_for([each for each in files if each.partition_path in damage], stand_ins)
    left = {
        partition_path: tuple(
            file for file in damaged if file.kind is not DamageKind.MISSING or file.path not in stood_for
        )
        for partition_path, damaged in damage.items()
    }
    return {partition_path: damaged for partition_path, damaged in left.items() if damaged}


def without_retired(files: Sequence[PartitionFiles], retired: Collection[str]) -> list[PartitionFiles]:
    """The files, without logs that have retired and that no query is to open any more."""
    if not retired:
        return list(files)
    return [
        replace(partition, log_files=tuple(log for log in partition.log_files if log.path not in retired))
        for partition in files
    ]


def _paths_stood_for(files: Iterable[PartitionFiles], stand_ins: StandIns) -> Collection[str]:
    found: set[str] = set()
    for partition in files:
        there: dict[str, list[str]] = {}
        for log in partition.log_files:
            there.setdefault(log.name.file_id, []).append(log.name.text)
        prefix = f"{partition.partition_path}/" if partition.partition_path else ""
        for file_id, names in there.items():
            of_group = stand_ins.get((partition.partition_path, file_id), ())
            found.update(f"{prefix}{name}" for name in find_stood_for(names, of_group))
    return found


def _instant(name: str) -> str:
    parsed = parse_any_log(name, native=True)
    return "" if parsed is None else parsed.instant
