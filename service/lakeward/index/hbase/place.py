"""The place of an index in HBase: the cluster's ZooKeeper, and the table.

    hbase://zk1,zk2:2181/trips_index                 what Hudi's writers have as hoodie.index.hbase.zkquorum, .zkport
                                                     and .table
    hbase://zk1:2181/ns:trips_index?znode=/hbase     .zknode.path, where it is not `/hbase`

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from lakeward.base.errors import UsageError

SCHEME = "hbase://"
_PORT = "2181"
_EXAMPLE = "hbase://zk1,zk2:2181/trips_index"


@dataclass(frozen=True, slots=True)
class HBasePlace:
    servers: tuple[str, ...]
    """ZooKeeper's, each with its port."""
    table: str
    """With its namespace, unless that is `default`."""
    znode: str = "/hbase"

    @property
    def shown(self) -> str:
        return f"{SCHEME}{','.join(self.servers)}/{self.table}"


def parse_place(url: str) -> HBasePlace:
    """Raises `UsageError`."""
    parts = urlsplit(url)
    named = [each for each in parts.netloc.split(",") if each]
    table = unquote(parts.path.strip("/"))
    query = parse_qs(parts.query)
    znodes = query.pop("znode", ["/hbase"])
    if not url.startswith(SCHEME) or not named or not table or "/" in table or query or len(znodes) != 1:
        raise UsageError(
            f"{url!r} is no place of an index in HBase.",
            why="It names the servers of HBase's ZooKeeper, and the table of the index.",
            remedy=f"Write it as {_EXAMPLE}, with ?znode=PATH where HBase is not below /hbase.",
        )
    port = named[-1].rpartition(":")[2] if ":" in named[-1] else _PORT
    servers = tuple(each if ":" in each else f"{each}:{port}" for each in named)
    return HBasePlace(servers, table.removeprefix("default:"), "/" + znodes[0].strip("/"))
