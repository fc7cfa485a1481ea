"""Object stores between us and Hudi: the lock's object is read by both, and so is a table that we compacted there.

The bundle holds no client of an object store, so the files themselves are what Hudi judges, in a copy on disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.cli.main import run
from lakeward.protocol.lock.storage_lock import LockFile, parse_lock_file
from lakeward.protocol.owner import Processes
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.golden_tables import copy_golden, expected_rows
from tests.object_tables import bring, fetch
from tests.runs import spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.services, pytest.mark.usefixtures("short_waits")]

MODELS = "org.apache.hudi.client.transaction.lock.models"


def test_the_lock_is_read_by_both(spark: SparkSession) -> None:
    """Hudi's own class reads Lakeward's, with all that it does not know; we read what it writes."""
    jvm: Any = spark._jvm
    lock_file = getattr(jvm, f"{MODELS}.StorageLockFile")
    for expired in (True, False):
        own = LockFile(expired, 1795233779625, "0d3adf46-8bb1-4b0f-9a43-fb0b1c4d7a11", Processes().new_owner())
        hudis = lock_file.createFromStream(jvm.java.io.ByteArrayInputStream(own.to_json()), "etag")
        assert (hudis.isExpired(), hudis.getValidUntilMs(), hudis.getOwner()) == (
            own.expired,
            own.valid_until_ms,
            own.owner,
        )
        data = getattr(jvm, f"{MODELS}.StorageLockData")(expired, own.valid_until_ms, own.owner)
        written = bytes(lock_file.toByteArray(data))
        assert parse_lock_file(written, path="x") == LockFile(expired, own.valid_until_ms, own.owner)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("golden", "kind"),
    [
        pytest.param("v9", "full", marks=pytest.mark.wide),
        pytest.param("v9", "log", marks=pytest.mark.wide),
        *(("v9_metadata", kind) for kind in spread(("full", "log"), least=1)),
    ],
)
def test_hudi_reads_what_was_compacted_in_s3(
    golden: str, kind: str, bucket: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The command line compacts a table that Hudi wrote; one with a metadata table is listed by that."""
    store, base = ObjectStore(parse_object_url(bucket)), f"{bucket}/orders"
    bring(copy_golden(golden, tmp_path / "golden"), store, base)
    url = base.replace("s3://", "s3a://")
    assert run(["compact", url, "--type", kind, "--lock", "storage", "--engine", "local"]) == 0
    assert run(["compact", url, "--type", kind, "--lock", "storage", "--engine", "local", "--exit-code"]) == 3
    table = fetch(store, base, tmp_path / "fetched")
    options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    frame = spark.read.format("hudi").options(**options).load(str(table)).drop("_hoodie_file_name")
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["_hoodie_record_key"])
    assert rows == expected_rows(golden)
    greatest = max(row["ts"] for row in rows)  # found by the statistics that we wrote
    assert frame.filter(frame["ts"] == greatest).count() == sum(row["ts"] == greatest for row in rows)
