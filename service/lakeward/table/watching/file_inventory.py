"""The data files of a table, kept for days in little memory: what listings showed, and what commits added since.

A file group is one `bytes` value, its files packed as numbers and short texts, with instants by their place in a list;
it is unpacked when it is asked for or touched. A hundred thousand groups as objects would fill a daemon's memory; most
of them do not change between two polls.

    partition path -> file id -> packed base files and logs

Beside its size a base file carries what only reading could show about it: its rows, and that its footer holds nothing
special. Data files never change and their names are never used again, so both stay true as long as the file is there.

Touches: nothing.
Keeps:   1. a partition comes out as `sort_files` makes it of a listing, with what was added and removed since;
         2. a group without files is gone.
"""

from __future__ import annotations

import marshal
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lakeward.format.file_name import CDC_SUFFIX, AnyLogName, BaseFileName, LogFileName, parse_native_log
from lakeward.table.file_group import BaseFile, LogFile
from lakeward.table.file_system_view import PartitionFiles
from lakeward.table.found_link import FoundLink

UNKNOWN_ROWS = -1
SILENT_ROWS = -2
"""The commit that wrote the file was asked, and does not say how many rows it has."""


BaseFileKnowledge = tuple[int, bool]
"""Rows, or why they are not known; and whether the footer was read and holds nothing special."""


class _Base(NamedTuple):
    instant: int
    token: str
    size: int
    rows: int = UNKNOWN_ROWS
    is_plain: bool = False


class _Log(NamedTuple):
    instant: int
    version: int
    token: str | None
    suffix: str
    """What is behind the version, of a native log; that of an inline one is empty or `.cdc`."""
    size: int

    def name(self, file_id: str, instants: Sequence[str]) -> AnyLogName:
        instant = instants[self.instant]
        if self.suffix in ("", CDC_SUFFIX):
            return LogFileName(file_id, instant, self.version, self.token, self.suffix)
        name = parse_native_log(f"{file_id}_{self.token}_{instant}_{self.version}{self.suffix}")
        assert name is not None, "it was parsed when it was packed"
        return name


