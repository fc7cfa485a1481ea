"""The entries of a secondary index of Hudi's: for each row the value of one column with its record key.

A query goes from a value to record keys by it, and on by the record index, which is built first. The index is of the
definitions' version 2, of tables from version 9 on.

Touches: what `key_entries.py` touches.
Keeps:   an index that a write would have no records for is refused.
Source:  SecondaryIndexRecordGenerationUtils (Hudi 1.2)
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from lakeward.base.errors import Refused
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.key import hashed_secondary_value
from lakeward.format.metadata.partition import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from lakeward.format.metadata.record import SecondaryIndexRecord
from lakeward.protocol.metadata.secondary_pairs import why_not_indexed
from lakeward.services.indexing.run.build_work import BuildWork
from lakeward.services.together.metadata_index.key_entries import KeyEntries
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.index_definitions import load_index_definitions
from lakeward.table.snapshot import TableSnapshot

_TYPE: Final = "secondary_index"
_VERSION: Final = 2


class SecondaryEntries(KeyEntries):
    def __init__(self, storage: Storage, work: BuildWork, name: str, column: str) -> None:
        """
        Args:
            name: of the index, without the partition's prefix.
            work: reads pairs with this column.
        """
        super().__init__(storage, work, hashed=hashed_secondary_value, noun="pair of a value and a key")
        assert work.column == column, "the tasks read what is built"
        self.partition = f"{SECONDARY_INDEX_PREFIX}{name}"
        self._definition = IndexDefinition(self.partition, _TYPE, "identity", (column,), {}, _VERSION)

    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        definitions = load_index_definitions(self._storage, snapshot.base_path, snapshot.config)
        return definitions.by_name.get(self.partition, self._definition)

    def check(self, snapshot: TableSnapshot) -> None:
        what = f"The secondary index {self.partition} of {snapshot.base_path} cannot be built."
        config = snapshot.config
        definitions = load_index_definitions(self._storage, snapshot.base_path, config)
        defined = definitions.by_name.get(self.partition, self._definition)
        if RECORD_INDEX not in config.built_metadata_partitions or definitions.is_partitioned_record_index:
            raise Refused(
                what,
                why="It leads to rows by way of the record index over all partitions, which the table has not.",
                remedy=f"Drop its record index for each partition by Hudi first (`DROP INDEX {RECORD_INDEX} ON …`)."
                if definitions.is_partitioned_record_index
                else "Run the command with --kind record first.",
            )
        if not config.version.has_typed_stats or defined.version != _VERSION:
            raise Refused(
                what,
                why="This release builds those of version 2, which tables have from version 9 on.",
                remedy="Upgrade the table (`lakeward table upgrade`), or have Hudi create it.",
            )
        if defined.source_fields != self._definition.source_fields:
            raise Refused(
                what,
                why=f"The table defines it on {', '.join(defined.source_fields)}.",
                remedy="Name that column, or give the index another name.",
            )
        if (why := why_not_indexed(defined, snapshot.schema)) is not None:
            raise Refused(what, why=f"{why[:1].upper()}{why[1:]}.", remedy="Have Hudi create it (`CREATE INDEX`).")

    def record_of(self, group: GroupId, base_instant: str, zone: tzinfo) -> SecondaryIndexRecord:
        return SecondaryIndexRecord()
