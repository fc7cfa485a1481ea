"""Which server has which rows of a table of HBase.

    ZooKeeper <znode>/meta-region-server -> the server of hbase:meta -> its rows of the table: a region each

Touches: ZooKeeper and the server of hbase:meta, reading.
Keeps:   the regions of a table have all rows once, or it is refused: what lies in a gap would count as new.
Source:  ZooKeeper.proto, HBase.proto, MetaTableAccessor (HBase 2.4)
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from lakeward.base.errors import NotFound, StoreUnavailable
from lakeward.format.protobuf import BrokenMessage, as_bytes, decode_message, encode_message
from lakeward.index.hbase.cells import QUALIFIER, ROW, VALUE, decode_cells
from lakeward.index.hbase.place import HBasePlace
from lakeward.index.hbase.rpc import Rpc, ServerFailed

_META = b"hbase:meta,,1"
_PROTOBUF = b"PBUF"
_ROWS_MAX = 100_000
"""Regions of one table: more are no index."""
_CONNECT_SECONDS = 15.0

# What matters of the client's own words is in our errors; an application that sets logging up hears them all.
logging.getLogger("kazoo").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Region:
    name: bytes
    start: bytes
    end: bytes
    """Empty: the last one."""
    server: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Regions:
    """All of a table, by their start."""

    all: tuple[Region, ...]

    def of(self, row: bytes) -> Region:
        return self.all[bisect_right(self.all, row, key=lambda each: each.start) - 1]


def find_regions(place: HBasePlace, *, user: str) -> Regions:
    """Raises `ServerFailed`, also while a region moves; `StoreUnavailable` where ZooKeeper does not answer, and
    `NotFound` for a table that is not there."""
    host, port = _meta_server(place)
    table = place.table.encode()
    with Rpc(host, port, user=user) as rpc:
        scan = encode_message(
            [
                (1, encode_message([(1, b"info"), (2, b"regioninfo"), (2, b"server")])),
                (3, table + b",,"),
                (4, table + b" ,,"),
                (17, _ROWS_MAX),
            ]
        )
        answer = rpc.call("Scan", encode_message([(1, region_specifier(_META)), (2, scan), (4, _ROWS_MAX), (5, 1)]))
    try:
        cells = decode_cells(answer.cells)
    except ValueError as error:
        raise ServerFailed(f"{host}:{port}: {error}") from error
    infos = _column(cells, b"regioninfo")
    servers = _column(cells, b"server")
    regions = sorted(
        (region for row, info in infos.items() if (region := _region(row, info, servers.get(row)))),
        key=lambda each: each.start,
    )
    if not infos:
        raise NotFound(
            f"HBase has no table {place.table}.",
            why=f"Its ZooKeeper is {', '.join(place.servers)}; hbase:meta lists no region of the table.",
            remedy="Name what the writers have as hoodie.index.hbase.table, with its namespace.",
        )
    starts, ends = [each.start for each in regions], [each.end for each in regions]
    if not regions or starts[0] or ends[-1] or any(end != start for end, start in zip(ends, starts[1:], strict=False)):
        raise ServerFailed(f"{host}:{port}: the regions of {place.table} do not have all rows now, or overlap")
    return Regions(tuple(regions))


def region_specifier(name: bytes) -> bytes:
    return encode_message([(1, 1), (2, name)])


def _meta_server(place: HBasePlace) -> tuple[str, int]:
    node = f"{place.znode}/meta-region-server"
    client = KazooClient(hosts=",".join(place.servers), timeout=_CONNECT_SECONDS, read_only=True)
    try:
        client.start(timeout=_CONNECT_SECONDS)
        data, _ = client.get(node)
    except NoNodeError as error:
        raise ServerFailed(f"ZooKeeper at {', '.join(place.servers)} has no {node}") from error
    except KazooTimeoutError as error:
        raise StoreUnavailable(
            f"HBase's ZooKeeper does not answer: {', '.join(place.servers)}.",
            why=f"It had {_CONNECT_SECONDS:.0f} s to do so.",
            remedy="Name what the writers have as hoodie.index.hbase.zkquorum and .zkport.",
        ) from error
    except (KazooException, OSError) as error:
        raise ServerFailed(f"ZooKeeper at {', '.join(place.servers)}: {error or type(error).__name__}") from error
    finally:
        client.stop()
        client.close()
    _, found, message = data.partition(_PROTOBUF)
    try:
        if not found:
            raise BrokenMessage("it has no message")
        server = dict(decode_message(as_bytes(dict(decode_message(message))[1])))
        return as_bytes(server[1]).decode(), int(server[2])
    except (BrokenMessage, KeyError, ValueError) as error:
        raise ServerFailed(f"ZooKeeper at {', '.join(place.servers)}: {node} cannot be read: {error}") from error


def _column(cells: pa.RecordBatch, qualifier: bytes) -> dict[bytes, bytes]:
    some = cells.filter(pc.equal(cells[QUALIFIER], qualifier))
    return dict(zip(some[ROW].to_pylist(), some[VALUE].to_pylist(), strict=True))


def _region(name: bytes, info: bytes, server: bytes | None) -> Region | None:
    """None for one that was split or is a copy of another."""
    try:
        fields = dict(decode_message(info.removeprefix(_PROTOBUF)))
    except BrokenMessage as error:
        raise ServerFailed(f"hbase:meta: what it says of {name!r} cannot be read: {error}") from error
    if fields.get(5) or fields.get(6) or fields.get(7):
        return None
    host, _, port = (server or b"").decode().rpartition(":")
    if not host:
        raise ServerFailed(f"hbase:meta: {name!r} is on no server now")
    return Region(name, as_bytes(fields.get(3, b"")), as_bytes(fields.get(4, b"")), (host, int(port)))
