"""The record index of a table, below it or in the configured location, opened for a verb.

Touches: the folder of the index; the table, reading only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING

from lakeward.base.clock import SystemClock
from lakeward.base.errors import BrokenFile, Refused, Unsupported
from lakeward.base.quantities import format_share
from lakeward.cli.index.builds import under_way_told
from lakeward.cli.index.database_index import index_in_use
from lakeward.index.build_state import build_folder
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.unseen_commits import index_staleness
from lakeward.index.out_of_use import why_out_of_use
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_manifest import RecordManifest, find_manifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.index.record.scaling import Scaling, ScalingWay
from lakeward.protocol.index.record_index_writer import (
    RecordIndexWriter,
    create_record_index,
    drop_record_index,
    end_drop,
    moved_record_index,
)
from lakeward.services.indexing.judge.listing import IndexState, ListedIndex, unreadable
from lakeward.services.indexing.settings import IndexSettings, record_options_of
from lakeward.storage.storage import join

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.table.snapshot import TableSnapshot

_BUILT = "built-"


@dataclass(frozen=True, slots=True)
class RecordPlace:
    opened: ConfiguredTable
    options: RecordOptions
    folder: str
    below: str = ""
    """The folder below that of the index, of one that is built beside it."""

    @classmethod
    def of(cls, opened: ConfiguredTable) -> RecordPlace:
        options = record_options_of(opened.table)
        return cls(opened, options, options.folder(opened.base_path))

    @property
    def build_folder(self) -> str:
        """It goes with the index."""
        return build_folder(self.opened.base_path, IndexType.RECORD, self.options)

    def is_there(self) -> bool:
        return find_manifest(self.opened.storage, self._folder) is not None

    def create(self, *, is_global: bool) -> None:
        found = find_manifest(self.opened.storage, self._folder)
        scope = KeyScope.GLOBAL if is_global else KeyScope.PARTITION
        if found is not None and not found[1].files and not found[1].commits and found[1].scope is scope:
            return
        settings = self.opened.table.section(IndexSettings).record
        scaling = Scaling(ScalingWay(settings.scaling), settings.entries_max)
        empty = RecordManifest(0, scope, settings.hash, scaling)
        if settings.buckets is not None:
            empty = empty.with_first_group(settings.buckets)
        create_record_index(self.opened.storage, self._folder, empty)

    def open(self, snapshot: TableSnapshot) -> RecordIndexWriter:
        return RecordIndexWriter.of(self.opened.storage, snapshot, self._folder, options=self.options.lookup)

    def drop(self) -> bool:
        was_there = drop_record_index(self.opened.storage, self._folder)
        index_in_use(self.opened, IndexType.RECORD)
        return was_there

    def beside(self) -> RecordPlace:
        assert not self.below, "one is built at a time"
        end_drop(self.opened.storage, self.folder)
        # Each has a name of its own: of two processes that build it anew at once the first finds its folder gone.
        found = find_manifest(self.opened.storage, self.folder)
        live = None if found is None else found[0]
        for status in self.opened.storage.list(self.folder):
            if status.is_folder and status.name.startswith(_BUILT) and status.path != live:
                drop_record_index(self.opened.storage, status.path)
        return replace(self, below=f"{_BUILT}{token_hex(4)}")

    def take_place(self) -> None:
        moved_record_index(self.opened.storage, self.folder, self.below)
        index_in_use(self.opened, IndexType.RECORD)

    @property
    def _folder(self) -> str:
        return join(self.folder, self.below) if self.below else self.folder


def listed_in_folder(opened: ConfiguredTable, snapshot: TableSnapshot) -> tuple[ListedIndex, ...]:
    """The record index of the table."""
    place = RecordPlace.of(opened)
    try:
        found = find_manifest(opened.storage, place.folder)
        if found is None:
            return ()
        _, manifest = found
        behind = index_staleness(opened.storage, snapshot, manifest.indexed, clock=SystemClock())
    except (BrokenFile, Refused, Unsupported) as error:
        return (unreadable(IndexType.RECORD, error),)
    why = why_out_of_use(opened.storage, opened.base_path, IndexType.RECORD, place.options)
    state = IndexState.BUILDING if manifest.indexed.through is None else IndexState.IN_USE
    load = manifest.load
    buckets = sum(group.buckets for group in manifest.groups)
    note = f"Entries: {manifest.entries:,}; files: {len(manifest.files):,}; buckets: {buckets:,}"
    if load is not None:
        note += f", {format_share(load.mean)} full, the fullest of them {format_share(load.fullest)}"
    return (
        ListedIndex(
            IndexType.RECORD.value,
            "",
            state if why is None else IndexState.OUT_OF_USE,
            True,
            "table" if manifest.scope is KeyScope.GLOBAL else "partition",
            None,
            None,
            "",
            manifest.size_bytes,
            behind.commits,
            why or f"{note}.{under_way_told(opened, snapshot, place.build_folder)}",
            behind.bytes,
            behind.seconds,
        ),
    )
