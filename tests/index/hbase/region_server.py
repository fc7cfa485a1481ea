"""A region server in this process, as HBase's own answers: the messages and cells of one table, and faults by order."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from lakeward.format.protobuf import Field, as_bytes, decode_message, encode_message, read_varint, write_varint

Row = dict[bytes, bytes]


def cell(row: bytes, qualifier: bytes, value: bytes, *, family: bytes = b"_s", kind: int = 4) -> bytes:
    key = struct.pack(">H", len(row)) + row + bytes([len(family)]) + family + qualifier + bytes(8) + bytes([kind])
    body = struct.pack(">ii", len(key), len(value)) + key + value
    return struct.pack(">i", len(body)) + body


def cells(rows: Sequence[tuple[bytes, Row]], family: bytes = b"_s") -> bytes:
    return b"".join(cell(key, name, row[name], family=family) for key, row in rows for name in sorted(row))


class RegionServer:
    """Has regions (start, end) and rows of `table`, and hbase:meta, all on one port."""

    def __init__(self, table: bytes, rows: dict[bytes, Row], regions: Sequence[tuple[bytes, bytes]]) -> None:
        self.table, self.rows, self.regions = table, rows, list(regions)
        self.faults: list[str | None] = []
        """What each next answer, but those about regions, is replaced by: an exception's class, or "gone" for a
        connection that ends; None: nothing."""
        self.calls: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as sent:
            assert sent.read(6) == b"HBas\x00\x50"
            sent.read(struct.unpack(">I", sent.read(4))[0])
            while size := sent.read(4):
                message = sent.read(struct.unpack(">I", size)[0])
                length, at = read_varint(message, 0)
                header = dict(decode_message(message[at : at + length]))
                length, at = read_varint(message, at + length)
                request = decode_message(message[at : at + length])
                answer = self._answer(int(header[1]), as_bytes(header[3]).decode(), request)
                if answer is None:
                    return
                connection.sendall(struct.pack(">I", len(answer)) + answer)

    def _answer(self, call: int, method: str, request: list[Field]) -> bytes | None:
        is_meta = method == "Scan" and b"hbase:meta" in as_bytes(request[0][1])
        self.calls.append("meta" if is_meta else method)
        fault = None if is_meta or not self.faults else self.faults.pop(0)
        if fault == "gone":
            return None
        if fault is not None:
            exception = encode_message([(1, f"org.apache.hadoop.hbase.{fault}".encode()), (2, b"it is elsewhere")])
            header = encode_message([(1, call), (2, exception)])
            return write_varint(len(header)) + header
        found = self._meta() if is_meta else cells(list(self._found(method, request)))
        header = encode_message([(1, call), (3, encode_message([(1, len(found))]))])
        return write_varint(len(header)) + header + write_varint(0) + found

    def _meta(self) -> bytes:
        rows = []
        for start, end in self.regions:
            name = self.table + b"," + start + b",1.0123."
            info = b"PBUF" + encode_message([(1, 1), (3, start), (4, end), (5, 0), (6, 0)])
            rows.append((name, {b"regioninfo": info, b"server": b"127.0.0.1:%d" % self.port}))
        return cells(rows, b"info")

    def _found(self, method: str, request: list[Field]) -> Iterator[tuple[bytes, Row]]:
        if method == "Multi":
            for _, region in request:
                for number, action in decode_message(as_bytes(region)):
                    if number == 3:
                        row = as_bytes(dict(decode_message(as_bytes(dict(decode_message(as_bytes(action)))[3])))[1])
                        if row in self.rows:
                            yield row, self.rows[row]
            return
        asked = dict(request)
        scan = dict(decode_message(as_bytes(asked[2])))
        start = as_bytes(scan[3])
        name = as_bytes(dict(decode_message(as_bytes(asked[1])))[2])
        end = next(end for first, end in self.regions if name.split(b",")[1] == first)
        there = [row for row in sorted(self.rows) if row >= start and (not end or row < end)]
        for row in there[:2]:  # whatever is asked for, so that answers are several
            yield row, self.rows[row]
