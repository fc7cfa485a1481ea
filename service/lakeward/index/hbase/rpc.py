"""A connection to one of HBase's servers: a request and its answer, one after the other.

    -> "HBas" 0 80, int32 length, ConnectionHeader
    -> int32 length, varint length, RequestHeader, varint length, request
    <- int32 length, varint length, ResponseHeader, varint length, response, cells

Cells come behind the message that speaks of them, as `cells` reads them. The server believes the name that it is given:
one that wants Kerberos ends the connection.

Touches: the network.
Source:  RPC.proto, NettyRpcConnection (HBase 2.4)
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Self

from lakeward.format.protobuf import (
    BrokenMessage,
    Field,
    FieldValue,
    as_bytes,
    decode_message,
    encode_message,
    read_varint,
    write_varint,
)

ANSWER_SECONDS = 60.0
"""HBase's own client waits so long for an answer (hbase.rpc.timeout)."""
_ANSWER_BYTES_MAX = 512 * 1024 * 1024
_PREAMBLE = b"HBas\x00\x50"
_CELLS_AS = b"org.apache.hadoop.hbase.codec.KeyValueCodec"


class ServerFailed(Exception):
    """The server, or what is between, does not answer; its text says why."""


class CallRefused(Exception):
    """The server answers that it does not do it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text.splitlines()[0] if text else 'no reason is given'}")
        self.kind = kind.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Answer:
    fields: tuple[Field, ...]
    cells: memoryview

    def of(self, number: int) -> list[FieldValue]:
        return [value for field, value in self.fields if field == number]


class Rpc:
    """Used by one thread. Not usable any more once it raised `ServerFailed`."""

    def __init__(self, host: str, port: int, *, user: str) -> None:
        """Raises `ServerFailed`."""
        self.server = f"{host}:{port}"
        self._calls = count(1)
        try:
            self._socket = socket.create_connection((host, port), timeout=ANSWER_SECONDS)
            header = encode_message([(1, encode_message([(1, user.encode())])), (2, b"ClientService"), (3, _CELLS_AS)])
            self._socket.sendall(_PREAMBLE + struct.pack(">I", len(header)) + header)
        except OSError as error:
            raise ServerFailed(f"{self.server}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, request: bytes) -> Answer:
        """Raises `CallRefused` and `ServerFailed`."""
        number = next(self._calls)
        header = encode_message([(1, number), (3, method.encode()), (4, 1)])
        message = write_varint(len(header)) + header + write_varint(len(request)) + request
        try:
            self._socket.sendall(struct.pack(">I", len(message)) + message)
            answer = self._receive(struct.unpack(">I", self._receive(4))[0])
            return _read_answer(answer, number)
        except (OSError, BrokenMessage) as error:
            self.close()
            raise ServerFailed(f"{self.server}: {error}") from error

    def _receive(self, size: int) -> bytearray:
        if size > _ANSWER_BYTES_MAX:
            raise BrokenMessage(f"an answer of {size} bytes is no answer of HBase")
        found = bytearray(size)
        view, at = memoryview(found), 0
        while at < size:
            received = self._socket.recv_into(view[at:])
            if not received:
                raise ConnectionResetError("it ended the connection, as it does where it wants Kerberos")
            at += received
        return found


def _read_answer(data: bytearray, number: int) -> Answer:
    whole = bytes(data)
    header, at = _message(whole, 0)
    fields = dict(header)
    if (exception := fields.get(2)) is not None:
        said = dict(decode_message(as_bytes(exception)))
        raise CallRefused(as_bytes(said.get(1, b"")).decode(), as_bytes(said.get(2, b"")).decode("utf-8", "replace"))
    if fields.get(1) != number:
        raise BrokenMessage(f"the answer is to call {fields.get(1)!r}, and not to {number}")
    message, at = _message(whole, at)
    cells = int(dict(decode_message(as_bytes(fields[3]))).get(1, 0)) if 3 in fields else 0
    if at + cells != len(whole):
        raise BrokenMessage("its lengths contradict each other")
    return Answer(tuple(message), memoryview(whole)[at:])


def _message(data: bytes, at: int) -> tuple[list[Field], int]:
    size, at = read_varint(data, at)
    if size > len(data) - at:
        raise BrokenMessage("the answer is cut short")
    return decode_message(data[at : at + size]), at + size
