"""URLs of indexes in HBase."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.index.hbase.place import HBasePlace, parse_place


def test_a_url() -> None:
    assert parse_place("hbase://zk1,zk2:2182/trips") == HBasePlace(("zk1:2182", "zk2:2182"), "trips")
    assert parse_place("hbase://zk1:1,zk2:2/trips") == HBasePlace(("zk1:1", "zk2:2"), "trips")
    assert parse_place("hbase://zk/ns:trips?znode=/hbase-unsecure") == HBasePlace(
        ("zk:2181",), "ns:trips", "/hbase-unsecure"
    )
    assert parse_place("hbase://zk/default:trips") == HBasePlace(("zk:2181",), "trips")


@pytest.mark.parametrize(
    "url", ["hbase://zk", "hbase:///trips", "hbase://zk/a/b", "hbase://zk/t?parent=/x", "postgresql://zk/trips"]
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(UsageError, match="is no place of an index in HBase"):
        parse_place(url)