class FileInventory:
    def __init__(self) -> None:
        self._groups: dict[str, dict[str, bytes]] = {}
        self._unrecognised: dict[str, tuple[str, ...]] = {}
        self._links: dict[str, tuple[FoundLink, ...]] = {}
        self._instants: list[str] = []
        self._places: dict[str, int] = {}

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted(self._groups))

    def has_partition(self, path: str) -> bool:
        return path in self._groups

    def file_groups(self) -> int:
        return sum(map(len, self._groups.values()))

    def files(self, partition_path: str, knowledge: dict[str, BaseFileKnowledge] | None = None) -> PartitionFiles:
        """All files of a partition; what is known of its base files goes into `knowledge`, by path."""
        prefix = f"{partition_path}/" if partition_path else ""
        base_files: list[BaseFile] = []
        log_files: list[LogFile] = []
        instants = self._instants
        for file_id, packed in self._groups[partition_path].items():
            bases, logs = marshal.loads(packed)
            for place, token, size, rows, is_plain in bases:
                instant = instants[place]
                name = f"{file_id}_{token}_{instant}.parquet"
                if knowledge is not None:
                    knowledge[prefix + name] = (rows, is_plain)
                base_files.append(BaseFile(file_id, instant, name, partition_path, size, token))
            for packed_log in map(_Log._make, logs):
                log_files.append(LogFile(packed_log.name(file_id, instants), partition_path, packed_log.size))
        return PartitionFiles(
            partition_path,
            tuple(base_files),
            tuple(log_files),
            self._unrecognised.get(partition_path, ()),
            self._links.get(partition_path, ()),
        )

    def replace_partition(self, files: PartitionFiles) -> bool:
        """Take what a listing showed instead of what was known. True when that is not the same."""
        path = files.partition_path
        known = self._groups.get(path)
        bases: dict[str, list[_Base]] = {}
        logs: dict[str, list[_Log]] = {}
        for base in files.base_files:
            bases.setdefault(base.file_id, []).append(self._pack_base(base))
        for log in files.log_files:
            logs.setdefault(log.name.file_id, []).append(self._pack_log(log))
        groups: dict[str, bytes] = {}
        for file_id in bases.keys() | logs.keys():
            found = bases.get(file_id, [])
            if known is not None and (packed := known.get(file_id)) is not None:
                found = _with_knowledge(found, _unpack(packed)[0])
            groups[file_id] = self._pack(file_id, found, logs.get(file_id, []))
        differs = (
            known != groups
            or self._unrecognised.get(path, ()) != files.unrecognised
            or self._links.get(path, ()) != files.links
        )
        self._forget(path)
        self._groups[path] = groups
        if files.unrecognised:
            self._unrecognised[path] = files.unrecognised
        if files.links:
            self._links[path] = files.links
        return differs

    def keep_partitions(self, paths: Iterable[str]) -> bool:
        """Forget all others. True when there were any."""
        gone = self._groups.keys() - set(paths)
        for path in gone:
            self._forget(path)
        return bool(gone)

    def _forget(self, path: str) -> None:
        self._groups.pop(path, None)
        self._unrecognised.pop(path, None)
        self._links.pop(path, None)

    def forget_unused_instants(self) -> None:
        """Number the instants again: those of files that are gone would pile up over the years."""
        names, self._instants, self._places = self._instants, [], {}
        for groups in self._groups.values():
            for file_id, packed in groups.items():
                bases, logs = _unpack(packed)
                groups[file_id] = self._pack(
                    file_id,
                    [base._replace(instant=self._place(names[base.instant])) for base in bases],
                    [log._replace(instant=self._place(names[log.instant])) for log in logs],
                )

    def add(self, partition_path: str, file: BaseFile | LogFile, *, rows: int | None = None) -> None:
        """Take in a file that a commit wrote; one that is known by this name gets the new size."""
        if isinstance(file, BaseFile):
            bases, logs = self._group(partition_path, file.file_id)
            base = self._pack_base(file)._replace(rows=SILENT_ROWS if rows is None else rows)
            bases = [*(each for each in bases if each[:2] != base[:2]), base]
            self._groups[partition_path][file.file_id] = self._pack(file.file_id, bases, logs)
        else:
            bases, logs = self._group(partition_path, file.name.file_id)
            log = self._pack_log(file)
            logs = [*(each for each in logs if each[:4] != log[:4]), log]
            self._groups[partition_path][file.name.file_id] = self._pack(file.name.file_id, bases, logs)

    def remove(self, partition_path: str, name: BaseFileName | AnyLogName) -> None:
        """Take out a file that was deleted; nothing happens when it is not known."""
        groups = self._groups.get(partition_path)
        if groups is None or name.file_id not in groups or (place := self._places.get(name.instant)) is None:
            return
        bases, logs = _unpack(groups[name.file_id])
        if isinstance(name, BaseFileName):
            bases = [each for each in bases if each[:2] != (place, name.write_token)]
        else:
            logs = [each for each in logs if each[:4] != (place, name.version, name.write_token, _suffix(name))]
        if bases or logs:
            groups[name.file_id] = self._pack(name.file_id, bases, logs)
        else:
            del groups[name.file_id]

    def learn(self, base: BaseFile, *, rows: int | None = None, is_plain: bool | None = None) -> None:
        """Takes in what was read of a base file that is here: its rows, or that its footer holds nothing special."""
        path = posixpath.dirname(base.path)
        bases, logs = self._group(path, base.file_id)
        place = self._places[base.instant]
        sizes = [
            each._replace(
                rows=each.rows if rows is None else rows, is_plain=each.is_plain if is_plain is None else is_plain
            )
            if each[:2] == (place, base.write_token)
            else each
            for each in bases
        ]
        self._groups[path][base.file_id] = self._pack(base.file_id, sizes, logs)

    def _group(self, partition_path: str, file_id: str) -> tuple[list[_Base], list[_Log]]:
        packed = self._groups[partition_path].get(file_id)
        return _unpack(packed) if packed is not None else ([], [])

    def _pack(self, file_id: str, bases: Sequence[_Base], logs: Sequence[_Log]) -> bytes:
        # By name, as a listing has them: then equal files make equal bytes, whatever way they came.
        instants = self._instants
        bases = sorted(bases, key=lambda base: BaseFileName(file_id, base.token, instants[base.instant]).text)
        logs = sorted(logs, key=lambda log: log.name(file_id, instants).text)
        return marshal.dumps((tuple(map(tuple, bases)), tuple(map(tuple, logs))))

    def _pack_base(self, base: BaseFile) -> _Base:
        return _Base(self._place(base.instant), base.write_token, base.size)

    def _pack_log(self, log: LogFile) -> _Log:
        name = log.name
        return _Log(self._place(name.instant), name.version, name.write_token, _suffix(name), log.size)

    def _place(self, instant: str) -> int:
        place = self._places.setdefault(instant, len(self._instants))
        if place == len(self._instants):
            self._instants.append(instant)
        return place


def _suffix(name: AnyLogName) -> str:
    if isinstance(name, LogFileName):
        return name.suffix
    text = name.text
    return text[text.index(".") :]  # neither file id, token nor instant has a dot


def _unpack(packed: bytes) -> tuple[list[_Base], list[_Log]]:
    bases, logs = marshal.loads(packed)
    return [_Base(*base) for base in bases], [_Log(*log) for log in logs]


def _with_knowledge(found: Sequence[_Base], known: Sequence[_Base]) -> list[_Base]:
    """What is known of base files that are still there, of the same size."""
    by_name: Mapping[tuple[int, str, int], _Base] = {(base.instant, base.token, base.size): base for base in known}
    return [by_name.get((base.instant, base.token, base.size), base) for base in found]
