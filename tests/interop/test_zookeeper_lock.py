"""Hudi's own lock in ZooKeeper and Lakeward's: one queue for both."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LockHeld
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.protocol.lock.zookeeper_lock import ZooKeeperLock, implicit_base_path
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions
from lakeward.protocol.owner import Processes
from lakeward.storage.local import LocalStorage
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.servers import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.services, pytest.mark.slow]

PROVIDERS = "org.apache.hudi.client.transaction.lock"


class Place:
    """A lock in the server, that Lakeward's and Curator's clients want."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self.server = server
        self.base_path = f"/{uuid.uuid4().hex}"
        self.client = server.client()

    def lock(self, wait_seconds: float = 30.0) -> ZooKeeperLock:
        options = ZooKeeperLockOptions(self.server.url, self.base_path, "t", wait_seconds=wait_seconds)
        return ZooKeeperLock(LocalStorage(), "/t", Processes().new_owner(), options, clock=SystemClock())

    @property
    def queue(self) -> list[str]:
        path = f"{self.base_path}/t"
        names = self.client.get_children(path) if self.client.exists(path) else []
        return sorted(names, key=lambda name: name[-10:])

    def wait_for_queue(self, length: int) -> None:
        for _ in range(600):
            if len(self.queue) == length:
                return
            threading.Event().wait(0.05)
        raise AssertionError(self.queue)

    def hudi_options(self, provider: str = "ZookeeperBasedLockProvider") -> dict[str, str]:
        options = {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.clean.failed.writes.policy": "LAZY",
            "hoodie.write.lock.provider": f"{PROVIDERS}.{provider}",
            "hoodie.write.lock.zookeeper.url": self.server.url,
            # No more than that is needed, though Hudi's documentation asks for it: no code reads it.
            "hoodie.write.lock.zookeeper.port": "1",
        }
        if provider == "ZookeeperBasedLockProvider":
            options["hoodie.write.lock.zookeeper.base_path"] = self.base_path
        return options


class InBackground:
    """Something that blocks, on a thread of its own. What it raised is raised by `join`."""

    def __init__(self, what: Any) -> None:
        self._what = what
        self._error: BaseException | None = None
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(120)
        if self._error is not None:
            raise self._error
        assert self.done.is_set()

    def _run(self) -> None:
        try:
            self._what()
            self.done.set()
        except BaseException as error:
            self._error = error


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Iterator[Place]:
    place = Place(zookeeper)
    yield place
    place.client.stop()
    place.client.close()


@pytest.fixture
def curator(spark: SparkSession, place: Place) -> Iterator[Any]:
    """Makes mutexes of the Curator that Hudi's bundle holds. A mutex belongs to the thread that took it."""
    shaded = spark._jvm.org.apache.hudi.org.apache.curator
    framework = shaded.framework.CuratorFrameworkFactory.newClient(place.server.url, shaded.retry.RetryNTimes(3, 100))
    framework.start()
    yield lambda: shaded.framework.recipes.locks.InterProcessMutex(framework, f"{place.base_path}/t")
    framework.close()


def seconds(spark: SparkSession) -> Any:
    return spark._jvm.java.util.concurrent.TimeUnit.SECONDS


def test_who_comes_first_has_it(spark: SparkSession, place: Place, curator: Any) -> None:
    """Curator and Lakeward come in turns: each waits for the one before, whatever is written to its node, and then has
    it."""
    order: list[str] = []
    let_go = {name: threading.Event() for name in ("second", "third", "fourth")}

    def own(name: str) -> None:
        with place.lock() as lock:
            order.append(name)
            lock.fence()
            let_go[name].wait(30)

    def curators(name: str) -> None:
        mutex = curator()
        assert mutex.acquire(60, seconds(spark))
        order.append(name)
        let_go[name].wait(30)
        mutex.release()

    first = curator()
    assert first.acquire(10, seconds(spark))
    with pytest.raises(LockHeld), place.lock(wait_seconds=0.5):
        pass
    queued = []
    for number, (wait, name) in enumerate([(own, "second"), (curators, "third"), (own, "fourth")]):
        queued.append(InBackground(lambda wait=wait, name=name: wait(name)))
        place.wait_for_queue(number + 2)

    assert order == []
    first.release()
    for length, name in ((3, "second"), (2, "third"), (1, "fourth")):
        place.wait_for_queue(length)
        threading.Event().wait(0.3)
        assert order[-1] == name
        let_go[name].set()
    for each in queued:
        each.join()
    assert order == ["second", "third", "fourth"]
    assert place.queue == []


