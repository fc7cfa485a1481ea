"""Plans of clustering and insert_overwrite, as Hudi itself wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.timeline.replace_metadata import read_clustered_groups, requested_write
from tests.format.avro.avro_files import avro_schema

GOLDEN = Path(__file__).parents[2] / "golden/timeline"
CLUSTERING = GOLDEN / "20261121072052461.clustering.requested"
OVERWRITE = GOLDEN / "20261121072053168.replacecommit.requested"


def changed(**fields: Any) -> bytes:
    """Hudi's own plan with some fields of its first slice replaced."""
    data = CLUSTERING.read_bytes()
    record = read_record(data, file="x")
    record["clusteringPlan"]["inputGroups"][0]["slices"][0] |= fields
    return write_record(avro_schema(data), record)


def test_clustering_names_its_file_groups() -> None:
    """Every slice of every input group is a file group about to be replaced."""
    assert read_clustered_groups(CLUSTERING.read_bytes(), file=CLUSTERING.name) == (
        ("2024/01", "3c25db13-7685-4118-aa74-20343e013d45-0"),
        ("2024/01", "07cf0f1c-8851-458d-a4c0-7cf895e0d261-0"),
        ("2024/02", "4b64a59b-5222-4714-882f-87684788ebdd-0"),
    )


def test_insert_overwrite_clusters_nothing() -> None:
    """Its plan has the same form and is empty."""
    assert read_clustered_groups(OVERWRITE.read_bytes(), file=OVERWRITE.name) == ()


def test_plans_of_writes_say_what_those_of_hudi_do() -> None:
    """Nothing at all for an overwrite; the operation for delete_partition."""
    own = requested_write(None)
    assert read_record(own, file="own") == read_record(OVERWRITE.read_bytes(), file=OVERWRITE.name)
    assert read_clustered_groups(own, file="own") == ()
    said = read_record(requested_write("DELETE_PARTITION"), file="own")
    assert said == {"operationType": "DELETE_PARTITION", "clusteringPlan": None, "extraMetadata": {}, "version": 1}


def test_unpartitioned_path_is_empty() -> None:
    """No partition path is the empty one."""
    assert read_clustered_groups(changed(partitionPath=None), file="x")[0][0] == ""


@pytest.mark.parametrize("fields", [{"partitionPath": "../other"}, {"fileId": "a/b"}, {"fileId": None}])
def test_hostile_names_are_refused(fields: dict[str, Any]) -> None:
    """A plan is not trusted with names."""
    with pytest.raises(UntrustedName):
        read_clustered_groups(changed(**fields), file="x")


def test_torn_plan_is_refused_by_name() -> None:
    """Half a plan is no plan."""
    with pytest.raises(BrokenFile, match="clustering"):
        read_clustered_groups(CLUSTERING.read_bytes()[:-20], file=CLUSTERING.name)
