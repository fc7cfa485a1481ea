"""A metadata table on disk and the timeline of the table around it, written file by file as a test says, without Hudi.

Instants are two digits here and become seconds of one minute. Keys go to the file groups that their hashes choose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.format.avro.container import write_record
from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.log.delete_block import encode_deletes
from lakeward.format.log.log_writer import block_head
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import ALL_PARTITIONS, file_group_index
from lakeward.format.metadata.log_file import NativeMetadataDeletes, write_metadata_log, write_native_metadata_log
from lakeward.format.metadata.record import FileEntry, FilesRecord, MetadataRecord, RecordIndexRecord
from lakeward.format.partition_metadata import PROPERTIES_NAME
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.compaction_plan import METRICS, CompactionOperation, CompactionPlan, write_compaction_plan
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import MetadataTable, load_metadata_table
from lakeward.table.table_config import TableConfig, load_table_config
from lakeward.table.timeline.timeline import Timeline, load_timeline
from tests.clocks import SkippingClock
from tests.format.hfile.hfile_files import Form, hfile

_FORM = Form(block_entries=50)

Records = Mapping[str, MetadataRecord | None]
"""Maps keys to records; None deletes the key."""


def _nullable(name: str, kind: object) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


_FILE_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
_RECORD_INDEX = {
    "type": "record",
    "name": "HoodieRecordIndexInfo",
    "fields": [
        _nullable("partitionName", "string"),
        _nullable("fileIdHighBits", "long"),
        _nullable("fileIdLowBits", "long"),
        _nullable("fileIndex", "int"),
        _nullable("fileId", "string"),
        _nullable("instantTime", "long"),
        {"name": "fileIdEncoding", "type": "int", "default": 0},
        _nullable("position", "long"),
    ],
}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "type", "type": "int"},
            _nullable("filesystemMetadata", {"type": "map", "values": _FILE_INFO}),
            _nullable("recordIndexMetadata", _RECORD_INDEX),
        ],
    }
)
"""What there is of the schema where only files and the record index were ever written."""


def time(number: str) -> str:
    return f"202601010000{number}000"


def files(**sizes: int | None) -> FilesRecord:
    """A partition's record: sizes by file name; None for a file that is deleted."""
    return FilesRecord({name: FileEntry(size or 0, is_deleted=size is None) for name, size in sizes.items()})


def all_partitions(*paths: str) -> FilesRecord:
    return FilesRecord({path: FileEntry(0) for path in paths}, is_all_partitions=True)


def location(file_id: str, partition: str = "p") -> RecordIndexRecord:
    return RecordIndexRecord(partition=partition, file_id=file_id, instant_millis=1)


def sizes(record: MetadataRecord) -> dict[str, int]:
    """Sizes of the files that are there."""
    assert isinstance(record, FilesRecord)
    return {name: entry.size for name, entry in record.entries.items() if not entry.is_deleted}


