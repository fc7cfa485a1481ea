"""The entries of Hudi's index in HBase, as columns: a row for each record key.

    row: the record key   _s:commit_ts, _s:file_name (the file id), _s:partition_path

Touches: HBase, reading.
Keeps:   an entry that lacks a column is an error, as it is for Hudi, and no new key.
Source:  SparkHoodieHBaseIndex (Hudi 1.0.2)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, StoreUnavailable
from lakeward.format.protobuf import BrokenMessage, Field, FieldValue, as_bytes, decode_message, encode_message
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.hbase.cells import QUALIFIER, ROW, VALUE, decode_cells
from lakeward.index.hbase.place import HBasePlace
from lakeward.index.hbase.regions import Region, Regions, find_regions, region_specifier
from lakeward.index.hbase.rpc import Answer, CallRefused, Rpc, ServerFailed
from lakeward.index.location import FILE_ID, INSTANT, LOCATIONS, PARTITION_PATH, RECORD_KEY

FAMILY: Final = b"_s"
COLUMNS: Final = {PARTITION_PATH: b"partition_path", FILE_ID: b"file_name", INSTANT: b"commit_ts"}

_GETS = 2_000
"""Keys of one request to a server."""
_SCANNED = 5_000
"""Rows of one answer."""
_ANSWER_BYTES = 8 * 1024 * 1024
_NEXT = b"\0"
"""Behind a row: the first one that comes after it."""
_TRIES = 6
_PAUSE_SECONDS = 0.5
"""Doubled with each try, so that a region has a quarter of a minute to come back on another server."""
_PASSING = frozenset(
    {
        "CallQueueTooBigException",
        "NotServingRegionException",
        "PleaseHoldException",
        "RegionMovedException",
        "RegionOpeningException",
        "RegionServerAbortedException",
        "RegionServerStoppedException",
        "RegionTooBusyException",
        "RpcThrottlingException",
        "ServerNotRunningYetException",
        "UnknownScannerException",
    }
)
"""Answers that are others when the regions were looked up again."""

Answered = TypeVar("Answered")


class HBaseEntries:
    """One table, read by one thread, of which each region server has one connection. Not picklable."""

    def __init__(self, place: HBasePlace, *, user: str, limit: RateLimit, clock: Clock) -> None:
        self.place = place
        self._user = user
        self._limit = limit
        self._clock = clock
        self._regions: Regions | None = None
        self._connections: dict[tuple[str, int], Rpc] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget()

    def get(self, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        """The entries of these keys, as `LOCATIONS`, in no order. Raises `StoreUnavailable`, `NotFound` and
        `BrokenFile`."""
        rows = keys.unique().cast(pa.binary()).to_pylist()
        for start in range(0, len(rows), _GETS):
            some = rows[start : start + _GETS]
            self._limit.take(len(some))
            yield self._tried(partial(self._get, some))

    def scan(self) -> Iterator[pa.RecordBatch]:
        """All entries, as `LOCATIONS`, by key. Raises as `get` does."""
        start: bytes | None = b""
        while start is not None:
            entries, start = self._tried(partial(self._scan, start))
            if entries.num_rows:
                self._limit.take(entries.num_rows)
                yield entries

    def _get(self, rows: list[bytes]) -> pa.RecordBatch:
        by_region: dict[Region, list[bytes]] = defaultdict(list)
        for row in rows:
            by_region[self._known_regions().of(row)].append(row)
        by_server: dict[tuple[str, int], list[Region]] = defaultdict(list)
        for region in by_region:
            by_server[region.server].append(region)
        found = []
        for server, regions in by_server.items():
            actions = [(1, _region_action(region, by_region[region])) for region in regions]
            answer = self._connection(server).call("Multi", encode_message(actions))
            _check_answered(answer)
            found.append(self._entries(answer))
        return pa.Table.from_batches(found, LOCATIONS).combine_chunks().to_batches()[0] if len(found) > 1 else found[0]

    def _scan(self, start: bytes) -> tuple[pa.RecordBatch, bytes | None]:
        """The first entries from a row on, and the row to go on from; None at the end."""
        region = self._known_regions().of(start)
        scan: list[Field] = [(1, _COLUMN), (3, start), (7, 1), (8, 0), (10, _ANSWER_BYTES), (17, _SCANNED)]
        region_field = region_specifier(region.name)
        request: list[Field] = [(1, region_field), (2, encode_message(scan)), (4, _SCANNED), (5, 1)]
        answer = self._connection(region.server).call("Scan", encode_message(request))
        entries = self._entries(answer)
        if entries.num_rows:
            return entries, entries[RECORD_KEY][-1].as_buffer().to_pybytes() + _NEXT
        return entries, region.end or None

    def _entries(self, answer: Answer) -> pa.RecordBatch:
        try:
            cells = decode_cells(answer.cells)
        except ValueError as error:
            raise BrokenFile(f"What HBase has in {self.place.shown} cannot be read.", why=str(error)) from error
        columns = {name: cells.filter(pc.equal(cells[QUALIFIER], column)) for name, column in COLUMNS.items()}
        rows = columns[PARTITION_PATH][ROW]
        if any(not each[ROW].equals(rows) for each in columns.values()):
            raise BrokenFile(
                f"An entry in {self.place.shown} lacks a column.",
                why=f"Each of Hudi's has {', '.join(sorted(column.decode() for column in COLUMNS.values()))}.",
                remedy="Name the table of the index; if it is, delete the row there, and the next write adds its key.",
            )
        try:
            values = [rows.cast(pa.string()), *(columns[name][VALUE].cast(pa.string()) for name in COLUMNS)]
        except pa.ArrowInvalid as error:
            raise BrokenFile(f"What HBase has in {self.place.shown} is no text.", why=str(error)) from error
        return pa.RecordBatch.from_arrays(values, schema=LOCATIONS)

    def _tried(self, ask: Callable[[], Answered]) -> Answered:
        pause = _PAUSE_SECONDS
        for left in reversed(range(_TRIES)):
            try:
                return ask()
            except (BrokenMessage, CallRefused, ServerFailed) as error:
                self._forget()
                if not left or (isinstance(error, CallRefused) and error.kind not in _PASSING):
                    raise StoreUnavailable(
                        f"The index in HBase does not answer: {self.place.shown}.",
                        why=f"{error}.",
                        remedy="Look whether HBase is up and lets this machine in; Kerberos is not supported.",
                    ) from error
                self._clock.sleep(pause)
                pause *= 2
        raise AssertionError("the last try raises")

    def _known_regions(self) -> Regions:
        if self._regions is None:
            self._regions = find_regions(self.place, user=self._user)
        return self._regions

    def _connection(self, server: tuple[str, int]) -> Rpc:
        if server not in self._connections:
            self._connections[server] = Rpc(*server, user=self._user)
        return self._connections[server]

    def _forget(self) -> None:
        self._regions = None
        for connection in self._connections.values():
            with suppress(OSError):
                connection.close()
        self._connections.clear()


_COLUMN = encode_message([(1, FAMILY), *((2, column) for column in sorted(COLUMNS.values()))])


def _region_action(region: Region, rows: list[bytes]) -> bytes:
    gets = [encode_message([(1, row), (2, _COLUMN)]) for row in rows]
    actions = [(3, encode_message([(1, at), (3, get)])) for at, get in enumerate(gets)]
    return encode_message([(1, region_specifier(region.name)), *actions])


def _check_answered(answer: Answer) -> None:
    """Raises `CallRefused` for an action, or a region of them, that the server did not carry out."""
    for result in answer.of(1):
        fields = decode_message(as_bytes(result))
        for number, value in fields:
            if number == 2:
                raise _refused(value)
            inner = dict(decode_message(as_bytes(value)))
            if 3 in inner:
                raise _refused(inner[3])


def _refused(value: FieldValue) -> CallRefused:
    pair = dict(decode_message(as_bytes(value)))
    return CallRefused(as_bytes(pair.get(1, b"")).decode(), as_bytes(pair.get(2, b"")).decode("utf-8", "replace"))
