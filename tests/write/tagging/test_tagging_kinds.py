"""Keys are found where tables of released Hudi have them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.index.index_type import IndexType
from lakeward.index.simple import SimpleIndex
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import BucketTagging, choose_tagging
from lakeward.write.tagging.tagging_kinds import LookupTagging, NewKeys
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.synthetic_table import file_group, minute, snapshot_of
from tests.write.flow.rows import keying, rows

STORAGE = LocalStorage()
GROUP = "3beaf4e6-44dc-4248-840b-a9876117aee8-0"


@pytest.fixture(scope="module")
def hudis(tmp_path_factory):
    """A table of version 9 with one file group, whose base file has k1 to k6 and whose logs delete k4 and k5."""
    base = copy_golden("v9_metadata", tmp_path_factory.mktemp("hudis") / "table")
    return take_snapshot(STORAGE, str(base), clock=SkippingClock())


def tag(snapshot, index, *of):
    """The places of rows, which are (key, partition)."""
    tagging = choose_tagging(STORAGE, snapshot, WriteRequest(WriteOperation.UPSERT, index=index), clock=SkippingClock())
    flow = InProcessFlow(STORAGE, [rows(*((key, partition, 1, "") for key, partition in of))])
    return dict(flow.tag(keying(), tagging, on_progress=lambda progress: None).rows)


def test_simple(hudis):
    """A key of a base file is known in its partition, also one that a log deleted, and nowhere else."""
    found = tag(hudis, IndexType.SIMPLE, ("k1", "p"), ("k1", "q"), ("k4", "p"), ("k9", "p"), ("k1", "p"))

    assert found == {("p", GROUP): 3, ("p", None): 1, ("q", None): 1}


def test_record_index(hudis):
    """A key is known in all of the table, and its rows go where it is; one that was deleted is new."""
    found = tag(hudis, IndexType.METADATA, ("k1", "p"), ("k1", "q"), ("k4", "p"), ("k9", "q"))

    assert found == {("p", GROUP): 2, ("p", None): 1, ("q", None): 1}


def test_a_new_key_in_two_partitions(hudis):
    """Rows of a new key go to the partition of the one that will win, where keys are one in all of the table."""
    for last, partition in ((1, "q"), (9, "r")):
        of = [("k9", "p", 1, ""), ("k9", "q", 5, ""), ("k9", "r", last, ""), ("k8", "p", 9, "")]
        request = WriteRequest(WriteOperation.UPSERT, index=IndexType.METADATA)
        tagging = choose_tagging(STORAGE, hudis, request, clock=SkippingClock())
        flow = InProcessFlow(STORAGE, [rows(*of)])

        assert flow.tag(keying(), tagging, on_progress=lambda progress: None).rows == {
            (partition, None): 3,
            ("p", None): 1,
        }


def test_a_key_in_two_groups(tmp_path):
    """What inserts left twice is tagged in both places, and counted once in a group that has it twice."""
    found = LookupTagging(simple_index(tmp_path, {"a-0": ["k1", "k1", "k2"], "b-0": ["k1"]}))
    flow = InProcessFlow(STORAGE, [rows(("k1", "p", 1, ""), ("k2", "p", 1, ""))])

    assert flow.tag(keying(), found, on_progress=lambda progress: None).rows == {("p", "a-0"): 2, ("p", "b-0"): 1}


def simple_index(base, files):
    (base / "p").mkdir()
    for file_id, keys in files.items():
        path = base / "p" / f"{file_id}_0-0-0_{minute(1)}.parquet"
        pq.write_table(pa.table({"_hoodie_record_key": keys, "id": keys}), path)
    groups = [file_group("p", file_id, base=(minute(1), 1), logs=[]) for file_id in files]
    return SimpleIndex.of(snapshot_of(groups, [], base_path=str(base)))


def test_what_is_chosen(hudis, tmp_path):
    """Buckets by what is named, else the key fields; keys are looked for only where the operation finds any."""

    def chosen(operation=WriteOperation.UPSERT, snapshot=hudis, **request):
        return choose_tagging(STORAGE, snapshot, WriteRequest(operation, **request), clock=SkippingClock())

    assert chosen(index=IndexType.BUCKET, buckets=4) == BucketTagging(("id",), 4)
    assert isinstance(chosen(WriteOperation.INSERT), NewKeys)
    assert isinstance(chosen(WriteOperation.DELETE).index, SimpleIndex)
    for wrong, message in (
        ({"index": IndexType.BUCKET}, "needs the number of buckets"),
        ({"index": IndexType.BUCKET, "buckets": 4, "bucket_fields": ("name",)}, "cannot be made of name"),
        ({"index": IndexType.BUCKET, "buckets": 100_000_000}, "cannot have 100000000 buckets.*at most 99999999"),
        ({"buckets": 4}, "the index is simple"),
    ):
        with pytest.raises(UsageError, match=message):
            chosen(**wrong)
    (tmp_path / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata").mkdir(parents=True)
    for properties, request, message in (
        ({}, {"index": IndexType.BUCKET, "buckets": 4}, "not all of one number"),
        ({}, {"index": IndexType.METADATA}, "has no record index"),
        ({"hoodie.populate.meta.fields": "false"}, {}, "do not carry their keys"),
    ):
        with pytest.raises(Refused, match=message):
            chosen(snapshot=snapshot_of([], [], properties=properties, base_path=str(tmp_path)), **request)
