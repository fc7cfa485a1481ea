"""Entries of an index in HBase: of a server in this process, which moves regions and dies by order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, NotFound, StoreUnavailable
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.hbase import regions
from lakeward.index.hbase.hbase_entries import HBaseEntries
from lakeward.index.hbase.place import HBasePlace
from lakeward.index.hbase.rpc import ServerFailed
from lakeward.index.location import LOCATIONS
from tests.clocks import SkippingClock
from tests.index.hbase.region_server import RegionServer

PLACE = HBasePlace(("zk:2181",), "trips")


def entry(number: int) -> dict[bytes, bytes]:
    return {b"commit_ts": b"2026", b"file_name": b"group-%d" % number, b"partition_path": b"p%d" % (number % 2)}


KEYS = [f"key-{number:02}" for number in range(9)]
LOCATED = [
    dict(zip(LOCATIONS.names, (key, f"p{number % 2}", f"group-{number}", "2026"), strict=True))
    for number, key in enumerate(KEYS)
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegionServer]:
    rows = {key.encode(): entry(number) for number, key in enumerate(KEYS)}
    with RegionServer(b"trips", rows, [(b"", b"key-03"), (b"key-03", b"key-05"), (b"key-05", b"")]) as running:
        monkeypatch.setattr(regions, "_meta_server", lambda place: ("127.0.0.1", running.port))
        yield running


@pytest.fixture
def table(server: RegionServer) -> Iterator[HBaseEntries]:
    clock = SkippingClock()
    with HBaseEntries(PLACE, user="test", limit=RateLimit(None, clock=clock), clock=clock) as opened:
        yield opened


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, str]]:
    return pa.Table.from_batches(batches, LOCATIONS).to_pylist()


def test_a_scan_goes_through_all_regions(table: HBaseEntries, server: RegionServer) -> None:
    assert rows(table.scan()) == LOCATED
    server.rows.clear()
    assert rows(table.scan()) == []


def test_a_row_right_behind_the_last_of_an_answer(table: HBaseEntries, server: RegionServer) -> None:
    server.rows[b"key-01\0"] = entry(1)
    assert len(rows(table.scan())) == 10


def test_keys_are_asked_for_at_once(table: HBaseEntries, server: RegionServer) -> None:
    asked = pa.array(["key-04", "none", "key-08", "key-00", "key-04"])
    assert sorted(rows(table.get(asked)), key=str) == [LOCATED[0], LOCATED[4], LOCATED[8]]
    assert server.calls == ["meta", "Multi"]


@pytest.mark.parametrize("fault", ["NotServingRegionException", "exceptions.RegionMovedException", "gone"])
def test_a_region_that_moves_is_looked_up_again(table: HBaseEntries, server: RegionServer, fault: str) -> None:
    server.faults = [None, fault, None, fault, fault]
    assert rows(table.scan()) == LOCATED
    server.faults = [fault]
    assert rows(table.get(pa.array(["key-04"]))) == [LOCATED[4]]


def test_a_server_that_stays_away(table: HBaseEntries, server: RegionServer) -> None:
    server.faults = ["gone"] * 100
    with pytest.raises(StoreUnavailable, match="does not answer"):
        rows(table.scan())
    assert server.calls.count("Scan") == 6


def test_an_answer_that_is_no_passing_one_is_final(table: HBaseEntries, server: RegionServer) -> None:
    server.faults = ["security.AccessDeniedException"]
    with pytest.raises(StoreUnavailable, match="AccessDeniedException: it is elsewhere"):
        rows(table.get(pa.array(["key-04"])))
    assert server.calls.count("Multi") == 1


def test_an_entry_without_a_column_is_broken(table: HBaseEntries, server: RegionServer) -> None:
    del server.rows[b"key-04"][b"commit_ts"]
    with pytest.raises(BrokenFile, match="An entry in hbase://zk:2181/trips lacks a column"):
        rows(table.scan())


def test_a_gap_between_regions_is_not_read_over(table: HBaseEntries, server: RegionServer) -> None:
    del server.regions[1]
    with pytest.raises(StoreUnavailable, match="do not have all rows"):
        rows(table.scan())
    with pytest.raises(ServerFailed):
        regions.find_regions(PLACE, user="test")


def test_a_table_that_is_not_there(table: HBaseEntries, server: RegionServer) -> None:
    server.regions.clear()
    with pytest.raises(NotFound, match="HBase has no table trips"):
        rows(table.scan())
