"""A standalone Spark cluster whose executors have what `make executor-env` packs and nothing else: a job goes on when
a worker is killed in the middle of it, and released Hudi finds every row once."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from deploy.executor_env import SPARK
from lakeward.engine.dispatch.spark_master import check_master
from lakeward.protocol.times.seen_times import FOLDER as MINTED
from tests.deploy.tools import PROJECT
from tests.engine.dispatch.cluster import Cluster
from tests.hudi.table import HudiTable, TableShape
from tests.interop.test_living_with_hudi import rows, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

BARE = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
"""An interpreter without our packages."""
SECONDS = 180
GROUPS = 4

HOLD = """
import json, os, sys
from lakeward.engine.task import operation

merge_slice = operation.merge_slice

def held(storage, spec, task_attempt, **given):
    merged = merge_slice(storage, spec, task_attempt, **given)
    try:
        os.close(os.open("{folder}/claimed", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return merged
    with open("{folder}/report", "w") as report:
        said = dict(attempt=task_attempt, wrote=merged.file_name)
        said |= dict(cwd=os.getcwd(), python=sys.executable, module=operation.__file__)
        said["archive"] = os.listdir("lakeward")
        said["compiled"] = os.path.exists("lakeward/lakeward/compiled/made-for")
        json.dump(said, report)
    open("{folder}/go")  # for ever: it has no writer
    return merged

operation.merge_slice = held
"""
"""Every Python of an executor begins with this. The first task that has written its file stops there, and says where it
runs; the task that is run in its place finds that this was done."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make executor-env` makes, for an interpreter that has none of these packages."""
    assert subprocess.run([BARE, "-c", "import lakeward"], capture_output=True, check=False).returncode == 1
    archive = tmp_path_factory.mktemp("archive") / "env.tar.gz"
    subprocess.run([sys.executable, "-m", "deploy.executor_env", "--output", archive], cwd=PROJECT, check=True)
    return archive


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """Hudi wrote keys 0 to 39 in four file groups with logs, by which 5 to 34 have a new value."""
    table = HudiTable(spark, tmp_path_factory.mktemp("written") / "t", TableShape(index="BUCKET", buckets=GROUPS))
    table.write(rows(spark, 0, 40, 10, "a"), "upsert")
    table.write(rows(spark, 5, 35, 11, "b"), "upsert")
    return table


class Held:
    """Executors whose first task stops when its file is written."""

    def __init__(self, folder: Path, archive: Path) -> None:
        (folder / "hold").mkdir(parents=True)
        (folder / "hold" / "sitecustomize.py").write_text(HOLD.format(folder=folder))
        os.mkfifo(folder / "report")
        os.mkfifo(folder / "go")
        self._reports = os.open(folder / "report", os.O_RDONLY | os.O_NONBLOCK)
        self.conf = {
            "spark.archives": f"{archive}#lakeward",
            "spark.executorEnv.PYTHONPATH": f"./lakeward{os.pathsep}{folder / 'hold'}",
            "spark.executor.memory": "512m",
        }

    def wait(self) -> dict[str, Any]:
        """What the task said that stopped."""
        poll = select.poll()
        poll.register(self._reports, select.POLLIN)
        assert poll.poll(SECONDS * 1000), "no task of the executors wrote a file"
        report: dict[str, Any] = json.loads(os.read(self._reports, 10_000))
        os.close(self._reports)
        return report


def begin(*words: str) -> subprocess.Popen[str]:
    """A driver as an operator starts it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, "-m", "lakeward.cli.main", *words],
        env=environment | {"PYSPARK_PYTHON": BARE, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_the_worker(driver: subprocess.Popen[str], held: Held, cluster: Cluster, table: HudiTable) -> tuple[str, str]:
    """Kill the worker whose task stopped. Returns what the driver printed in the end."""
    try:
        report = held.wait()
        place = Path(report["cwd"])
        assert (report["attempt"], report["python"], report["compiled"]) == (0, BARE, True)
        assert report["module"] == str(place / "lakeward/lakeward/engine/task/operation.py"), "it is the archive's"
        assert {"lakeward", "pyarrow", "numba", "fastavro"} <= set(report["archive"])
        assert not set(SPARK) & set(report["archive"]), "executors have their own"
        left = {path for path in files(table) if path.endswith(report["wrote"])}
        assert left, "the task has written it"
        tree = cluster.kill_worker(place)
        printed = driver.communicate(timeout=SECONDS)
    except BaseException:
        driver.kill()
        print(driver.communicate()[1][-5000:], file=sys.stderr)
        raise
    assert driver.returncode == 0, printed[1][-5000:]
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert not alive, "what is below a worker that died ends by itself"
    assert not left & files(table)
    return printed


def files(table: HudiTable) -> set[str]:
    """The files of rows, and what a job keeps below `.hoodie` while it runs."""
    paths = {str(path.relative_to(table.path)) for path in table.path.rglob("*") if path.is_file()}
    stay = (".hoodie/timeline/", f".hoodie/{MINTED}/")
    return {path for path in paths if not path.startswith(stay) and not path.endswith(".crc")}


def check(table: HudiTable, before: set[str]) -> None:
    """One commit, one new base file a file group and nothing else; Hudi reads every row once."""
    (commit,) = (table.path / ".hoodie" / "timeline").glob("*.commit")
    instant = commit.name.partition("_")[0]
    new = sorted(files(table) - before)
    assert len([path for path in new if path.endswith(f"_{instant}.parquet")]) == GROUPS, new
    assert len({path.partition("_")[0] for path in new if path.endswith(".parquet")}) == GROUPS, new
    assert [path for path in new if not path.endswith(".parquet")] == []
    assert values(table) == {f"k{n}": f"{'b' if 5 <= n < 35 else 'a'}{n}" for n in range(40)}


@pytest.mark.turns(35)
def test_a_worker_is_killed_under_a_compaction(
    written: HudiTable, archive: Path, cluster: Cluster, tmp_path: Path
) -> None:
    """Its task has written a file and is not done: the other worker writes another one, which alone is published."""
    check_master(cluster.url)
    table = written.copy_to(tmp_path / "t")
    before = files(table)
    held = Held(tmp_path / "held", archive)
    conf = (word for key, value in held.conf.items() for word in ("--spark-conf", f"{key}={value}"))
    driver = begin(
        *("compact", str(table.path), "--writers", "stopped", "--type", "full", "--no-metadata-services"),
        *("--master", cluster.url, *conf, "--json"),
    )

    printed, _ = kill_the_worker(driver, held, cluster, table)

    (compaction,) = json.loads(printed)["compactions"]
    assert len(compaction["operations"]) == GROUPS, compaction
    check(table, before)


@pytest.mark.wide
def test_a_worker_is_killed_under_the_daemon(
    written: HudiTable, archive: Path, cluster: Cluster, tmp_path: Path
) -> None:
    """The same for its job."""
    cluster.fill()
    table = written.copy_to(tmp_path / "tables" / "t")
    before = files(table)
    held = Held(tmp_path / "held", archive)
    config = tmp_path / "lakeward.toml"
    conf = "".join(f'"{key}" = "{value}"\n' for key, value in held.conf.items())
    config.write_text(
        f'[service]\nstate_folder = "{tmp_path}/state"\n[locks]\nwriters = "stopped"\n'
        f'[discovery]\nroots = ["{tmp_path}/tables"]\n[defaults]\nservices = ["compaction"]\n'
        f'[defaults.planner]\n"hoodie.compact.inline.max.delta.commits" = 1\n'
        f'[spark]\nmaster = "{cluster.url}"\n[spark.conf]\n{conf}'
    )

    kill_the_worker(begin("run", "--once", "--config", str(config)), held, cluster, table)

    check(table, before)


PROGRAM = """
import sys
from pyspark.sql import SparkSession
import lakeward

url, archive, path = sys.argv[1:]
builder = SparkSession.builder.master(url).config("spark.archives", archive + "#lakeward")
builder = builder.config("spark.executorEnv.PYTHONPATH", "./lakeward").config("spark.ui.enabled", "false")
spark = builder.config("spark.executor.memory", "512m").getOrCreate()
table = lakeward.Table(path, timezone="UTC")
rows = lakeward.spark.read(spark, table, where="v like 'b%'", columns=["id"]).collect()
keys = spark.range(0, 50).selectExpr("concat('k', id) AS id")
located = lakeward.spark.record_locations(keys, table).where("file_id is not null").collect()
print(len(rows), len(located), len({row["file_id"] for row in located}))
"""


@pytest.mark.wide
def test_frames_of_a_program(written: HudiTable, archive: Path, cluster: Cluster) -> None:
    """A program of a user's own reads a table, and looks for keys, by executors that have the archive alone."""
    cluster.fill()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cluster.url, archive, written.path],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        | {"PYSPARK_PYTHON": BARE, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.split() == ["30", "40", str(GROUPS)]