def test_curator_gives_up_while_own_holds(spark: SparkSession, place: Place, curator: Any) -> None:
    """Our node stays, which is still proved to be this process's."""
    with place.lock() as lock:
        assert not curator().acquire(1, seconds(spark))
        lock.fence()
        assert len(place.queue) == 1
    mutex = curator()
    assert mutex.acquire(10, seconds(spark))
    mutex.release()


@pytest.mark.parametrize(
    "formatted", ["/data/lake/orders", "s3a://b/orders", "S3A://b/o", "hdfs://nn:8020/ö", "file:/x"]
)
def test_the_derived_place_is_hudis(spark: SparkSession, formatted: str) -> None:
    """Hudi's own code says it."""
    provider = spark._jvm.org.apache.hudi.client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider
    assert implicit_base_path(formatted) == provider.getLockBasePath(formatted)


def rows(spark: SparkSession, first: int, last: int, ts: int, value: str) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, {ts}L AS ts, concat('{value}', id) AS v FROM range({first}, {last})"
    )


def values(table: HudiTable) -> dict[str, str]:
    found = [json.loads(row) for row in table.snapshot(with_meta=False)]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


def timeline(table: HudiTable) -> set[str]:
    return {
        path.name for path in (table.path / ".hoodie" / "timeline").iterdir() if path.is_file() and path.name[0] != "."
    }


@pytest.mark.turns(31)
def test_a_writer_waits_for_us(
    spark: SparkSession, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upsert of Hudi's in optimistic concurrency mode does not even begin while we hold the lock. Then compactions
    beside it, with the same lock: what a writer commits while we merge is there afterwards."""
    table = HudiTable(spark, tmp_path / "table", TableShape(options=place.hudi_options()))
    table.write(rows(spark, 0, 40, 10, "a"), "insert")
    before = timeline(table)

    with place.lock() as lock:
        upsert = InBackground(lambda: table.write(rows(spark, 5, 15, 11, "b"), "upsert"))
        place.wait_for_queue(2)
        assert not upsert.done.wait(3)
        assert timeline(table) == before
        lock.fence()
    upsert.join()
    assert len(timeline(table) - before) == 3

    merge = SparkDispatcher.run
    landed: list[str] = []

    def merge_and_write(dispatcher: SparkDispatcher, *arguments: Any, **options: Any) -> Any:
        merged = merge(dispatcher, *arguments, **options)
        if not landed and table.pending_instants():
            landed.append("")
            table.write(rows(spark, 10, 20, 12, "c"), "upsert")
        return merged

    monkeypatch.setattr(SparkDispatcher, "run", merge_and_write)
    with_lock = ("--lock", "zookeeper", "--lock-zookeeper", place.server.url)
    explicit = (*with_lock, "--lock-zookeeper-path", place.base_path)
    compact(table, *explicit)
    assert landed
    assert values(table) == {f"k{n}": f"{'c' if 10 <= n < 20 else 'b' if 5 <= n < 10 else 'a'}{n}" for n in range(40)}

    with place.lock():
        exit_code, _ = lakeward("compact", str(table.path), "--type", "full", *explicit, "--lock-wait", "1s")
    assert exit_code == 5
    compact(table, *explicit)
    assert table.read_optimized() == table.snapshot()
    assert place.queue == []
    assert not (table.path / ".hoodie" / "lock").exists()


@pytest.mark.turns
def test_a_writer_that_derives_the_place(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Its base path, as Spark hands it over, gives the same place as Lakeward's; before it has ever written, we
    refuse."""
    table = HudiTable(spark, tmp_path / "table", TableShape())
    table.write(rows(spark, 0, 40, 10, "a"), "insert")
    words = ("--type", "full", "--lock", "zookeeper", "--lock-zookeeper", place.server.url)
    assert lakeward("compact", str(table.path), *words)[0] == 2

    options = place.hudi_options("ZookeeperBasedImplicitBasePathLockProvider")
    table.write(rows(spark, 5, 15, 11, "b"), "upsert", **options)

    assert place.client.exists(f"{implicit_base_path(str(table.path))}/lock_key")
    compact(table, *words)
    assert values(table) == {f"k{n}": f"{'b' if 5 <= n < 15 else 'a'}{n}" for n in range(40)}
