"""One pass of the daemon over a table that Hudi writes: it rolls back what failed, compacts and cleans, and Hudi lives
on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.cli.main import run
from lakeward.engine.dispatch import engine_rule
from lakeward.index.index_type import IndexType
from tests.daemon.serving import Serving
from tests.hudi.table import HudiTable, TableShape
from tests.index.following import truth
from tests.interop.test_followed_index import MOVING
from tests.interop.test_rollback import CLEANED, check_right, failed, left_alone, rows
from tests.services.clean.run.cleaning import completed_cleans, data_files
from tests.write.own_record_index import located

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("short_waits")]

CONFIG = """
[service]
state_folder = "{folder}/state"

[locks]
writers = "share"

[discovery]
roots = ["{folder}/tables"]

[defaults.planner]
"hoodie.compact.inline.max.delta.commits" = 1

[defaults.clean]
policy = "versions"
retain = 1
reader_window = "0s"
"""


def instants(table: HudiTable, ending: str) -> list[str]:
    return sorted(path.name for path in (table.path / ".hoodie/timeline").glob(f"*_*.{ending}"))


@pytest.mark.wide
def test_one_pass_rolls_back_compacts_and_cleans(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this order, the compaction as a Spark job, since it counts as large here; the rows are those of before,
    nothing of the failed write is left, old slices are gone, and Hudi reads, upserts and cleans the table further, with
    its metadata table right."""
    original = failed(spark, tmp_path_factory, "metadata")
    table = left_alone(original, tmp_path / "tables/orders")
    twin = left_alone(original, tmp_path / "twin")
    (instant,) = {
        path.name.partition(".")[0]
        for path in (table.path / ".hoodie/timeline").glob("*.inflight")
        if not list(path.parent.glob(f"{path.name.partition('.')[0]}_*"))
    }
    before = data_files(table.path)
    config = str(tmp_path / "lakeward.toml")
    Path(config).write_text(CONFIG.format(folder=tmp_path))
    monkeypatch.setattr("lakeward.services.rollback.job.QUIET_SECONDS", 1.0)
    monkeypatch.setattr("lakeward.services.clean.job.AFTER_COMMITS", 1)
    for bound in ("DAEMON_SPARK_BYTES", "DAEMON_SPARK_UP_BYTES"):
        monkeypatch.setattr(engine_rule, bound, 1)

    assert run(["run", "--once", "--config", config]) == 0

    capfd.readouterr()
    assert run(["jobs", "--config", config, "--json"]) == 0
    jobs = json.loads(capfd.readouterr().out)
    assert [job["figures"]["spark_jobs"] for job in jobs if job["service"] == "compaction"] == [1]
    (rollback,), (compaction,), (clean,) = (instants(table, each) for each in ("rollback", "commit", "clean"))
    assert rollback < compaction < clean
    assert len(completed_cleans(table.path)) == 1
    after = data_files(table.path)
    assert before - after and not any(instant in name for name in after)
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    check_right(table)
    for each in (table, twin):
        each.write(rows(spark, 2, 12, 4), "upsert", **CLEANED)
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    check_right(table)


@pytest.mark.turns
def test_an_index_of_lakeward_follows_hudis_writer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi upserts, moves rows to other partitions and deletes; the daemon's loop takes that into the record index, and
    lookups by the index alone are as the rows are then. Its next check finds nothing."""
    table = HudiTable(spark, tmp_path / "tables/orders", TableShape(partition_fields="part"))
    columns = "id string, ts bigint, part string, v string"

    def write(operation: str, *keys: tuple[str, str], ts: int) -> None:
        frame = spark.createDataFrame([(key, ts, part, "v") for key, part in keys], columns)
        table.write(frame, operation, **MOVING)

    write("upsert", ("k1", "a"), ("k2", "a"), ("k3", "b"), ts=1)
    assert run(["index", "build", str(table.path), "--type", "record"]) == 0
    write("upsert", ("k1", "b"), ("k4", "c"), ts=2)
    write("delete", ("k2", "a"), ts=3)
    settings = {"defaults.services": '["index"]'}
    monkeypatch.setattr("lakeward.services.indexing.upkeep.checks.ROUND_SECONDS", 600.0)
    serving = Serving(tmp_path / "tables", tmp_path / "state", settings=settings)

    serving.run(90.0, step=10.0)

    assert located(table.path, ["k1", "k2", "k3", "k4"], bytes_max=0) == truth(table.path)
    assert [key for key, _ in truth(table.path)] == ["k1", "k3", "k4"]
    assert serving.sample("lakeward_indexed_commits_total", table="orders") == 2
    serving.run(1600.0, step=10.0)
    (index,) = (each for each in serving.index_memory().indexes if each.type is IndexType.RECORD)
    assert (index.checked, index.wrong, index.out_of_use) == (6, 0, "")
