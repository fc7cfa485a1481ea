"""The values of a table's files: base file, log file, file slice, file group.

Paths are relative to the table's base path (`p=1/x.parquet`), as in Hudi's own metadata, so that they mean
the same on every machine that reads them. Of a table of a million files each value has a million copies, so a path is
put together when it is asked for.

Touches: nothing.
Keeps:   1. the logs of a slice are in Hudi's comparator order, oldest first;
         2. the slices of a group are newest first, and each holds only files of completed instants.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.format.file_name import AnyLogName
from lakeward.table.damaged_file import DamagedFile


@dataclass(frozen=True, slots=True)
class BaseFile:
    file_id: str
    instant: str
    name: str
    partition_path: str
    size: int
    write_token: str

    @property
    def file_name(self) -> str:
        return self.name

    @property
    def path(self) -> str:
        return f"{self.partition_path}/{self.name}" if self.partition_path else self.name


@dataclass(frozen=True, slots=True)
class LogFile:
    name: AnyLogName
    partition_path: str
    size: int

    @property
    def file_name(self) -> str:
        return self.name.text

    @property
    def path(self) -> str:
        return f"{self.partition_path}/{self.name.text}" if self.partition_path else self.name.text

    @property
    def instant(self) -> str:
        """The instant in the name: the delta commit's own in layout 2, the slice's base instant in layout 1."""
        return self.name.instant


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One base file, or none yet, and the logs on top of it."""

    partition_path: str
    file_id: str
    base_instant: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...]

    @property
    def group_id(self) -> tuple[str, str]:
        return (self.partition_path, self.file_id)

    @property
    def since(self) -> str:
        """The instant of the base file: what began later is in this slice. Empty where there is none, for all is."""
        return "" if self.base_file is None else self.base_file.instant

    @property
    def files(self) -> tuple[BaseFile | LogFile, ...]:
        return self.log_files if self.base_file is None else (self.base_file, *self.log_files)

    @property
    def row_logs(self) -> tuple[LogFile, ...]:
        """The logs of rows and deletes. Logs of changes describe how the base file was made, and are not merged."""
        return tuple(log for log in self.log_files if not log.name.is_cdc)

    @property
    def log_names(self) -> tuple[str, ...]:
        return tuple(log.name.text for log in self.log_files)

    @property
    def bytes(self) -> int:
        return self.base_bytes + self.log_bytes

    @property
    def base_bytes(self) -> int:
        return self.base_file.size if self.base_file else 0

    @property
    def log_bytes(self) -> int:
        return sum(log.size for log in self.log_files) if self.log_files else 0

    @property
    def is_empty(self) -> bool:
        """True for a slice that only a pending compaction plan has opened."""
        return self.base_file is None and not self.log_files


@dataclass(frozen=True, slots=True)
class SlicePlace:
    """A slice among those of its file group."""

    base_instant: str
    number: int
    """1 for the newest slice."""
    slices: int
    superseded_by: str | None
    """The base instant of the next newer slice; None for the newest."""

    @property
    def text(self) -> str:
        """Which slice it is, in words."""
        if self.slices == 1:
            return "the only slice"
        if self.number == 1:
            return f"the newest of {self.slices} slices"
        return f"slice {self.number} of {self.slices}, the newest first"


@dataclass(frozen=True, slots=True)
class FileGroup:
    partition_path: str
    file_id: str
    slices: tuple[FileSlice, ...]

    @property
    def latest_slice(self) -> FileSlice | None:
        return self.slices[0] if self.slices else None

    @property
    def read_slices(self) -> tuple[FileSlice, ...]:
        """What a reader of the newest slice reads, who goes on to the slice before it under a pending compaction."""
        for number, slice_ in enumerate(self.slices, start=1):
            if slice_.base_file is not None:
                return self.slices[:number]
        return self.slices

    def place_of(self, slice_: FileSlice) -> SlicePlace:
        slices = [each for each in self.slices if not each.is_empty]
        number = slices.index(slice_)
        newer = slices[number - 1].base_instant if number else None
        return SlicePlace(slice_.base_instant, number + 1, len(slices), newer)


@dataclass(frozen=True, slots=True)
class FrozenGroup:
    """A file group whose slices cannot be known without guessing; no service may touch it."""

    partition_path: str
    file_id: str
    instant: str
    """The instant that nothing explains."""
    why: str
    is_nameable: bool = True
    """False where the partition's name is no text: no plan can name it, and Hudi neither."""
    damage: tuple[DamagedFile, ...] = ()
    """The files of it that are not what their commits say."""
