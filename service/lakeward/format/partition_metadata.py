"""The file that makes a folder a partition: Java properties, or a Parquet file of the same keys in its footer.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.base.errors import BrokenFile
from lakeward.format.java_properties import dump_properties, parse_properties
from lakeward.format.parquet.footer import TAIL_BYTES, footer_bytes, is_encrypted

PROPERTIES_NAME = ".hoodie_partition_metadata"
PARQUET_NAME = f"{PROPERTIES_NAME}.parquet"
ORC_NAME = f"{PROPERTIES_NAME}.orc"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    commit_time: str
    """The instant that created the partition."""
    partition_depth: int
    """How many folders the partition lies below the base path."""


def is_partition_metadata(name: str) -> bool:
    """True for the file's name in any form; not for the temporary names of its writers."""
    return name in (PROPERTIES_NAME, PARQUET_NAME, ORC_NAME)


def write_partition_metadata(partition: PartitionMetadata) -> bytes:
    """The content of the file of properties."""
    return dump_properties({"commitTime": partition.commit_time, "partitionDepth": str(partition.partition_depth)})


def read_partition_metadata(data: bytes, *, file: str) -> PartitionMetadata:
    """The content of either form that is not ORC. Raises `BrokenFile`."""
    values = _footer_values(data, file) if file.endswith(".parquet") else parse_properties(data)
    commit_time, depth = values.get("commitTime"), values.get("partitionDepth", "")
    if commit_time is None or not (depth.isascii() and depth.isdigit() and len(depth) <= 3):
        raise BrokenFile(
            f"{file} is no partition metadata.",
            why="It lacks commitTime or a number as partitionDepth.",
            remedy="Its writer died over it; any write of Hudi into the partition makes it again once it is deleted.",
        )
    return PartitionMetadata(commit_time, int(depth))


def _footer_values(data: bytes, file: str) -> Mapping[str, str]:
    # Imported here: a process that only lists tables should not have to hold Arrow in memory.
    from pyarrow import ArrowException, BufferReader, parquet

    length = footer_bytes(data[-TAIL_BYTES:], file=file)
    # Encrypted columns make pyarrow end the process, so they are looked for without it.
    if is_encrypted(data[-TAIL_BYTES:], data[-TAIL_BYTES - length : -TAIL_BYTES], file=file):
        raise BrokenFile(f"{file} is encrypted.")
    try:
        metadata = parquet.read_metadata(BufferReader(data)).metadata or {}
        return {key.decode(): value.decode() for key, value in metadata.items()}
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise BrokenFile(f"{file} is not readable Parquet.", why=str(error)) from error
