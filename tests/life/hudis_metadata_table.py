"""The metadata table of a small table, as Hudi's writers build it and keep it in step: its partition `files`.

Our services do with it what they do with any other: only these first files and the writers' part are made here.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.file_name import LogFileName
from lakeward.format.java_properties import dump_properties, parse_properties
from lakeward.format.metadata.base_file import write_metadata_base_file
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import ALL_PARTITIONS, files_key
from lakeward.format.metadata.log_file import write_metadata_log
from lakeward.format.metadata.record import FileEntry, FilesRecord
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.history import parse_manifest_name
from lakeward.format.timeline.instant import parse_instant
from lakeward.table.table_config import TableConfig
from tests.format.metadata.metadata_schemas import metadata_schema_json
from tests.simulation.memory_storage import MemoryStorage

SCHEMA = metadata_schema_json()
FILE_ID = "files-0000-0"
BUILT = "00000000000000000"
PROPERTIES = {
    "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
    "hoodie.populate.meta.fields": "false",
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    "hoodie.table.base.file.format": "HFILE",
    "hoodie.table.name": "t_metadata",
    "hoodie.table.recordkey.fields": "key",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
}

Files = Mapping[str, Mapping[str, int]]
"""Sizes of files by name, by partition path."""


class HudisMetadataTable:
    def __init__(self, storage: MemoryStorage, table: str) -> None:
        self._storage = storage
        self._properties = f"{table}/.hoodie/hoodie.properties"
        self.path = f"{table}/.hoodie/metadata"
        self.timeline = f"{self.path}/.hoodie/timeline"

    @property
    def is_there(self) -> bool:
        config = TableConfig(parse_properties(self._storage.read(self._properties)))
        return "files" in config.built_metadata_partitions

    def build(self, files: Files, time: str) -> None:
        """Build it of what is committed, and say so in the table's properties.

        Args:
            time: when that is done.
        """
        storage = self._storage
        storage.delete_folder(self.path)
        for folder in (self.timeline, f"{self.path}/files"):
            storage.make_folder(folder)
        checksum = TableConfig(PROPERTIES).checksum
        storage.create(
            f"{self.path}/.hoodie/hoodie.properties",
            dump_properties(PROPERTIES | {"hoodie.table.checksum": str(checksum)}),
        )
        storage.create(f"{self.path}/files/.hoodie_partition_metadata", b"commitTime=0\npartitionDepth=1\n")
        sink, entries = io.BytesIO(), _entries(files)
        write_metadata_base_file(
            sink,
            schema_json=SCHEMA,
            entries=((key.encode(), value) for key, value in entries),
            keys_expected=len(entries),
        )
        name = f"{FILE_ID}_0-5-4_{BUILT}.hfile"
        storage.create(f"{self.path}/files/{name}", sink.getvalue())
        self._complete(BUILT, time, name, len(sink.getvalue()))
        properties = dict(parse_properties(storage.read(self._properties)))
        storage.delete(self._properties)
        storage.create(self._properties, dump_properties(properties | {"hoodie.table.metadata.partitions": "files"}))

    def commit(self, instant: str, completed: str, files: Files) -> None:
        """A writer's commit brings these files."""
        sink = io.BytesIO()
        write_metadata_log(sink, instant=instant, schema_json=SCHEMA, entries=_entries(files))
        name = LogFileName(FILE_ID, instant, 1, "0-7-0").text
        self._storage.create(f"{self.path}/files/{name}", sink.getvalue())
        self._complete(instant, completed, name, len(sink.getvalue()))

    def archive(self, kept_min: int, kept_max: int) -> None:
        """What Hudi's writers do at the beginning of a write: above `kept_max` completed commits the oldest go, to
        `kept_min`, but none from the last compaction on."""
        found = [
            parsed for name in self._storage.names(self.timeline) if (parsed := parse_instant(name, 2)) is not None
        ]
        completed = sorted((each for each in found if each.completion_time), key=lambda each: each.time)
        writes = [each.time for each in completed if each.action != "clean"]
        compacted = max((each.time for each in completed if each.action == "commit"), default="")
        if len(writes) <= kept_max:
            return
        first = min(writes[-kept_min], compacted)
        goes = [each for each in completed if each.time < first]
        rows = {
            "instantTime": [each.time for each in goes],
            "completionTime": [each.completion_time for each in goes],
            "action": [each.action for each in goes],
            "plan": pa.nulls(len(goes), pa.binary()),
        }
        if goes:
            self._put_archive(pa.table(rows), f"{goes[0].time}_{goes[-1].time}_0.parquet")
            for each in found:
                if each.time < first:
                    self._storage.delete(f"{self.timeline}/{each.file_name}")

    def _put_archive(self, rows: pa.Table, name: str) -> None:
        storage, history, sink = self._storage, f"{self.timeline}/history", io.BytesIO()
        storage.make_folder(history)
        pq.write_table(rows, sink)
        storage.create(f"{history}/{name}", sink.getvalue())
        files = [
            {"fileName": status.name, "fileLen": status.size}
            for status in storage.list(history)
            if status.name.endswith(".parquet")
        ]
        # Lakeward archives into it, too.
        numbers = [number for name in storage.names(history) if (number := parse_manifest_name(name)) is not None]
        number = max(numbers, default=0) + 1
        storage.create(f"{history}/manifest_{number}", json.dumps({"files": files}).encode())
        storage.delete(f"{history}/_version_")
        storage.create(f"{history}/_version_", str(number).encode())

    def latest_time(self) -> str:
        """The greatest time on its timeline."""
        names = self._storage.names(self.timeline)
        return max((time for name in names if "." in name for time in name.partition(".")[0].split("_")), default="")

    def _complete(self, instant: str, completed: str, name: str, size: int) -> None:
        stat = WriteStat(
            file_id=FILE_ID, path=f"files/{name}", partition_path="files", num_writes=1, file_size_in_bytes=size
        )
        metadata = CommitMetadata(
            {"files": (stat,)}, compacted=False, extra_metadata={"schema": SCHEMA}, operation_type="UPSERT_PREPPED"
        )
        for state in ("requested", "inflight"):
            self._storage.create(f"{self.timeline}/{instant}.deltacommit.{state}", b"")
        self._storage.create(f"{self.timeline}/{instant}_{completed}.deltacommit", write_commit_metadata(metadata))


def _entries(files: Files) -> list[tuple[str, bytes]]:
    encode = metadata_codec(SCHEMA).encode
    records = {
        files_key(partition): FilesRecord({name: FileEntry(size) for name, size in of.items()})
        for partition, of in files.items()
    }
    records[ALL_PARTITIONS] = FilesRecord({path: FileEntry(0) for path in files}, is_all_partitions=True)
    return [(key, encode(records[key])) for key in sorted(records, key=str.encode)]
