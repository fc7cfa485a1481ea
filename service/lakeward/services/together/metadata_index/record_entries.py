"""The entries of Hudi's record index, over all partitions: where each key is.

Touches: what `key_entries.py` touches.
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
from lakeward.table.metadata.new_metadata_table import GLOBAL_RECORD_INDEX
from lakeward.table.snapshot import TableSnapshot


class RecordEntries(KeyEntries):
    partition = RECORD_INDEX

    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        return GLOBAL_RECORD_INDEX if snapshot.config.version.has_typed_stats else None

    def check(self, snapshot: TableSnapshot) -> None:
        if snapshot.zone.zone is None:
            raise Refused(
                f"The record index of {snapshot.base_path} cannot be built.",
                why="Its entries have times since 1970, and the time zone of the table's instants is not known.",
                remedy="Name it with --timezone, or in the configuration.",
            )

    def record_of(self, group: GroupId, base_instant: str, zone: tzinfo) -> RecordIndexRecord:
        millis = parse_instant_time(base_instant, zone)
        return RecordIndexRecord(partition=group[0], file_id=group[1], instant_millis=millis)
