"""Logs of Lakeward's record index, which Hudi 1.2.0 reads as logs: each block is an HFile of a commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.index.test_writable_index import changes
from tests.synthetic_table import minute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop


def test_hudi_reads_the_blocks(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi's log reader finds each block with its type, its commit and the bytes that the manifest names, also behind
    one that replaced what a process which died had appended."""
    new_record_index(tmp_path, buckets=1)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: each for each in of})
    for number in range(1, 4):
        index.update(minute(number), changes([(f"k{number}", "p", f"p-{number}")]), completed=minute(number))
        (path,) = {file.path for file in index.open().manifest.files}
        if number == 2:
            with (tmp_path / path).open("ab") as log:
                log.write(b"#HUDI#" + bytes(500))
    named = sorted(index.open().manifest.files, key=lambda file: file.offset)

    jvm: Any = spark._jvm
    hudi = jvm.org.apache.hudi
    conf = hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    storage = hudi.storage.HoodieStorageUtils.getStorage(str(tmp_path), conf)
    log_file = hudi.common.model.HoodieLogFile(storage.getPathInfo(hudi.storage.StoragePath(str(tmp_path / path))))
    reader = hudi.common.table.log.HoodieLogFileReader(storage, log_file, None, 1 << 20)
    found = []
    while reader.hasNext():
        block = reader.next()
        at = block.getBlockContentLocation().get()
        instant = block.getLogBlockHeader().get(
            hudi.common.table.log.block.HoodieLogBlock.HeaderMetadataType.INSTANT_TIME
        )
        found.append((block.getBlockType().name(), instant, at.getContentPositionInLogFile(), at.getBlockSize()))
    reader.close()
    assert found == [("HFILE_DATA_BLOCK", file.instant, file.offset, file.size) for file in named]
    assert len(found) == 3
