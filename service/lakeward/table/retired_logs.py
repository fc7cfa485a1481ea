"""Which logs of a file group readers can do without, since the output of a log compaction stands for them.

    s1 s2 s3 -> O1        s1, s2 and s3 may go once O1 is there
    O1 s4    -> O2        O1 and s4 may go once O2 is there, and with O1 gone O2 stands for s1, s2 and s3, too

In the layout `lsm_tree` the output alone reads as its sources and it did (`engine/task/log_operation`), if Lakeward
planned it. Another program's names what it merged, also where Lakeward carried it out: Hudi's reader of the layout
`default`, by which its log compaction reads in either layout, places such an output where it meets what that merged,
and ignores it in silence where it meets nothing.

So in the layout `default` all go but one (decision 0132): the newest source that is no output itself, the *anchor* of
the output that is read. An output that another one merged stays while a log is there that it names: without it readers
would not know that the log is merged.

    s1 s2 s3 -> O1        s1 and s2 may go; s3 is the anchor
    O1 s4    -> O2        s1, s2 and s3 may go; s4 is the anchor; O1 may go once s1, s2 and s3 are gone

Touches: nothing.
Keeps:   1. a log is stood for only while an output of that log compaction is there, or is stood for in turn;
         2. in the layout `lsm_tree` nothing is stood for by a log compaction that another program planned;
         3. damage stays damage, but for a log that is gone and that readers do without;
         4. in the layout `default` nothing stands for an anchor, so that its loss is damage;
         5. there an output that is there is stood for only when every log that it names is gone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from lakeward.format.file_name import AnyLogName, parse_any_log
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_system_view import GroupId, PartitionFiles
from lakeward.table.timeline.timeline_reader import LogCompaction

LogCompactions = Mapping[GroupId, Sequence[LogCompaction]]
"""The completed log compactions of each file group, oldest first."""


@dataclass(frozen=True, slots=True)
class StoodFor:
    """What the log compactions of a file group made of its logs."""

    by: Mapping[str, str] = field(default_factory=dict)
    """The first log compaction that stands for each log, by the log's name, whether the log is there or not."""
    anchors: Mapping[str, str] = field(default_factory=dict)
    """The logs that are there and by which readers find an output, each with the log compaction that wrote it."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """The outputs that are there and were merged by the log compaction, and stay for the logs that they name."""


def find_stood_for(there: Iterable[str], log_compactions: Sequence[LogCompaction]) -> StoodFor:
    """Which logs readers can do without.

    Args:
        there: names of the logs of the group, or of one slice of it.
        log_compactions: those of the group, oldest first.
    """
    if not log_compactions:
        return StoodFor()
    if any(compaction.ranks_last for compaction in log_compactions):
        return StoodFor(_by_rank(there, log_compactions))
    return _by_anchors(set(there), log_compactions)


def _by_rank(there: Iterable[str], log_compactions: Sequence[LogCompaction]) -> Mapping[str, str]:
    written_by = {_instant(name) for name in there}
    in_force: list[LogCompaction] = []
    for compaction in reversed(log_compactions):
        if compaction.is_own and compaction.instant in written_by:
            in_force.append(compaction)
            # What it merged may be an output, and be gone.
            written_by |= {_instant(name) for name in compaction.log_files}
    found: dict[str, str] = {}
    for compaction in reversed(in_force):
        for name in compaction.log_files:
            found.setdefault(name, compaction.instant)
    return found


def _by_anchors(there: Set[str], log_compactions: Sequence[LogCompaction]) -> StoodFor:
    by_instant = {compaction.instant: compaction for compaction in log_compactions}
    written_by = {_instant(name) for name in there}
    in_force: dict[str, AnyLogName] = {}
    anchors: dict[str, str] = {}
    for compaction in reversed(log_compactions):
        instant = compaction.instant
        anchor = in_force.get(instant)
        if anchor is None:
            left = [name for name in compaction.log_files if name in there]
            if instant not in written_by or (anchor := _newest(left, by_instant)) is None:
                continue
            in_force[instant] = anchor
            anchors[anchor.text] = instant
        for name in compaction.log_files:
            output = by_instant.get(_instant(name))
            if output is not None and (name in there or not _read_beside(output, compaction, there)):
                in_force.setdefault(output.instant, anchor)
    found: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for compaction in log_compactions:
        if (anchor := in_force.get(compaction.instant)) is None:
            continue
        newest = _newest(compaction.log_files, by_instant)
        place = anchor.sort_key if newest is None else min(anchor.sort_key, newest.sort_key)
        for name in compaction.log_files:
            if (output := by_instant.get(_instant(name))) is not None:
                stays = output.log_files & there if name in there else _read_beside(output, compaction, there)
                (waiting if stays else found).setdefault(name, compaction.instant)
            elif (parsed := _parse(name)) is not None and parsed.sort_key < place:
                found.setdefault(name, compaction.instant)
    return StoodFor(found, anchors, {name: by for name, by in waiting.items() if name in there})


def _read_beside(lost: LogCompaction, by: LogCompaction, there: Set[str]) -> bool:
    """Whether a log is there that a lost output alone stood for: readers read it beside the output that took that."""
    return any(name in there for name in lost.log_files - by.log_files)


def _newest(names: Iterable[str], outputs: Collection[str]) -> AnyLogName | None:
    """The newest of the logs that are no outputs."""
    parsed = map(_parse, names)
    plain = (name for name in parsed if name is not None and name.instant not in outputs)
    return max(plain, key=lambda name: name.sort_key, default=None)


def without_gone(
    damage: Mapping[str, Sequence[DamagedFile]], files: Iterable[PartitionFiles], log_compactions: LogCompactions
) -> Mapping[str, Sequence[DamagedFile]]:
    """The damage, without logs that are gone and that readers do without."""
    if not any(file.kind is DamageKind.MISSING for each in damage.values() for file in each):
        return damage
    there = {each.partition_path: [log.name for log in each.log_files] for each in files}

    @cache
    def stood_for(partition_path: str, file_id: str) -> Collection[str]:
        names = [name.text for name in there.get(partition_path, ()) if name.file_id == file_id]
        return find_stood_for(names, log_compactions.get((partition_path, file_id), ())).by

    def stays(file: DamagedFile, partition_path: str) -> bool:
        name = parse_any_log(posixpath.basename(file.path), native=True)
        if file.kind is not DamageKind.MISSING or name is None:
            return True
        return name.text not in stood_for(partition_path, name.file_id)

    left = {path: tuple(file for file in damaged if stays(file, path)) for path, damaged in damage.items()}
    return {path: damaged for path, damaged in left.items() if damaged}


def without_retired(files: Sequence[PartitionFiles], retired: Collection[str]) -> list[PartitionFiles]:
    """The files, without logs that have retired and that no query is to open any more."""
    if not retired:
        return list(files)
    return [
        replace(partition, log_files=tuple(log for log in partition.log_files if log.path not in retired))
        for partition in files
    ]


@lru_cache(65536)
def _parse(name: str) -> AnyLogName | None:
    return parse_any_log(name, native=True)


def _instant(name: str) -> str:
    parsed = _parse(name)
    return "" if parsed is None else parsed.instant
