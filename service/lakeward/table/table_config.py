"""What a table says about itself: `hoodie.properties`, found even while a writer is replacing it.

A writer updates the file by way of a backup: backup written, properties deleted, properties written (seen empty
for some milliseconds), backup deleted. So a reader tries the properties, then the backup, believes neither
without its checksum, and reads again for a few seconds before it fails.

Touches: storage (one listing of `.hoodie` and at most two small files a round) and the clock between rounds.
Keeps:   1. a file that fails its checksum is used only when nothing better turned up, and is said to be so;
         2. names that 0.x releases used are understood, and the newer name wins where both are there;
         3. no property leads out of `.hoodie`, nor into another table's: a caller that gets properties may
            join their paths.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotATable, NotFound, UntrustedName
from lakeward.base.paths import join
from lakeward.base.quantities import format_size
from lakeward.format.file_name import HFILE, PARQUET
from lakeward.format.java_properties import parse_properties
from lakeward.format.properties_head import PropertiesHead, parse_properties_head
from lakeward.format.supplemental_logging import SUPPLEMENTAL_LOGGING, SupplementalLogging, parse_supplemental_logging
from lakeward.storage.place import found_link
from lakeward.storage.storage import Storage
from lakeward.table.table_version import TableVersion

HOODIE_FOLDER = ".hoodie"
PROPERTIES_FILE = "hoodie.properties"
BACKUP_FILE = "hoodie.properties.backup"

# What Hudi itself does: five rounds, a second apart.
_ROUNDS = 5
_ROUND_SECONDS = 1.0
_DIGITS_MAX = 18
_PROPERTIES_BYTES_MAX = 4 * 1024 * 1024
"""Hudi's have a few kilobytes; the longest value is a schema."""

_FOLDERS = ("hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.archivelog.folder")
"""Each is below `.hoodie`, the second below the first. Hudi has two more paths: that of the index definitions
(`table/index_definitions.py`), and that of the files of a bootstrapped table, which lie outside, and it is refused."""

_OTHERS = "metadata"
"""What begins so below `.hoodie` is a table of its own."""

_ORDERING_FIELDS = "hoodie.table.ordering.fields"

EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
CUSTOM = "CUSTOM"

STRATEGY_MODES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": EVENT_TIME_ORDERING,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": COMMIT_TIME_ORDERING,
}
"""Merge strategies whose rules are exactly those of a merge mode."""
PAYLOAD_MODES = {
    "OverwriteWithLatestAvroPayload": COMMIT_TIME_ORDERING,
    "DefaultHoodieRecordPayload": EVENT_TIME_ORDERING,
    "EventTimeAvroPayload": EVENT_TIME_ORDERING,
}
"""Payload classes, as `payload_name` names them, whose rules are exactly those of a merge mode."""
LEGACY_PAYLOAD_MODES = {
    **PAYLOAD_MODES,
    "AWSDmsAvroPayload": COMMIT_TIME_ORDERING,
    "MySqlDebeziumAvroPayload": EVENT_TIME_ORDERING,
    "OverwriteNonDefaultsWithLatestAvroPayload": COMMIT_TIME_ORDERING,
    "PartialUpdateAvroPayload": EVENT_TIME_ORDERING,
    "PostgresDebeziumAvroPayload": EVENT_TIME_ORDERING,
}
"""Payload classes that a table had before version 9, whose rules are those of a merge mode and of other properties."""
_PACKAGES_OF_PAYLOADS = frozenset(
    {
        "org.apache.hudi.common.model",
        "org.apache.hudi.common.model.debezium",
        "org.apache.hudi.payload",
        "com.uber.hoodie.common.model",  # which Hudi reads as its own since it has another name
    }
)
MERGE_PROPERTY = "hoodie.record.merge.property."
"""From version 9 on readers hand what is behind this prefix to the merge."""
DELETE_FIELD = f"{MERGE_PROPERTY}hoodie.payload.delete.field"
DELETE_MARKER = f"{MERGE_PROPERTY}hoodie.payload.delete.marker"
CDC_ENABLED = "hoodie.table.cdc.enabled"
VERSION = "hoodie.table.version"
POPULATE_META_FIELDS = "hoodie.populate.meta.fields"
META_FIELDS_MODE = "hoodie.meta.fields.mode"
"""Which meta columns rows have, from version 10 on; before, a property says whether they have them."""
STORAGE_LAYOUT = "hoodie.table.storage.layout"
"""How file groups store rows, from version 10 on."""
LSM_TREE = "lsm_tree"
LSM_TREE_SINCE = "lakeward.lsm_tree.since"
"""The newest time on the timeline when a table of the layout `default` became one of `lsm_tree`: a property of
Lakeward.
"""
DROPS_PARTITION_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
SLASHES_IN_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
_EXTRACTOR = "hoodie.table.partition_extractor_class"
_SLASHES = "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor"
INDEX_TYPE = "hoodie.index.type"
BUCKETS = "hoodie.bucket.index.num.buckets"
OTHER_BUCKETS = ".bucket_index"
"""The folder below `.hoodie` in which Hudi keeps the buckets of consistent hashing, and numbers by partition."""
BUCKET_FIELDS = "hoodie.bucket.index.hash.field"
RECORD_INDEX_TYPES = frozenset({"RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX"})
"""What the global record index is called as a writer's index; the second since 1.1."""
MOVES_BY_RECORD_INDEX = "hoodie.record.index.update.partition.path"
MOVES_BY_SIMPLE_INDEX = "hoodie.simple.index.update.partition.path"
MOVES_BY_BLOOM_INDEX = "hoodie.bloom.index.update.partition.path"
"""Writers by the global index move a row to the partition that it comes for if this is true."""
PARTIAL_UPDATE_MODE = "hoodie.table.partial.update.mode"
UNAVAILABLE_VALUE = f"{MERGE_PROPERTY}hoodie.write.partial.update.unavailable.value"


