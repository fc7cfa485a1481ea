"""What a build of an index of Lakeward's own reads of its table, and how far it is: by what lies in its folder.

No process says that it builds, so none that died is believed to: of a build it is known which file groups are read, and
when the last of them was. Here are no kernels: the daemon itself reports builds.

Touches: storage, reading: a listing of the folder.
See:     docs/decisions/0085-builds-that-go-on.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from lakeward.base.paths import join
from lakeward.base.quantities import format_duration
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.key_changes.group_changes import TableFiles
from lakeward.index.key_changes.table_commits import TableCommit, newest_change
from lakeward.index.key_checkpoints import BUILD_FOLDER, KeyCheckpoint, list_checkpoints, slice_digest
from lakeward.index.out_of_use import FOLDER
from lakeward.index.record.record_options import RecordOptions
from lakeward.read.logs.committed_writes import committed_writes
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import hoodie_folder


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is that is under way, or was stopped."""

    read: int
    """File groups whose keys are there."""
    of: int
    newest_at: float
    """When the last file group was read, of these or of what they were before."""

    def describe(self, now: float) -> str:
        """A sentence."""
        ago = format_duration(max(0.0, now - self.newest_at))
        return f"A build has read {self.read:,} of {self.of:,} file groups, the last one {ago} ago."


@dataclass(frozen=True)
class BuildState:
    """What a build reads of a snapshot, and how far that is."""

    commit: TableCommit | None
    """The newest one; None of a table without any."""
    slices: Mapping[str, FileSlice]
    """What is read of each file group, by the digest of its files."""
    made: Mapping[str, KeyCheckpoint]
    """The checkpoints that are there of these slices."""

    @classmethod
    def of(
        cls, storage: Storage, snapshot: TableSnapshot, table: TableFiles, folder: str, besides: Collection[str] = ()
    ) -> BuildState:
        """
        Args:
            folder: of the build.
            besides: partitions of which nothing is read.
        """
        slices = (table.newest[group] for group in sorted(table.newest) if group[0] not in besides)
        rules, made_of = merge_rules(snapshot), snapshot.config.made_key_fields
        committed = committed_writes(snapshot.timeline, snapshot.config.version)
        by_digest = {slice_digest(slice_, rules, made_of, committed): slice_ for slice_ in slices}
        return cls(newest_change(snapshot.timeline), by_digest, {}).as_it_is(storage, folder)

    def as_it_is(self, storage: Storage, folder: str) -> BuildState:
        """The same build, with what is there by now."""
        made = {digest: each for digest, each in list_checkpoints(storage, folder).items() if digest in self.slices}
        return BuildState(self.commit, self.slices, made)

    @cached_property
    def missing(self) -> dict[str, FileSlice]:
        return {digest: slice_ for digest, slice_ in self.slices.items() if digest not in self.made}

    @property
    def of_groups(self) -> list[tuple[GroupId, KeyCheckpoint]]:
        """The checkpoint of each file group, of a build that has all."""
        return [(slice_.group_id, self.made[digest]) for digest, slice_ in self.slices.items()]

    @property
    def bytes(self) -> int:
        """What the files take that are read, of which the columns of keys are a part."""
        return sum(slice_.bytes for slice_ in self.slices.values())

    @property
    def bytes_missing(self) -> int:
        """The same of those that have yet to be read."""
        return sum(slice_.bytes for slice_ in self.missing.values())


def build_folder(base_path: str, kind: LookupType, record: RecordOptions) -> str:
    """The folder of builds of an index of Lakeward's own: below the record index, with which it goes, or for one in a
    database, of which tasks know nothing, below the table or where its record index is."""
    if kind is IndexType.RECORD:
        return join(record.folder(base_path), BUILD_FOLDER)
    assert kind is IndexType.POSTGRES, "no other one is built by tasks"
    if record.location is None:
        return join(hoodie_folder(base_path), FOLDER, f"{kind}-{BUILD_FOLDER}")
    return f"{record.folder(base_path)}-{kind}-{BUILD_FOLDER}"


def metadata_build_folder(base_path: str, secondary: tuple[str, str] | None = None) -> str:
    """The folder of builds of the record index of the metadata table.

    Args:
        secondary: or of a secondary index there, its name and its column.
    """
    if secondary is None:
        return join(hoodie_folder(base_path), FOLDER, f"metadata-{BUILD_FOLDER}")
    digest = hashlib.sha256("\0".join(secondary).encode()).hexdigest()[:16]
    return join(hoodie_folder(base_path), FOLDER, f"metadata-{digest}-{BUILD_FOLDER}")


def build_under_way(storage: Storage, snapshot: TableSnapshot, folder: str) -> BuildProgress | None:
    """A build that is under way, or was stopped; None where nothing is there of any."""
    found = list_checkpoints(storage, folder)
    if not found:
        return None
    state = BuildState.of(storage, snapshot, TableFiles.of(snapshot), folder)
    return BuildProgress(len(state.made), len(state.slices), max(each.made_at for each in found.values()))
