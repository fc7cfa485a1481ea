"""What a new table says about itself: the `hoodie.properties` that Hudi's Spark writer gives one, and its folders.

Beside them stands the schema, as `CREATE TABLE` has it, and what is asked of the writers: by which index they find
keys, and which indexes the metadata table has. Hudi has these as options of each write and of no table; but its Spark
writers take what the properties say where they have no option, and refuse where they have another one. Without that
a write with Hudi's defaults would put rows where no bucket is, or drop the record index.

Touches: nothing.
Keeps:   1. the properties are those that Hudi 1.2.0 gives a table of version 9 of these fields, and 1.0.2 one of
            version 8, its metadata table's included, and the schema and what was asked of writers beside them; of
            version 10, which no release has, what the source of Hudi's master says beside those of 9; but from version
            9 on instants are in UTC;
         2. a table that a service of Lakeward would refuse later, or a Hudi writer, is refused before there is one.
Source:  HoodieTableMetaClient.TableBuilder, KeyGenUtils and HoodieWriterUtils of Hudi 1.x, CREATE TABLE of 1.2.0
See:     docs/decisions/0061-what-a-table-asks-of-its-writers.md, docs/decisions/0095-new-tables-are-in-utc.md
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakeward.base.errors import BrokenFile, Unsupported, UsageError
from lakeward.format.avro.column_names import META_COLUMNS, find_bad_names
from lakeward.format.avro.schema import AvroField, AvroKind, parse_schema
from lakeward.format.metadata.index_definitions import INDEX_DEFINITIONS_PATH
from lakeward.table.metadata.new_metadata_table import NewMetadataTable
from lakeward.table.new_keys import (
    KeyGeneratorKind,
    NewTimestamps,
    check_kind,
    check_slashes,
    inferred_kind,
)
from lakeward.table.table_config import (
    BUCKET_FIELDS,
    BUCKETS,
    COMMIT_TIME_ORDERING,
    EVENT_TIME_ORDERING,
    INDEX_TYPE,
    LSM_TREE,
    META_FIELDS_MODE,
    SLASHES_IN_DATES,
    STORAGE_LAYOUT,
    STRATEGY_MODES,
    TableConfig,
)
from lakeward.table.table_version import NEWEST_RELEASED, TableVersion

FOLDERS: Final = ("timeline/history", ".aux/.bootstrap/.partitions", ".aux/.bootstrap/.fileids", ".schema", ".temp")
"""Below `.hoodie`, empty."""

MERGE_ON_READ: Final = "MERGE_ON_READ"
COPY_ON_WRITE: Final = "COPY_ON_WRITE"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_KEYS = (AvroKind.ARRAY, AvroKind.MAP, AvroKind.RECORD)
_PAYLOADS = {EVENT_TIME_ORDERING: "DefaultHoodieRecordPayload", COMMIT_TIME_ORDERING: "OverwriteWithLatestAvroPayload"}
_STRATEGIES = {mode: strategy for strategy, mode in STRATEGY_MODES.items()}


BUCKETS_MAX = 99_999_999
"""The number of a bucket has eight digits."""


def check_buckets(number: int, *, remedy: str) -> None:
    """Raises `UsageError` where a partition cannot have as many buckets."""
    if not 1 <= number <= BUCKETS_MAX:
        raise UsageError(
            f"A partition cannot have {number} buckets.",
            why=f"The number of a bucket has eight digits in the names of its files: there is at least one bucket, and "
            f"at most {BUCKETS_MAX}.",
            remedy=remedy,
        )


class NewIndex(StrEnum):
    """The index by which writers find keys, in Hudi's words."""

    SIMPLE = "SIMPLE"
    BUCKET = "BUCKET"
    METADATA = "RECORD_INDEX"
    """The record index of the metadata table."""


