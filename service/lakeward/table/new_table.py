"""What a new table says about itself: the `hoodie.properties` that Hudi's Spark writer gives one, and its folders.

The kind of key generator follows from the fields as Hudi has it where none is named: no partition field NON_PARTITION,
one key field and one partition field SIMPLE, all else COMPLEX.

What Hudi makes with the first write is left to that: partitions, and the metadata table, for which it asks the writer's
own options.

Touches: nothing.
Keeps:   1. the properties are those that Hudi 1.2.0 gives a table of version 9 of these fields, and 1.0.2 one of
            version 8, and the schema beside them, as `CREATE TABLE` has it;
         2. a table that a service of ours would refuse later, or a Hudi writer, is refused before there is one.
Source:  HoodieTableMetaClient.TableBuilder and KeyGenUtils of Hudi 1.x, CREATE TABLE of 1.2.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakeward.errors import BrokenFile, Unsupported, UsageError
from lakeward.format.avro.schema import META_COLUMNS, AvroField, AvroKind, parse_schema
from lakeward.table.table_config import (
    COMMIT_TIME_ORDERING,
    EVENT_TIME_ORDERING,
    STRATEGY_MODES,
    TableConfig,
)

FOLDERS: Final = ("timeline/history", ".aux/.bootstrap/.partitions", ".aux/.bootstrap/.fileids", ".schema", ".temp")
"""Below `.hoodie`, empty."""

MERGE_ON_READ: Final = "MERGE_ON_READ"
COPY_ON_WRITE: Final = "COPY_ON_WRITE"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_KEYS = (AvroKind.ARRAY, AvroKind.MAP, AvroKind.RECORD)
_PAYLOADS = {EVENT_TIME_ORDERING: "DefaultHoodieRecordPayload", COMMIT_TIME_ORDERING: "OverwriteWithLatestAvroPayload"}
_STRATEGIES = {mode: strategy for strategy, mode in STRATEGY_MODES.items()}


@dataclass(frozen=True, slots=True)
class NewTable:
    name: str
    schema: str
    """Avro JSON of its rows, without Hudi's own columns."""
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    merge_mode: str | None = None
    """None stands for event time where there are ordering fields, else commit time."""
    table_type: str = MERGE_ON_READ
    version: int = 9
    """8 or 9."""
    hive_style: bool = False
    url_encode: bool = False

    def __post_init__(self) -> None:
        """Raises `UsageError`, and `BrokenFile` or `Unsupported` for the schema."""
        if _NAME.fullmatch(self.name) is None:
            raise UsageError(
                f"{self.name!r} is no name of a table.",
                why="It becomes a part of names in Avro schemas: letters, digits and _, not a digit first.",
                remedy="Give another one with --name.",
            )
        columns = {column.name: column for column in self._columns()}
        for found in sorted(columns.keys() & {*META_COLUMNS}):
            raise UsageError(
                f"The schema of {self.name} has the column {found}.",
                why="Hudi adds this column to every row by itself.",
                remedy="Leave Hudi's own columns out of the schema.",
            )
        if not self.record_key_fields:
            raise UsageError("A table needs a record key.", remedy="Name the column, or columns, with --record-key.")
        kinds = {
            "a record key": self.record_key_fields,
            "a partition": self.partition_fields,
            "an ordering": self.ordering_fields,
        }
        for kind, fields in kinds.items():
            _check_fields(kind, fields, columns)
        if self.version == 8 and len(self.ordering_fields) > 1:
            raise UsageError(
                f"{self.name} cannot have several ordering fields in version 8.",
                why="Hudi before 1.1 takes their names for that of one column.",
                remedy="Create it in version 9, or name one field.",
            )
        if self.mode == EVENT_TIME_ORDERING and not self.ordering_fields:
            raise UsageError(
                f"{self.name} has nothing to order rows of a key by.",
                why="By event time the greater value of the ordering field wins.",
                remedy="Name the column with --ordering, or take --merge-mode commit-time.",
            )

    def _columns(self) -> tuple[AvroField, ...]:
        try:
            return parse_schema(self.schema, where=f"the new table {self.name}")
        except (BrokenFile, Unsupported) as error:
            remedy = "Mend the schema that was given; nothing was written."
            raise type(error)(error.what, why=error.why, remedy=remedy) from error

    @property
    def mode(self) -> str:
        return self.merge_mode or (EVENT_TIME_ORDERING if self.ordering_fields else COMMIT_TIME_ORDERING)

    @property
    def key_generator(self) -> str:
        if not self.partition_fields:
            return "NON_PARTITION"
        return "SIMPLE" if len(self.record_key_fields) == len(self.partition_fields) == 1 else "COMPLEX"

    @property
    def properties(self) -> dict[str, str]:
        """All keys and values of its `hoodie.properties`."""
        values = {
            "hoodie.table.name": self.name,
            "hoodie.table.type": self.table_type,
            "hoodie.table.version": str(self.version),
            "hoodie.table.initial.version": str(self.version),
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.timeline.timezone": "LOCAL",
            "hoodie.table.recordkey.fields": ",".join(self.record_key_fields),
            "hoodie.table.partition.fields": ",".join(self.partition_fields),
            "hoodie.table.keygenerator.type": self.key_generator,
            "hoodie.datasource.write.hive_style_partitioning": _flag(self.hive_style),
            "hoodie.datasource.write.partitionpath.urlencode": _flag(self.url_encode),
            "hoodie.datasource.write.drop.partition.columns": "false",
            "hoodie.partition.metafile.use.base.format": "false",
            "hoodie.record.merge.mode": self.mode,
            "hoodie.populate.meta.fields": "true",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.multiple.base.file.formats.enable": "false",
            "hoodie.table.cdc.enabled": "false",
            "hoodie.table.create.schema": self.schema,
            **(self._of_version_8() if self.version == 8 else self._of_version_9()),
        }
        return {**values, "hoodie.table.checksum": str(TableConfig(values).checksum)}

    def _of_version_8(self) -> dict[str, str]:
        ordering = {"hoodie.table.precombine.field": self.ordering_fields[0]} if self.ordering_fields else {}
        return {
            **ordering,
            "hoodie.compaction.payload.class": f"org.apache.hudi.common.model.{_PAYLOADS[self.mode]}",
            "hoodie.record.merge.strategy.id": _STRATEGIES[self.mode],
        }

    def _of_version_9(self) -> dict[str, str]:
        ordering = {"hoodie.table.ordering.fields": ",".join(self.ordering_fields)} if self.ordering_fields else {}
        if self.hive_style and len(self.partition_fields) == 1:
            extractor = "HiveStylePartitionValueExtractor"
        elif len(self.partition_fields) == 1:
            extractor = "SinglePartPartitionValueExtractor"
        else:
            extractor = "MultiPartKeysValueExtractor" if self.partition_fields else "NonPartitionedExtractor"
        return {
            **ordering,
            "hoodie.table.format": "native",
            "hoodie.table.partition_extractor_class": f"org.apache.hudi.hive.{extractor}",
        }


def _check_fields(kind: str, fields: tuple[str, ...], columns: dict[str, AvroField]) -> None:
    for field in fields:
        column = columns.get(field)
        if column is None or fields.count(field) > 1:
            raise UsageError(
                f"{field} cannot be {kind} field.",
                why="It is named twice." if column else f"The columns are {', '.join(columns)}.",
                remedy="Name columns of the schema, each once.",
            )
        if column.type.kind in _NO_KEYS:
            raise UsageError(
                f"{field} cannot be {kind} field.",
                why=f"It is a column of type {column.type.kind}, whose values Hudi does not put in an order.",
                remedy="Name a column of texts, numbers, dates or times.",
            )


def _flag(value: bool) -> str:
    return str(value).lower()