class MetadataFiles:
    def __init__(self, base: Path, *, native: Callable[[], bool] | None = None, **groups: int | list[str]) -> None:
        """
        Args:
            native: the table has version 10; whether the next log is a native one.
            groups: for each partition of the metadata table how many file groups it has, or their ids.
        """
        self.base = base
        self.metadata = base / ".hoodie" / "metadata"
        self.groups = {
            partition: [f"{partition.replace('_', '-')}-{number:04}-0" for number in range(of)]
            if isinstance(of, int)
            else of
            for partition, of in (groups or {"files": 1}).items()
        }
        self._tokens = 0
        self._native = native
        shared = {"hoodie.table.version": "9" if native is None else "10", "hoodie.timeline.layout.version": "2"}
        own = {"hoodie.table.name": "t", "hoodie.table.metadata.partitions": ",".join(self.groups)}
        self.set_properties(base, shared | own)
        metadata = {
            "hoodie.table.name": "t_metadata",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.base.file.format": "HFILE",
            "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        }
        self.set_properties(self.metadata, shared | metadata)
        for partition in self.groups:
            (self.metadata / partition).mkdir()

    def set_properties(self, base: Path, properties: Mapping[str, str]) -> None:
        properties = {**properties, "hoodie.table.checksum": str(TableConfig(properties).checksum)}
        (base / ".hoodie" / "timeline").mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        (base / ".hoodie" / "hoodie.properties").write_text(lines)

    # The timeline of the table

    def data(self, *names: str, content: bytes | None = None) -> None:
        """Timeline files of the table, such as `05_06.commit`."""
        if content is None:
            content = write_commit_metadata(CommitMetadata(operation_type="UPSERT"))
        for name in names:
            self._instant_file(self.base, name, content)

    def data_commit(self, name: str, written: Mapping[str, Mapping[str, int]]) -> None:
        """A completed write that says which files it wrote: sizes by partition path and name."""
        stats = {
            path: tuple(
                WriteStat(file_id="f", path=f"{path}/{file}", num_writes=1, file_size_in_bytes=size)
                for file, size in files.items()
            )
            for path, files in written.items()
        }
        self.data(name, content=write_commit_metadata(CommitMetadata(stats, operation_type="UPSERT")))

    def data_rollback(self, name: str, *, of: str) -> None:
        texts = {"type": "array", "items": "string"}
        schema = {"type": "record", "name": "R", "fields": [{"name": "commitsRollback", "type": texts}]}
        self.data(name, content=write_record(schema, {"commitsRollback": [time(of)]}))

    # The metadata table

    def delta(self, number: str, completed: str | None = None, **records: Records) -> None:
        """A delta commit; pending unless it says when it completed."""
        for partition, of in records.items():
            self.spread(partition, self.groups[partition], number, of)
        self.commit(number, "deltacommit", completed)

    def spread(self, partition: str, groups: list[str], number: str, records: Records) -> None:
        """Logs of these file groups only; the commit is the caller's."""
        for group, part in _by_group(groups, records).items():
            self.log(partition, group, number, part)

    def compaction(self, number: str, completed: str, *, java_order: bool = False, **records: Records) -> None:
        """A completed one, which left these records."""
        for partition, groups in self.groups.items():
            for group, part in _by_group(groups, records.get(partition, {})).items():
                entries = sorted(
                    part.items(), key=lambda entry: entry[0].encode("utf-16-be" if java_order else "utf-8")
                )
                self.base_file(partition, group, number, {}, entries=entries)
        self.commit(number, "commit", completed)

    def plan(self, number: str) -> None:
        """A pending compaction of every file group."""
        operations = tuple(
            CompactionOperation(partition, group, None, None, (), dict.fromkeys(METRICS, 0.0))
            for partition, groups in self.groups.items()
            for group in groups
        )
        self.metadata_instant(f"{number}.compaction.requested", write_compaction_plan(CompactionPlan(operations)))

    def compact_logs(self, number: str, completed: str | None) -> None:
        """The instants of a log compaction, without what it writes."""
        plan = CompactionPlan((), strategy="x")
        self.metadata_instant(f"{number}.logcompaction.requested", write_compaction_plan(plan))
        if completed is not None:
            self.commit(number, "deltacommit", completed)

    def commit(self, number: str, action: str, completed: str | None) -> None:
        content = write_commit_metadata(CommitMetadata(operation_type="UPSERT_PREPPED"))
        name = f"{number}.{action}.requested" if completed is None else f"{number}_{completed}.{action}"
        self.metadata_instant(name, content)

    def metadata_instant(self, name: str, content: bytes) -> None:
        self._instant_file(self.metadata, name, content)

    def change_metadata_property(self, key: str, value: str) -> None:
        config = load_table_config(LocalStorage(), str(self.metadata), clock=SkippingClock()).config
        self.set_properties(self.metadata, {**config.properties, key: value})

    def log(
        self, partition: str, group: str, number: str, records: Records, *, block_instant: str | None = None
    ) -> Path:
        """One log file: a block of the records, and one of those that are deleted; or one native file of each."""
        instant = time(block_instant or number)
        if self._native is not None and self._native():
            return self.native_log(partition, group, number, records, instant=instant)
        path = self.metadata / partition / f".{group}_{time(number)}.log.1_{self._token()}"
        encode = metadata_codec(SCHEMA).encode
        kept = sorted((key.encode(), encode(record)) for key, record in records.items() if record is not None)
        deleted = [key for key, record in records.items() if record is None]
        with path.open("xb") as sink:
            if kept:
                entries = [(key.decode(), payload) for key, payload in kept]
                write_metadata_log(sink, instant=instant, schema_json=SCHEMA, entries=entries)
            if deleted:
                (content,) = encode_deletes(pa.array(deleted), None, partition_path=partition, bytes_max=1 << 20)
                sink.write(block(BlockType.DELETE, instant, content))
        return path

    def native_log(
        self, partition: str, group: str, number: str, records: Records, *, instant: str | None = None
    ) -> Path:
        """The file of the records, or of what is deleted where it is all."""
        start, instant = f"{group}_{self._token()}_{time(number)}_1", instant or time(number)
        rows, deletes = (self.metadata / partition / f"{start}.{kind}.hfile" for kind in ("log", "deletes"))
        encode = metadata_codec(SCHEMA).encode
        kept = {key: encode(record) for key, record in records.items() if record is not None}
        deleted = records.keys() - kept.keys()
        if kept or not deleted:
            with rows.open("xb") as sink:
                entries = [(key, kept[key]) for key in sorted(kept, key=str.encode)]
                write_native_metadata_log(sink, instant=instant, schema_json=SCHEMA, entries=entries)
        if deleted:
            with deletes.open("xb") as sink:
                writer = NativeMetadataDeletes(sink, instant=instant, schema_json=SCHEMA)
                writer.add(sorted(deleted, key=str.encode))
                writer.close()
        return rows if kept or not deleted else deletes

    def base_file(
        self,
        partition: str,
        group: str,
        number: str,
        records: Records,
        *,
        entries: Sequence[tuple[str, MetadataRecord | None]] | None = None,
        schema: str | None = SCHEMA,
    ) -> Path:
        """A base file of the records by key, or of entries in the order that they are given in."""
        path = self.metadata / partition / f"{group}_{self._token()}_{time(number)}.hfile"
        payloads = []
        for key, record in sorted(records.items()) if entries is None else entries:
            assert record is not None, "a compaction leaves no deletes"
            payloads.append((key.encode(), metadata_codec(SCHEMA).encode(record)))
        path.write_bytes(hfile(payloads, info={} if schema is None else {b"schema": schema.encode()}, form=_FORM))
        return path

    # Looking at it

    def timeline(self) -> Timeline:
        return load_timeline(LocalStorage(), str(self.base), self.config)

    @property
    def config(self) -> TableConfig:
        return load_table_config(LocalStorage(), str(self.base), clock=SkippingClock()).config

    def load(self, *, config: TableConfig | None = None, partitions: Collection[str] | None = None) -> MetadataTable:
        return load_metadata_table(
            LocalStorage(),
            str(self.base),
            config or self.config,
            self.timeline(),
            clock=SkippingClock(),
            partitions=partitions,
        )

    def reader(self, storage: Storage | None = None) -> MetadataReader:
        return MetadataReader(storage or LocalStorage(), self.load())

    def _token(self) -> str:
        self._tokens += 1
        return f"0-{self._tokens}-0"

    def _instant_file(self, base: Path, name: str, content: bytes) -> None:
        numbers, dot, rest = name.partition(".")
        formatted = "_".join(number if len(number) > 2 else time(number) for number in numbers.split("_"))
        (base / ".hoodie" / "timeline" / f"{formatted}{dot}{rest}").write_bytes(content)


def _by_group(groups: list[str], records: Records) -> dict[str, dict[str, MetadataRecord | None]]:
    found: dict[str, dict[str, MetadataRecord | None]] = {group: {} for group in groups}
    for key, record in records.items():
        found[groups[file_group_index(key, len(groups))]][key] = record
    return found


def block(kind: BlockType, instant: str, content: bytes) -> bytes:
    head = block_head(kind, {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: SCHEMA}, len(content))
    return head + content + bytes(4) + (len(head) + len(content) + 4).to_bytes(8, "big")


def base_name(number: str, file_id: str = "f1") -> str:
    return f"{file_id}_0-0-0_{time(number)}.parquet"


def log_name(number: str, file_id: str = "f1") -> str:
    return f".{file_id}_{time(number)}.log.1_0-0-0"


def put(table: MetadataFiles, partition: str, *names: str) -> None:
    """Ten bytes each, the last of them an empty footer; the folder becomes a partition."""
    folder = table.base / partition
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROPERTIES_NAME).write_bytes(b"x")
    for name in names:
        (folder / name).write_bytes(b"x\x00\x01\x00\x00\x00PAR1")


def written_twice(table: MetadataFiles) -> None:
    """Two partitions, a base file and a log in one of them, and a write that is pending."""
    table.data_commit("01_03.deltacommit", {"p=1": {base_name("01"): 10}, "a/b": {base_name("01", "f2"): 10}})
    table.data_commit("04_06.deltacommit", {"p=1": {log_name("04"): 10}})
    table.data("07.deltacommit.requested")
    put(table, "p=1", base_name("01"), log_name("04"), log_name("07"))
    put(table, "a/b", base_name("01", "f2"))
    table.delta("01", "02", files={
        ALL_PARTITIONS: all_partitions("p=1", "a/b"),
        "p=1": files(**{base_name("01"): 10}),
        "a/b": files(**{base_name("01", "f2"): 10}),
    })  # fmt: skip
    table.delta("04", "05", files={ALL_PARTITIONS: all_partitions("p=1"), "p=1": files(**{log_name("04"): 10})})
    table.delta("07", "08", files={ALL_PARTITIONS: all_partitions("new"), "p=1": files(**{log_name("07"): 10})})