@dataclass(frozen=True, slots=True)
class NewIndexes:
    """What is asked of writers, of their index and of the metadata table's."""

    finds_keys: NewIndex | None = None
    """None leaves it to each writer."""
    buckets: int | None = None
    """How many a partition has; of BUCKET alone."""
    bloom_filters: bool = False
    """The metadata table has the bloom filters of all base files."""

    def __post_init__(self) -> None:
        assert (self.buckets is not None) == (self.finds_keys is NewIndex.BUCKET)
        if self.buckets is not None:
            check_buckets(self.buckets, remedy="Give the number with --index bucket:N.")

    @property
    def of_metadata_table(self) -> str | None:
        """The indexes that are partitions of the metadata table, for people."""
        found = [("record", self.finds_keys is NewIndex.METADATA), ("bloom-filters", self.bloom_filters)]
        return " and ".join(name for name, is_asked in found if is_asked) or None


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
    version: int = NEWEST_RELEASED
    """8, 9 or 10."""
    hive_style: bool = False
    url_encode: bool = False
    slash_dates: bool = False
    """Dates of the partition field are three folders of a path."""
    key_generator_kind: KeyGeneratorKind | None = None
    """None stands for the one that follows from the fields."""
    timestamps: NewTimestamps | None = None
    """The options of the key generator TIMESTAMP."""
    indexes: NewIndexes = field(default_factory=NewIndexes)
    has_metadata_table: bool = True
    is_lsm_tree: bool = False
    """File groups are merged by the order of their files, each of which is sorted."""

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
        for bad in find_bad_names(self.schema):
            raise UsageError(
                f"The schema of {self.name} has a column that a table cannot have: {bad.path!r}.",
                why=f"{bad.why}.",
                remedy="Give it another name in the schema; nothing was written.",
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
        check_kind(self.key_generator, self.record_key_fields, self.partition_fields, self.timestamps, columns)
        if self.slash_dates:
            check_slashes(
                self.key_generator,
                self.partition_fields,
                columns,
                version=TableVersion(self.version),
                hive_style=self.hive_style,
            )
        if not self.has_metadata_table and (asked := self.indexes.of_metadata_table) is not None:
            raise UsageError(
                f"{self.name} cannot have the index {asked} without a metadata table.",
                why="It is a partition of it.",
                remedy="Leave --no-metadata-table out, or the index.",
            )
        if self.is_lsm_tree and not TableVersion(self.version).has_native_logs:
            raise UsageError(
                f"{self.name} cannot have the layout lsm_tree in version {self.version}.",
                why="Its logs are files of the base files' format, which tables have from version 10 on.",
                remedy="Create it in version 10, or with the layout default.",
            )
        if len(self.ordering_fields) > 1 and not TableVersion(self.version).has_several_ordering_fields:
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
    def key_generator(self) -> KeyGeneratorKind:
        return self.key_generator_kind or inferred_kind(self.record_key_fields, self.partition_fields)

    @property
    def metadata_table(self) -> NewMetadataTable | None:
        if not self.has_metadata_table:
            return None
        return NewMetadataTable(
            of=self.name,
            schema=self.schema,
            version=TableVersion(self.version),
            is_partitioned=bool(self.partition_fields),
            has_record_index=self.indexes.finds_keys is NewIndex.METADATA,
            has_bloom_filters=self.indexes.bloom_filters,
        )

    @property
    def properties(self) -> dict[str, str]:
        """All keys and values of its `hoodie.properties`."""
        version = TableVersion(self.version)
        values = {
            "hoodie.table.name": self.name,
            "hoodie.table.type": self.table_type,
            "hoodie.table.version": str(self.version),
            "hoodie.table.initial.version": str(self.version),
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.timeline.timezone": "UTC" if version.begins_in_utc else "LOCAL",
            "hoodie.table.recordkey.fields": ",".join(self.record_key_fields),
            "hoodie.table.partition.fields": ",".join(self.partition_fields),
            "hoodie.table.keygenerator.type": self.key_generator.value,
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
            **(self._of_later_versions() if version.has_merge_properties else self._of_version_8()),
            **({STORAGE_LAYOUT: LSM_TREE} if self.is_lsm_tree else {}),
            **({META_FIELDS_MODE: "ALL"} if version.has_meta_fields_mode else {}),
            **(self.timestamps.properties if self.timestamps is not None else {}),
            **({SLASHES_IN_DATES: "true"} if self.slash_dates else {}),
            **self.asked_of_writers,
            **self._of_metadata_table(),
        }
        return {**values, "hoodie.table.checksum": str(TableConfig(values).checksum)}

    @property
    def asked_of_writers(self) -> dict[str, str]:
        """Their options for the indexes, under names that all releases of the table's version know."""
        values: dict[str, str] = {}
        keys = ",".join(self.record_key_fields)
        match self.indexes.finds_keys:
            case NewIndex.SIMPLE:
                values[INDEX_TYPE] = "SIMPLE"
            case NewIndex.BUCKET:
                # Hudi's procedures look for the names of the key fields here, and break off without them.
                values |= {INDEX_TYPE: "BUCKET", BUCKETS: str(self.indexes.buckets), BUCKET_FIELDS: keys}
                values["hoodie.datasource.write.recordkey.field"] = keys
            case NewIndex.METADATA if not TableVersion(self.version).has_global_record_index_name:
                values |= {INDEX_TYPE: "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
            case NewIndex.METADATA:
                values[INDEX_TYPE] = "GLOBAL_RECORD_LEVEL_INDEX"
                values["hoodie.metadata.global.record.level.index.enable"] = "true"
        if self.indexes.bloom_filters:
            values["hoodie.metadata.index.bloom.filter.enable"] = "true"
        return values

    def _of_metadata_table(self) -> dict[str, str]:
        if (metadata := self.metadata_table) is None:
            return {}
        return {
            "hoodie.table.metadata.partitions": ",".join(sorted(metadata.partitions)),
            "hoodie.table.metadata.partitions.inflight": "",
            "hoodie.table.index.defs.path": INDEX_DEFINITIONS_PATH,
        }

    def _of_version_8(self) -> dict[str, str]:
        ordering = {"hoodie.table.precombine.field": self.ordering_fields[0]} if self.ordering_fields else {}
        return {
            **ordering,
            "hoodie.compaction.payload.class": f"org.apache.hudi.common.model.{_PAYLOADS[self.mode]}",
            "hoodie.record.merge.strategy.id": _STRATEGIES[self.mode],
        }

    def _of_later_versions(self) -> dict[str, str]:
        ordering = {"hoodie.table.ordering.fields": ",".join(self.ordering_fields)} if self.ordering_fields else {}
        if self.slash_dates:
            extractor = "SlashEncodedDayPartitionValueExtractor"
        elif self.hive_style and len(self.partition_fields) == 1:
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
    for name in fields:
        column = columns.get(name)
        if column is None or fields.count(name) > 1:
            raise UsageError(
                f"{name} cannot be {kind} field.",
                why="It is named twice." if column else f"The columns are {', '.join(columns)}.",
                remedy="Name columns of the schema, each once.",
            )
        if column.type.kind in _NO_KEYS:
            raise UsageError(
                f"{name} cannot be {kind} field.",
                why=f"It is a column of type {column.type.kind}, whose values Hudi does not put in an order.",
                remedy="Name a column of texts, numbers, dates or times.",
            )


def _flag(value: bool) -> str:
    return str(value).lower()
