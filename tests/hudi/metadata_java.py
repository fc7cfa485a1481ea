"""Hudi's own reader of metadata tables: the listing and the records that it sees.

Touches: the table it is given, reading, through the JVM of a Spark session with the Hudi bundle.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.record import MetadataRecord
from tests.hudi.hfile_java import java_object, read_entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READER = "org.apache.hudi.metadata.HoodieBackedTableMetadata"


class HudiMetadata:
    """One look at the metadata table of the table at `path`."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        jvm: Any = spark._jvm
        hudi = jvm.org.apache.hudi
        conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
        storage = hudi.storage.HoodieStorageUtils.getStorage(str(path), conf)
        config = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
        context = hudi.common.engine.HoodieLocalEngineContext(conf)
        self._path = path
        self._jvm = jvm
        self._reader = hudi.metadata.HoodieBackedTableMetadata(context, storage, config, str(path))
        self._records = java_object(spark, "MetadataRecords", _READER)
        self._schema: str = self._records.schema()

    def files(self) -> dict[str, dict[str, int]]:
        """The size of each file, by partition path and name."""
        return {path: self._files(path) for path in self._reader.getAllPartitionPaths()}

    def records(self, partition: str, scratch: Path) -> dict[str, MetadataRecord]:
        """Maps keys to records. They travel through a file in `scratch`."""
        target = scratch / "records"
        self._records.dump(self._reader, partition, str(target))
        decode = metadata_codec(self._schema).decode
        entries = read_entries(target)
        records = {key.decode(): decode(payload, key.decode()) for key, payload in entries}
        assert len(records) == len(entries)
        return records

    def _files(self, partition_path: str) -> dict[str, int]:
        folder = self._jvm.org.apache.hudi.storage.StoragePath(str(self._path / partition_path))
        found = self._reader.getAllFilesInPartition(folder)
        return {status.getPath().getName(): status.getLength() for status in found}
