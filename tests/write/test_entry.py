"""`lakeward.write.write`: what the command does for files, from Python."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeward.write
from lakeward.base.errors import Refused, UsageError
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.run.index_build import build_index
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.write.request import WriteOperation
from tests.index.builds import in_process
from tests.index.record.reopened_record_index import new_record_index
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.write.writing import Row, new_table, rows_of, values


def table_of(*rows: Row) -> pa.Table:
    return pa.Table.from_batches([rows_of(rows)])


def test_rows_of_arrow(tmp_path: Path) -> None:
    """A table of Arrow's is written in this process, by the index that the table shows or the call names."""
    base = str(new_table(tmp_path / "t"))

    report = lakeward.write.write(
        table_of(("k1", 1, "p", "a"), ("k2", 1, "q", "a")), base, buckets=2, writers_stopped=True
    )
    assert (report.operation, report.inserted, report.partitions) == (WriteOperation.UPSERT, 2, ["p", "q"])
    lakeward.write.write(table_of(("k1", 0, "p", "")), base, operation="delete", buckets=2, writers_stopped=True)
    assert values(read_rows(Path(base))) == {"k2": "a"}
    gone = lakeward.write.write(None, base, operation="delete_partition", partitions=["q"], writers_stopped=True)
    assert list(gone.replaced) == ["q"] and read_rows(Path(base)) == []


def test_what_is_refused(tmp_path: Path) -> None:
    """Without a statement about other writers, or with rows of another kind, nothing is written."""
    base = new_table(tmp_path / "t")
    one = table_of(("k1", 1, "p", "a"))

    for rows, said, message in (
        (one, {}, "how the table's other writers behave"),
        (None, {"writers_stopped": True}, "upsert takes rows"),
        (one, {"writers_stopped": True, "operation": "delete_partition"}, "delete_partition takes no rows"),
        ({"id": ["k1"]}, {"writers_stopped": True}, "The rows are a builtins.dict"),
        (
            one,
            {"writers_stopped": True, "memory_bytes": 2**10},
            "The memory of a task is too small. An operation needs 300MiB or more",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            lakeward.write.write(rows, str(base), **said)
    with pytest.raises(Refused, match="no record index"):
        lakeward.write.write(one, str(base), index="metadata", writers_stopped=True)
    assert not list((base / ".hoodie" / "timeline").glob("2*"))


@pytest.mark.slow
def test_a_record_index_of_lakewards(tmp_path: Path) -> None:
    """A call uses the one below the table, or in the folder that it names, and each write is in it; by one in a
    database none is written from Python."""
    for location in (None, str(tmp_path / "indexes")):
        base = new_table(tmp_path / f"t-{location is None}")
        folder = RecordOptions(location).folder(str(base))
        words = {"index": "record", "index_location": location, "writers_stopped": True}
        with pytest.raises(Refused, match="no record index of Lakeward's"):
            lakeward.write.write(table_of(("k1", 1, "p", "a")), str(base), **words)
        new_record_index(Path(folder), buckets=2)
        lakeward.write.write(table_of(("k1", 1, "p", "a"), ("k2", 1, "q", "a")), str(base), **words)
        open_index = partial(RecordIndexWriter.of, LocalStorage(), folder=folder)
        build_index(LocalStorage(), open_index, lambda base=base: scan(base), in_process(base))
        reports = [
            lakeward.write.write(table_of(("k1", 2, "q", "b"), ("k3", 2, "r", "b")), str(base), **words),
            lakeward.write.write(None, str(base), operation="delete_partition", partitions=["r"], **words),
        ]
        assert values(read_rows(base)) == {"k1": "b", "k2": "a"}
        assert open_index(scan(base)).indexed().instants == {report.instant for report in reports}
    with pytest.raises(UsageError, match="none is opened for it"):
        lakeward.write.write(table_of(("k1", 1, "p", "a")), str(base), index="postgres", writers_stopped=True)


def test_rows_move_where_the_table_says_so(tmp_path: Path) -> None:
    """Its properties say so, as Hudi's writers use them, or the call; not both."""
    base = new_table(tmp_path / "t", indexes=NewIndexes(finds_keys=NewIndex.METADATA))

    def write(partition: str, **said: bool) -> list[str]:
        lakeward.write.write(table_of(("k1", 1, partition, "a")), str(base), writers_stopped=True, **said)
        return [row["_hoodie_partition_path"] for row in read_rows(base)]

    assert write("p") == write("q") == ["p"]
    assert write("q", update_partition_path=True) == ["q"]
    set_property(base, "hoodie.record.index.update.partition.path", "true")
    assert write("r") == ["r"]
    with pytest.raises(UsageError, match=r"hoodie\.record\.index\.update"):
        write("p", update_partition_path=False)


@pytest.mark.interop
@pytest.mark.wide
def test_a_data_frame(spark: SparkSession, tmp_path: Path) -> None:
    """The driver of the data frame does the work, and goes on."""
    base = new_table(tmp_path / "t")
    frame = spark.createDataFrame(
        [("k1", 1, "p", "a"), ("k1", 2, "p", "b")], "id string, ts bigint, part string, v string"
    )

    report = lakeward.write.write(frame, str(base), buckets=2, writers_stopped=True)

    assert (report.inserted, values(read_rows(base))) == (1, {"k1": "b"})
    assert frame.count() == 2
