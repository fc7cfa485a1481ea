"""The entries of Hudi's record index, over all partitions: where each key is.

Touches: what `key_entries.py` touches.
Keeps:   an index that the table defines for each partition of its own is refused by name.
Source:  HoodieBackedTableMetadataWriter (readRecordKeysFromFileSliceSnapshot, Hudi 1.2): the time of an entry is that
         of its slice's base.
"""

from __future__ import annotations

from datetime import tzinfo

from lakeward.base.errors import Refused
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.metadata.record import RecordIndexRecord
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.services.together.metadata_index.key_entries import KeyEntries
from lakeward.table.file_system_view import GroupId
from lakeward.table.index_definitions import load_index_definitions
from lakeward.table.metadata.new_metadata_table import GLOBAL_RECORD_INDEX
from lakeward.table.snapshot import TableSnapshot


class RecordEntries(KeyEntries):
    partition = RECORD_INDEX

    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        return GLOBAL_RECORD_INDEX if snapshot.config.version.has_typed_stats else None

    def check(self, snapshot: TableSnapshot) -> None:
        definitions = load_index_definitions(self._storage, snapshot.base_path, snapshot.config)
        if definitions.is_partitioned_record_index:
            raise Refused(
                f"The record index of {snapshot.base_path} cannot be built.",
                why="The table defines one for each of its partitions (RECORD_LEVEL_INDEX), in which a key may be in "
                "several partitions, and this release builds the one over all partitions.",
                remedy="Let a Hudi writer build it (hoodie.metadata.record.level.index.enable), or drop it by Hudi "
                f"(`DROP INDEX {RECORD_INDEX} ON …`), with its definition, and run the command again.",
            )
        if snapshot.zone.zone is None:
            raise Refused(
                f"The record index of {snapshot.base_path} cannot be built.",
                why="Its entries have times since 1970, and the time zone of the table's instants is not known.",
                remedy="Name it with --timezone, or in the configuration.",
            )

    def record_of(self, group: GroupId, base_instant: str, zone: tzinfo) -> RecordIndexRecord:
        millis = parse_instant_time(base_instant, zone)
        return RecordIndexRecord(partition=group[0], file_id=group[1], instant_millis=millis)
