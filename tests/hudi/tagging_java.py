"""Hudi's indexes, asked for the file groups of many keys as its Spark writers ask them.

Touches: the table it is given, reading, through the JVM of a Spark session with the Hudi bundle; files in a folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.hudi.hfile_java import java_object
from tests.our_reader import scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Places = dict[str, tuple[str, str]]
"""Partition path and file id by key."""


class HudiTagging:
    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark: Any = spark
        self._scratch = scratch
        self._java = java_object(spark, "TaggedKeys", "org.apache.hudi.client.SparkRDDReadClient")

    def read(self, keys: Iterable[tuple[str, str]]) -> None:
        """The keys that are asked for from now on, each with the partition path that its row would come for."""
        path = self._scratch / "asked"
        path.write_text("".join(f"{partition_path}\t{key}\n" for key, partition_path in keys))
        self._java.read(str(path))

    def tag(self, base: Path, options: Mapping[str, str], *, parts: int = 2) -> tuple[float, Places]:
        """Seconds from the opening of the table to the answers, and the keys that were found."""
        target = self._scratch / "tagged"
        columns = scan(base).schema
        assert columns is not None, "the table has rows"
        said = "".join(f"{name}={value}\n" for name, value in {"hoodie.avro.schema": columns, **options}.items())
        milliseconds = self._java.tag(self._spark._jsc, str(base), said, parts, str(target))
        lines = (line.split("\t") for line in target.read_text().splitlines())
        return milliseconds / 1000, {key: (partition_path, file_id) for key, partition_path, file_id in lines}
