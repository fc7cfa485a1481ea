"""Key generators are proved by rows that the table has."""

import datetime

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused
from lakeward.table.table_config import TableConfig
from lakeward.write.assignment import prove_key_generator


def config(version=9, kind="SIMPLE", partition="part", **properties):
    return TableConfig(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(version),
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": partition,
            "hoodie.table.keygenerator.type": kind,
            **properties,
        }
    )


def rows(keys, paths, **columns):
    return pa.record_batch({"_hoodie_record_key": pa.array(keys), "_hoodie_partition_path": pa.array(paths), **columns})


def test_other_keys_are_refused():
    """Keeps 2 of write/assignment: here those of Hudi's bulk_insert, which writes timestamps as text."""
    moment = pa.array([datetime.datetime(2024, 3, 4, 5, 6, 7, tzinfo=datetime.UTC)])
    of_upsert = rows(["1709528767000000"], ["p"], id=moment, part=["p"])
    of_bulk_insert = rows(["2024-03-04 05:06:07.0"], ["p"], id=moment, part=["p"])

    assert prove_key_generator(config(), [of_upsert]).key_fields == ("id",)
    with pytest.raises(Refused, match=r"has '2024-03-04 05:06:07\.0', and by hoodie\.properties it would be '17095287"):
        prove_key_generator(config(), [of_upsert, of_bulk_insert])


def test_other_paths_are_refused():
    """Keeps 3 of write/assignment. A row that stayed where it was, by a global index, is none."""
    moved = rows(["a", "b"], ["p", "q"], id=["a", "b"], part=["p", "new"])
    slashes = rows(["a", "b"], ["2024/03/04", "2024/03/05"], id=["a", "b"], part=["2024-03-04", "2024-03-05"])

    assert prove_key_generator(config(), [moved]).partition_fields == ("part",)
    with pytest.raises(Refused, match=r"partition paths are not made as its properties say\. A row has '2024/03/04'"):
        prove_key_generator(config(), [slashes])


def test_partitions_of_times_show_the_zone():
    timebased = {
        "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
    }
    of_berlin = rows(["a", "b"], ["1970-01-01", "1970-01-02"], id=["a", "b"], part=[0, 23 * 3600])
    berlin = datetime.timezone(datetime.timedelta(hours=1))

    assert prove_key_generator(config(kind="TIMESTAMP", **timebased), [of_berlin], writers_zone=berlin)
    with pytest.raises(Refused, match="A row has '1970-01-02'"):
        prove_key_generator(config(kind="TIMESTAMP", **timebased), [of_berlin], writers_zone=datetime.UTC)


def test_keys_show_their_form():
    table = config(version=8, kind="COMPLEX", partition="part,q")
    bare = rows(["a"], ["p/1"], id=["a"], part=["p"], q=[1])
    named = rows(["id:a"], ["p/1"], id=["a"], part=["p"], q=[1])

    assert prove_key_generator(table, [bare]).names_fields is False
    assert prove_key_generator(table, [named]).names_fields is True
    with pytest.raises(Refused, match="not known how the keys"):
        prove_key_generator(table, [])
    with pytest.raises(Refused, match="begin with id:"):
        prove_key_generator(table, [bare, named])


def test_files_without_partition_columns_show_keys_alone():
    assert prove_key_generator(config(), [rows(["a"], ["p"], id=["a"])])
    with pytest.raises(Refused, match="record keys are not made"):
        prove_key_generator(config(), [rows(["id:a"], ["p"], id=["a"])])


def test_rows_that_would_be_refused_now_prove_nothing():
    assert prove_key_generator(config(), [rows(["a"], ["a:b"], id=["a"], part=["a:b"])])
