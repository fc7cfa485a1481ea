"""The file that makes a folder a partition, in its two forms."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.partition_metadata import PartitionMetadata, is_partition_metadata, read_partition_metadata

GOLDEN = Path(__file__).parents[1] / "golden"


def parquet(metadata: dict[str, str]) -> bytes:
    out = io.BytesIO()
    schema = pa.schema([("dummyint", pa.int64())], metadata=metadata)
    pq.write_table(schema.empty_table(), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (".hoodie_partition_metadata", True),
        (".hoodie_partition_metadata.parquet", True),
        (".hoodie_partition_metadata.orc", True),
        (".hoodie_partition_metadata_0", False),
        (".hoodie_partition_metadata_0.parquet", False),
        ("..hoodie_partition_metadata.crc", False),
        ("hoodie_partition_metadata", False),
    ],
)
def test_names_of_either_form_are_known(name: str, known: bool) -> None:
    """Text, Parquet and ORC are; not the temporary names under which writers prepare them."""
    assert is_partition_metadata(name) is known


@pytest.mark.parametrize(("version", "time"), [("v6", "20261121043712577"), ("v9", "20261121043703223")])
def test_hudis_own_is_read(version: str, time: str) -> None:
    """The text form says who made the partition and how deep it lies."""
    path = GOLDEN / version / "table/p/.hoodie_partition_metadata"
    assert read_partition_metadata(path.read_bytes(), file=path.name) == PartitionMetadata(time, 1)


def test_parquet_form_says_the_same_in_its_footer() -> None:
    """With hoodie.partition.metafile.use.base.format the keys are in the footer of a file without rows."""
    data = parquet({"commitTime": "20261121043703223", "partitionDepth": "0"})
    expected = PartitionMetadata("20261121043703223", 0)
    assert read_partition_metadata(data, file=".hoodie_partition_metadata.parquet") == expected


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (".hoodie_partition_metadata", b""),
        (".hoodie_partition_metadata", b"commitTime=1"),
        (".hoodie_partition_metadata", b"commitTime=1\npartitionDepth=x"),
        (".hoodie_partition_metadata", b"commitTime=1\npartitionDepth=" + b"1" * 5000),
        (".hoodie_partition_metadata", b"partitionDepth=1"),
        (".hoodie_partition_metadata.parquet", b""),
        (".hoodie_partition_metadata.parquet", b"PAR1"),
        (".hoodie_partition_metadata.parquet", b"\xff\xff\xff\x7fPAR1"),
        (".hoodie_partition_metadata.parquet", b"\x00\x00\x00\x00PAR1"),
        (".hoodie_partition_metadata.parquet", b"\x00\x00\x00\x00PARE"),
        (".hoodie_partition_metadata.parquet", parquet({})),
        (".hoodie_partition_metadata.parquet", parquet({"commitTime": "1"})),
    ],
)
def test_broken_files_are_refused_by_name(name: str, data: bytes) -> None:
    """A file is torn, empty, encrypted, or without its keys."""
    with pytest.raises(BrokenFile, match=name):
        read_partition_metadata(data, file=name)
