"""Indexes that Hudi keeps, and those that base files are, find keys where tables of released Hudi have them."""

import json
import pickle
import tarfile

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.index import HashedIndex, record_locations
from lakeward.index.location import LOCATIONS
from lakeward.index.metadata_record_index import MetadataRecordIndex
from lakeward.index.simple import SimpleIndex
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.snapshot import take_snapshot
from tests.clocks import SkippingClock
from tests.golden_tables import GOLDEN, copy_golden
from tests.synthetic_table import file_group, minute, snapshot_of

STORAGE = LocalStorage()
GROUP = "3beaf4e6-44dc-4248-840b-a9876117aee8-0"


@pytest.mark.parametrize("kind", ["simple", "record index"])
def test_locations_of_a_table_of_hudis(tmp_path, kind):
    """Each location says the file group and the commit that put the key there; k5 is in the base file and deleted in a
    log, of which the record index knows."""
    snapshot = take_snapshot(STORAGE, str(copy_golden("v9_metadata", tmp_path / "table")), clock=SkippingClock())
    if kind == "simple":
        index = SimpleIndex.of(snapshot)
    else:
        index = MetadataRecordIndex.of(STORAGE, snapshot, clock=SkippingClock())
    (base,) = {group.read_slices[-1].base_file for group in snapshot.file_groups}

    found = record_locations(STORAGE, index, pa.array(["k1", "k5", "k9", "k1"]))

    assert found.schema == LOCATIONS
    keys = ["k1", "k5"] if kind == "simple" else ["k1"]
    assert sorted(found.to_pylist(), key=lambda row: row["_hoodie_record_key"]) == [
        dict(zip(LOCATIONS.names, (key, "p", GROUP, base.instant), strict=True)) for key in keys
    ]
    assert isinstance(index, HashedIndex) == index.can_index_log_files == index.is_global == (kind != "simple")


def test_a_group_of_logs_alone_has_another_index():
    """Its keys are in no base file, so the simple index is refused in its partition, and there alone."""
    index = SimpleIndex.of(snapshot_of([file_group("p", "a-0", base=None, logs=[(minute(1), 1)])], []))

    assert index.parts(["q"]) == []
    with pytest.raises(Refused, match="a-0 in partition 'p' has no base file"):
        index.parts(["p", "q"])


def test_parts_of_the_record_index(tmp_path):
    """Each key is in one part, which finds it; entries of groups that are not there lead nowhere. Version 8."""
    with tarfile.open(GOLDEN / "v8_metadata" / "table.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((GOLDEN / "v8_metadata" / "expected.json").read_text())["locations"]
    snapshot = take_snapshot(STORAGE, str(tmp_path), clock=SkippingClock())
    table = load_metadata_table(
        STORAGE, str(tmp_path), snapshot.config, snapshot.timeline, clock=SkippingClock(), partitions=[RECORD_INDEX]
    )
    index = MetadataRecordIndex(table, frozenset((of[0], of[1]) for of in expected.values()))
    keys = pa.array([*expected, "k-unknown"])

    def found(of):
        batches = [batch for part in of.parts(()) for batch in of.look_up(STORAGE, part, keys)]
        assert sum(batch.num_rows for batch in batches) in (0, len(expected)), "no key in two parts"
        return {row["_hoodie_record_key"]: [*row.values()][1:3] for batch in batches for row in batch.to_pylist()}

    assert index.count == 2 and set(index.parts_of(keys)) == {0, 1}
    assert found(pickle.loads(pickle.dumps(index))) == expected
    assert found(MetadataRecordIndex(table, frozenset())) == {}
