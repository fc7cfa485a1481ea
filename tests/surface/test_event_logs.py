from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import UsageError
from lakeward.state.migration import migrate
from lakeward.state.store import Store, open_store
from lakeward.storage.storage_of_url import open_storage
from lakeward.surface.event_logs import EventLogReads, lines_of
from lakeward.table.listing_source import listing_source
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SettableClock
from tests.daemon.synthetic_status import NOW
from tests.golden_tables import copy_golden
from tests.scan.test_spark_event_log import STARTED, execution, lines, scan

LOG = "local-1796117776815"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    migrate(url := f"sqlite:///{tmp_path}/lakeward.db")
    with closing(open_store(url, clock=SettableClock(NOW))) as opened:
        yield opened


@pytest.fixture
def orders(tmp_path: Path) -> str:
    return str(copy_golden("v9", tmp_path / "orders"))


def reads_in(store: Store, orders: str, *, not_readers: tuple[str, ...] = ()) -> EventLogReads:
    def snapshot(base_path: str) -> TableSnapshot:
        (storage, place), listing, clock = open_storage(base_path), listing_source(base_path), SettableClock(NOW)
        return take_snapshot(storage, place, timezone="UTC", clock=clock, listing=listing)

    return EventLogReads(
        reads=store.reads,
        tables={"orders": orders, "gone": f"{orders}-gone", "trips": "s3://lake/trips"},
        not_readers=lambda name, base_path: not_readers,
        snapshot=snapshot,
        clock=SettableClock(NOW),
    )


def write(path: Path, *scans: dict[str, object], at: float = NOW - 60, started: dict[str, object] = STARTED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines(started, execution(*scans, at=at))))
    return path


def counted(store: Store, table: str = "orders") -> dict[str, int]:
    return {each.partition_path: each.reads for each in store.reads.days(table, since_day=0)}


def test_partitions_that_queries_asked_for_are_counted_once(store: Store, orders: str, tmp_path: Path):
    """However often a log is given, and in each way to write the table's place."""
    log = write(tmp_path / "logs" / LOG, scan(f"file:{orders}", "[(part#3 = p)]"), scan("s3a://lake/trips/"))
    first = reads_in(store, orders).count([log])
    again = reads_in(store, orders).count([tmp_path / "logs"])

    assert (first.reads, dict(first.counted), first.problems) == (2, {"orders": 1, "trips": 1}, [])
    assert (again.reads, +again.counted) == (2, {})
    assert (counted(store), counted(store, "trips")) == ({"p": 1}, {"*": 1})


def test_what_does_not_count_is_said(store: Store, orders: str, tmp_path: Path):
    """Reads of other tables, of writers and Lakeward's own, and those of which the store forgot whether it has them."""
    write(tmp_path / "logs/a", scan("/elsewhere"), scan(orders, "[(part#3 = no-such)]"))
    write(tmp_path / "logs/b", scan(orders), started={**STARTED, "App Name": "etl-nightly"})
    write(tmp_path / "logs/c", scan(orders), started={**STARTED, "App Name": "Lakeward"})
    write(tmp_path / "logs/d", scan(orders), at=NOW - 86_401)
    learned = reads_in(store, orders, not_readers=("ETL-*",)).count([tmp_path / "logs"])

    assert (learned.applications, learned.reads) == (4, 1)
    assert (learned.not_watched, learned.not_readers, learned.too_old) == (1, 2, 1)
    assert counted(store) == {}


def test_what_cannot_be_read_is_named_and_the_rest_is_counted(store: Store, orders: str, tmp_path: Path):
    """A table that is gone, a log that is none (Keeps 2 of surface/event_logs)."""
    write(tmp_path / "logs/a", scan(f"{orders}-gone", "[(part#3 = p)]"), scan(orders))
    (tmp_path / "logs/b").write_bytes(b'"SparkListenerApplicationStart" no JSON\n')
    (tmp_path / "logs/c.lz4").write_bytes(b"x")
    learned = reads_in(store, orders).count([tmp_path / "logs"])

    assert counted(store) == {"*": 1}
    assert len(learned.problems) == 3
    assert "zstd" in learned.problems[2].remedy
    assert "orders-gone" in str(learned.problems[0])
    with pytest.raises(UsageError, match="nothing at"):
        reads_in(store, orders).count([tmp_path / "no-such"])


def test_rolled_and_compressed_logs_are_read_in_their_order(store: Store, orders: str, tmp_path: Path):
    """The first of an application's files alone says who runs it."""
    folder = tmp_path / "logs" / "eventlog_v2_app-1"
    folder.mkdir(parents=True)
    (folder / "appstatus_app-1.inprogress").write_bytes(b"")
    (folder / "events_2_app-1").write_bytes(b"".join(lines(execution(scan(orders), at=NOW))))
    with pa.output_stream(folder / "events_1_app-1.zstd", compression="zstd") as file:
        file.write(b"".join(lines({**STARTED, "User": "lakeward"})))
    assert reads_in(store, orders).count([tmp_path / "logs"]).not_readers == 1


def test_a_log_that_is_still_written_ends_where_it_is_complete(tmp_path: Path):
    """Lines come one after the other, out of compressed files, too (Keeps 1 of surface/event_logs)."""
    (plain := tmp_path / "app.inprogress").write_bytes(b"one\ntwo\nthr")
    assert list(lines_of(plain)) == [b"one\n", b"two\n"]

    sink = io.BytesIO()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(b"one\n" * 1_000_000)
        out.flush()
        whole = sink.getvalue()
    (cut := tmp_path / "app.zstd.inprogress").write_bytes(whole[: len(whole) - 3])
    assert set(lines_of(cut)) <= {b"one\n"}
    broken = cut.rename(tmp_path / "app.zstd")
    with pytest.raises(OSError, match=r".+"):
        list(lines_of(broken))
