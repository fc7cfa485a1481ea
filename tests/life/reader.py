"""What readers find in a small table, now and as of any instant, slowly and without a line of the service's code.

Hudi's rules for layout 2, beside those of `tests/simulation/reader.py`: as of an instant nothing counts that was
requested later, but a log belongs to the slice that it belongs to now. A file group counts until its replacecommit
does, and again when that has left the active timeline. Completion times of what has left it are in the history;
whatever is older than the active timeline counts as committed, *also what the history does not know*.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.life.rows import newest, present
from tests.simulation.data_files import Content, fold, read_base_file, read_log_file
from tests.simulation.memory_storage import MemoryStorage
from tests.simulation.reader import BASE_FILE, LOG_FILE, WRITES, Instants, planned_groups, read_avro, read_timeline

GroupId = tuple[str, str]


@dataclass
class Group:
    bases: dict[str, Content] = field(default_factory=dict)
    logs: list[tuple[str, str, Content]] = field(default_factory=list)
    """Requested time, completion time, content; oldest first."""


@dataclass
class Readers:
    """One look at the table, which answers readers of any instant."""

    groups: dict[GroupId, Group]
    opened: Mapping[GroupId, list[str]]
    """Requested times of pending compactions."""
    replaced: Mapping[GroupId, str]
    completed: Mapping[str, str]
    """Completion times of writes on the active timeline."""
    archived: Mapping[str, str]
    problems: list[str]

    def rows(self, as_of: str | None = None) -> dict[int, int]:
        ids: set[int] = set()
        for group_id, group in self.groups.items():
            replaced_at = self.replaced.get(group_id)
            if replaced_at is None or (as_of is not None and replaced_at > as_of):
                ids |= _read(group, self.opened.get(group_id, []), as_of)
        return present(newest(ids))


def look(storage: MemoryStorage, base_path: str, partitions: tuple[str, ...]) -> Readers:
    instants = read_timeline(storage, base_path)
    problems: list[str] = []
    completed: dict[str, str] = {}
    for time, each in instants.completed.items():
        of_writes = [at for at, action, _ in each if action in WRITES]
        if len(of_writes) > 1 or len({action for _, action, _ in each} - {"savepoint"}) > 1:
            problems.append(f"{time} is completed more than once: {each}")
        if of_writes:
            completed[time] = of_writes[0]
    archived = instants.archived
    start = min(completed, default="")

    def committed_at(instant: str, path: str) -> str | None:
        if (at := completed.get(instant) or archived.get(instant)) is not None:
            return at
        if instant < start:
            problems.append(f"{path} is of nothing completed, and before the active timeline begins at {start}")
            return instant
        return None

    groups: dict[GroupId, Group] = defaultdict(Group)
    for partition in partitions:
        for status in storage.list(posixpath.join(base_path, partition)):
            if match := BASE_FILE.fullmatch(status.name):
                file_id, _, instant = match.groups()
                if committed_at(instant, status.path) is not None:
                    bases = groups[partition, file_id].bases
                    if instant in bases:
                        problems.append(f"{status.path} is a second base file of its instant")
                    bases[instant] = read_base_file(storage.read(status.path))
            elif match := LOG_FILE.fullmatch(status.name):
                file_id, instant, _ = match.groups()
                if (at := committed_at(instant, status.path)) is not None:
                    groups[partition, file_id].logs.append((instant, at, read_log_file(storage.read(status.path))))
    for group in groups.values():
        group.logs.sort(key=lambda log: log[0])
    replaced = dict(_replaced(storage, instants))
    return Readers(
        groups, planned_groups(storage, base_path, instants, "compaction"), replaced, completed, archived, problems
    )


def _replaced(storage: MemoryStorage, instants: Instants) -> Iterator[tuple[GroupId, str]]:
    for time, each in instants.completed.items():
        for _, action, path in each:
            if action == "replacecommit":
                for partition, file_ids in read_avro(storage.read(path))["partitionToReplaceFileIds"].items():
                    yield from (((partition, file_id), time) for file_id in file_ids)


def _read(group: Group, opened: list[str], as_of: str | None) -> set[int]:
    begins = sorted({*group.bases, *opened}, reverse=True)
    slices: dict[str, list[tuple[str, Content]]] = {begin: [] for begin in (*begins, "")}  # "": before every base file
    for instant, completed, content in group.logs:
        belongs = next((begin for begin in begins if begin <= completed), "")
        if as_of is None or instant <= as_of:
            slices[belongs].append((instant, content))
    merged: list[tuple[str, Content]] = []
    for begin, logs in slices.items():
        if as_of is not None and begin > as_of:
            continue
        merged = logs + merged
        if begin in group.bases:
            return fold(merged)[0] | group.bases[begin].ids
    return fold(merged)[0]