@dataclass(frozen=True, slots=True)
class TableConfig:
    properties: Mapping[str, str]

    def get(self, *names: str) -> str | None:
        """The value of the first name that is set to something; the newer name comes first."""
        for name in names:
            if value := self.properties.get(name, "").strip():
                return value
        return None

    def is_true(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        return default if value is None else value.lower() == "true"

    @property
    def name(self) -> str:
        return self.get("hoodie.table.name") or ""

    @property
    def version(self) -> TableVersion:
        return TableVersion(_number(self.get(VERSION)))

    @property
    def initial_version(self) -> TableVersion:
        """The version that the table was made with."""
        return TableVersion(_number(self.get("hoodie.table.initial.version")))

    @property
    def layout(self) -> int:
        """The timeline layout; what the version implies where the property is missing."""
        layout = _number(self.get("hoodie.timeline.layout.version"))
        return layout if layout is not None else self.version.timeline_layout

    @property
    def is_writable(self) -> bool:
        """This release changes tables of this version, and the timeline has the layout that the version implies."""
        return self.version.is_writable and self.layout == self.version.timeline_layout

    @property
    def timeline_folder(self) -> str:
        """The folder below `.hoodie`; 1.x releases write the property into layout-1 tables too, where it means
        nothing."""
        return (self.get("hoodie.timeline.path") or "timeline") if self.layout >= 2 else ""

    @property
    def archive_folder(self) -> str:
        """The folder below `.hoodie`."""
        if self.layout >= 2:
            return join(self.timeline_folder, self.get("hoodie.timeline.history.path") or "history")
        return self.get("hoodie.archivelog.folder") or "archived"

    @property
    def table_type(self) -> str:
        return self.get("hoodie.table.type") or "COPY_ON_WRITE"

    @property
    def is_merge_on_read(self) -> bool:
        return self.table_type.upper() == "MERGE_ON_READ"

    @property
    def is_lsm_tree(self) -> bool:
        """File groups are merged by the order of their files, each of which is sorted."""
        return (self.get(STORAGE_LAYOUT) or "").lower() == LSM_TREE

    @property
    def lsm_tree_since(self) -> str:
        """Logs of instants up to this are from before the table got the layout; empty where it was made with it."""
        return (self.get(LSM_TREE_SINCE) or "") if self.is_lsm_tree else ""

    @property
    def ordering_property(self) -> str:
        """The name under which the table says its ordering fields; before 1.1 Hudi had another one."""
        older = "hoodie.table.precombine.field"
        return older if self.get(_ORDERING_FIELDS) is None and self.get(older) is not None else _ORDERING_FIELDS

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        return self._list(self.ordering_property)

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        return self._list("hoodie.table.recordkey.fields")

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Without the types that custom key generators append (`day:TIMESTAMP`)."""
        return tuple(field.partition(":")[0] for field in self._list("hoodie.table.partition.fields"))

    @property
    def payload_class(self) -> str | None:
        return self.get("hoodie.compaction.payload.class")

    @property
    def strategy_id(self) -> str | None:
        return self.get("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")

    @property
    def merge_mode(self) -> str:
        """How Hudi merges this table, by the rules of its version.

        Before version 8 the payload class decides and the strategy id counts only without one: tables of 0.x
        carry the event-time id beside a payload that uses commit time.
        """
        inferred = EVENT_TIME_ORDERING if self.ordering_fields else COMMIT_TIME_ORDERING
        mode = self.get("hoodie.record.merge.mode")
        if mode is not None and self.version.has_stored_merge_mode:
            return mode.upper()
        if self.version.has_inferred_merge_mode:
            return inferred
        if self.payload_class is not None:
            return PAYLOAD_MODES.get(payload_name(self.payload_class), CUSTOM)
        if self.strategy_id is not None:
            return STRATEGY_MODES.get(self.strategy_id, CUSTOM)
        return inferred

    @property
    def delete_marker(self) -> tuple[str, str] | None:
        """The column whose value, as text, marks a row as deleted, and that value."""
        field, marker = self.properties.get(DELETE_FIELD, ""), self.properties.get(DELETE_MARKER, "")
        return (field, marker) if field and marker and self.version.has_merge_properties else None

    @property
    def partial_update_mode(self) -> str | None:
        """How rows are filled from those that they win over; None where they are not."""
        mode = self.get(PARTIAL_UPDATE_MODE)
        return None if mode == "NONE" else mode

    @property
    def unavailable_value(self) -> str | None:
        """The text that says that a value is unavailable."""
        return self.properties.get(UNAVAILABLE_VALUE) or None

    @property
    def has_log_compaction(self) -> bool:
        """A log may hold the merged records of others. Where rows are filled, that result depends on all rows of a
        key."""
        return self.version.has_log_compaction and self.partial_update_mode is None

    @property
    def populate_meta_fields(self) -> bool:
        return self.is_true(POPULATE_META_FIELDS, default=True)

    @property
    def made_key_fields(self) -> tuple[str, ...]:
        """The fields of which keys are made, where rows carry none."""
        return () if self.populate_meta_fields else self.record_key_fields

    @property
    def create_schema(self) -> str | None:
        """Avro JSON of the columns that it was made with, where it was made before its first write."""
        return self.get("hoodie.table.create.schema")

    @property
    def key_generator(self) -> str:
        """The kind of key generator that the table names, or the name of its class; empty where it names none."""
        return self.get("hoodie.table.keygenerator.type", "hoodie.table.keygenerator.class") or ""

    @property
    def base_file_format(self) -> str:
        return (self.get("hoodie.table.base.file.format") or "PARQUET").upper()

    @property
    def base_file_extension(self) -> str:
        """The extension of the names that are parsed as base files': a metadata table's are HFiles."""
        return HFILE if self.base_file_format == "HFILE" else PARQUET

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table, built or being built; any means that writers keep one."""
        return self.built_metadata_partitions + self.inflight_metadata_partitions

    @property
    def built_metadata_partitions(self) -> tuple[str, ...]:
        """Metadata partitions that readers may use; with `files` among them there is a metadata table."""
        return self._list("hoodie.table.metadata.partitions")

    @property
    def inflight_metadata_partitions(self) -> tuple[str, ...]:
        """Metadata partitions that an indexer is building."""
        return self._list("hoodie.table.metadata.partitions.inflight")

    @property
    def index_type(self) -> str | None:
        """The index by which all writers find keys, in Hudi's words: BUCKET, SIMPLE, one of `RECORD_INDEX_TYPES`, ….

        It is an option of writers, and None where the table leaves it to them. Spark's take what the table says, and
        refuse to write where they were given another one (HoodieWriterUtils.validateTableConfig of 1.0 and later).
        """
        found = self.get(INDEX_TYPE)
        return None if found is None else found.upper()

    @property
    def buckets(self) -> int | None:
        """How many buckets a partition has, where the table says so."""
        return _number(self.get(BUCKETS))

    @property
    def bucket_fields(self) -> tuple[str, ...]:
        """The key fields that are hashed, where the table says so; all of them otherwise."""
        return self._list(BUCKET_FIELDS)

    @property
    def cdc_enabled(self) -> bool:
        return self.is_true(CDC_ENABLED)

    @property
    def supplemental_logging(self) -> SupplementalLogging | None:
        """What compactions write of each change; None where they write nothing, or Hudi knows no such mode."""
        return parse_supplemental_logging(self.get(SUPPLEMENTAL_LOGGING)) if self.cdc_enabled else None

    @property
    def timezone(self) -> str:
        return (self.get("hoodie.table.timeline.timezone") or "LOCAL").upper()

    @property
    def hive_style(self) -> bool:
        return self.is_true("hoodie.datasource.write.hive_style_partitioning")

    @property
    def url_encode(self) -> bool:
        return self.is_true("hoodie.datasource.write.partitionpath.urlencode")

    @property
    def drops_partition_columns(self) -> bool:
        """Files are without the columns of the partition, which its path says."""
        return self.is_true(DROPS_PARTITION_COLUMNS)

    @property
    def has_slashes_in_dates(self) -> bool:
        """The path of a partition by one date is three folders: 2024/03/04."""
        return self.is_true(SLASHES_IN_DATES) or self.get(_EXTRACTOR) == _SLASHES

    @property
    def checksum(self) -> int:
        """What `hoodie.table.checksum` must be. A database that is not there leaves its dot behind."""
        database = self.properties.get("hoodie.database.name", "")
        return zlib.crc32(f"{database}.{self.properties.get('hoodie.table.name', '')}".encode())

    @property
    def checksum_ok(self) -> bool:
        return _number(self.get("hoodie.table.checksum")) == self.checksum

    def _list(self, *names: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in (self.get(*names) or "").split(",") if part.strip())


def payload_name(payload_class: str) -> str:
    """A payload class of Hudi's without its package; another one as it is, for it may have the name of Hudi's."""
    package, _, name = payload_class.rpartition(".")
    return name if package in _PACKAGES_OF_PAYLOADS else payload_class


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    config: TableConfig
    source: str
    """The file it came from: the properties, or their backup."""
    backup_present: bool
    """An update is under way, or died on its way."""
    checksum_ok: bool
    head: PropertiesHead | None = None
    """When and in whose time the file was saved, where it says so."""


def hoodie_folder(base_path: str) -> str:
    return join(base_path, HOODIE_FOLDER)


def timeline_folder(base_path: str, config: TableConfig) -> str:
    return join(hoodie_folder(base_path), config.timeline_folder)


def load_table_config(storage: Storage, base_path: str, *, clock: Clock) -> LoadedConfig:
    """The table's properties. Raises `NotATable` where there are none, `BrokenFile` where none can be read, and
    `UntrustedName` where they lead out of the table; `LinkInTable` where anything in `.hoodie` is a link."""
    loaded = _load(storage, base_path, clock)
    for name in _FOLDERS:
        _check_folder(name, loaded.config.get(name), file=join(hoodie_folder(base_path), loaded.source))
    return loaded


def _check_folder(name: str, value: str | None, *, file: str) -> None:
    """A path of names that are no hidden ones: locks, heartbeats and attempts have such beside the timeline."""
    parts = [] if value is None else value.split("/")
    if any(not part or part.startswith(".") for part in parts) or parts[:1] == [_OTHERS]:
        raise UntrustedName(
            f"{name} in {file} is {value!r}, which is not trusted.",
            why="It must be the name of a folder below .hoodie, and not a hidden one or of the metadata table; "
            "elsewhere are files of another table, or of an unknown owner. Nothing was read or written there.",
            remedy="Find out who set it; Hudi's own writers leave it out, or say timeline, history and archived.",
        )


def _load(storage: Storage, base_path: str, clock: Clock) -> LoadedConfig:
    folder = hoodie_folder(base_path)
    doubtful: LoadedConfig | None = None
    seen = False
    for round_number in range(_ROUNDS):
        if round_number:
            clock.sleep(_ROUND_SECONDS)
        entries = storage.list(folder)
        if not entries:
            break
        for entry in entries:
            if entry.is_link:
                raise found_link(entry.path)
        sizes = {entry.name: entry.size for entry in entries}
        backup_present = BACKUP_FILE in sizes
        for source in (PROPERTIES_FILE, BACKUP_FILE):
            if source not in sizes:
                continue
            seen = True
            if sizes[source] > _PROPERTIES_BYTES_MAX:
                continue
            found = _read(storage, join(folder, source))
            if found is None:
                continue
            config, head = found
            loaded = LoadedConfig(config, source, backup_present, config.checksum_ok, head)
            if loaded.checksum_ok:
                return loaded
            doubtful = doubtful or loaded
    if doubtful is not None:
        return doubtful
    if seen:
        raise BrokenFile(
            f"{join(folder, PROPERTIES_FILE)} cannot be read.",
            why=f"It is empty, not Java properties or has more than {format_size(_PROPERTIES_BYTES_MAX)}, and no valid "
            "backup lies beside it.",
            remedy="Restore it from a copy, or from what the table's writers are configured with.",
        )
    raise NotATable(
        f"{base_path} holds no Hudi table.",
        why=f"There is no {HOODIE_FOLDER}/{PROPERTIES_FILE} in it.",
        remedy="Give the table's base path, the folder that contains .hoodie.",
    )


def _read(storage: Storage, path: str) -> tuple[TableConfig, PropertiesHead | None] | None:
    """None for a file that vanished or holds no table name yet: the update is still on its way."""
    try:
        content = storage.read(path)
        config = TableConfig(parse_properties(content))
    except (NotFound, BrokenFile):
        return None
    if not config.name and config.version.number is None:
        return None
    return config, parse_properties_head(content)


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if text is not None and is_number else None
