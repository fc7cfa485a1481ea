"""Whether the master of a standalone cluster answers, asked before a driver is started for it.

Spark itself tries for a minute, prints the traces of its tries and then fails over something else; how often it tries
is fixed in its code. Other masters than `spark://` are left to Spark: behind them stand configuration files and proxies
that only it knows.

A connection proves little: other servers accept one, and so does the kernel for a process that hangs. So the master is
asked for a file that it does not have, the one request that every server of Spark's answers, before any authentication
and without a line in its log. Frames are those of Spark's network-common: a length of 8 bytes, which counts itself, the
kind of the message in one byte, and the message.

Touches: connections to the hosts that the master's URL names, closed at once; a thread for each host.
Keeps:   1. of several hosts, asked side by side, one that answers is enough;
         2. a master that does not answer is reported within `ANSWER_SECONDS`, however many hosts there are;
         3. what answers and is no server of Spark's is called that.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from queue import Empty, SimpleQueue
from typing import Final
from urllib.parse import urlsplit

from lakeward.base.errors import EngineAway, UsageError
from lakeward.base.printable import printable_url

ANSWER_SECONDS: Final = 10.0
"""For all hosts together."""
_SCHEME: Final = "spark://"

_REQUEST, _NO_SUCH_FILE = 6, 8  # StreamRequest, StreamFailure
_FILE: Final = b"files/lakeward-asks-who-answers"
_QUESTION: Final = struct.pack(">qBi", 8 + 1 + 4 + len(_FILE), _REQUEST, len(_FILE)) + _FILE
_HEAD: Final = struct.Struct(">qB")
_ANSWER_BYTES_MAX: Final = 64 * 1024


def check_master(master: str, *, seconds: float = ANSWER_SECONDS) -> None:
    """Raises `UsageError` for a URL without a port, and `EngineAway` where none of its hosts answers in time."""
    if not master.startswith(_SCHEME):
        return
    shown = printable_url(master)
    hosts = [_host_and_port(address, shown) for address in master.removeprefix(_SCHEME).split(",")]
    until, silence = time.monotonic() + seconds, f"no answer within {seconds:g} s"
    answers: SimpleQueue[tuple[int, str]] = SimpleQueue()

    def ask(number: int, host: str, port: int) -> None:
        # A little less time than there is, so that what is found at the last moment is heard.
        answers.put((number, _fault_of(host, port, until=until - seconds / 20, silence=silence)))

    for number, place in enumerate(hosts):
        # A name may take long to resolve, which no time limit reaches: these threads are not waited for.
        threading.Thread(target=ask, args=(number, *place), name="lakeward-spark-master", daemon=True).start()
    faults = [silence] * len(hosts)
    for _ in hosts:
        try:
            number, fault = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        if not fault:
            return
        faults[number] = fault
    raise EngineAway(
        f"No Spark master answers at {shown}.",
        why="; ".join(f"{host}:{port}: {fault}" for (host, port), fault in zip(hosts, faults, strict=True)) + ".",
        remedy="See that it runs, and that its name and port are right (--master, spark.master): the port is that of "
        "spark://, 7077 by default, and not that of its page; `--engine local` merges on this machine, without Spark. "
        "Nothing was started.",
    )


def _fault_of(host: str, port: int, *, until: float, silence: str) -> str:
    """What is wrong with this host; empty where a server of Spark's answers."""
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for what can be no host's name
        return getattr(error, "strerror", None) or str(error)
    fault = silence
    for tried, (family, kind, protocol, _, address) in enumerate(places):
        # An address that is a black hole (the one of IPv6, often) leaves the others their share of the time.
        share = (until - time.monotonic()) / (len(places) - tried)
        try:
            with socket.socket(family, kind, protocol) as connection:
                connection.settimeout(max(share, 0.001))
                connection.connect(address)
                return _fault_behind(connection, until=until)
        except TimeoutError:
            fault = silence
        except OSError as error:
            fault = error.strerror or str(error)
    return fault


def _fault_behind(connection: socket.socket, *, until: float) -> str:
    try:
        connection.sendall(_QUESTION)
        length, kind = _HEAD.unpack(_read(connection, _HEAD.size, until))
        if kind == _NO_SUCH_FILE:
            # To the end, since a connection that is closed with bytes unread is an exception in the master's log.
            _read(connection, min(length - _HEAD.size, _ANSWER_BYTES_MAX), until)
            return ""
    except TimeoutError:
        return "it accepts connections and does not answer"
    except (OSError, EOFError):
        pass  # it hung up on a question that it does not know
    return "what listens there is no Spark master"


def _read(connection: socket.socket, size: int, until: float) -> bytes:
    read = b""
    while len(read) < size:
        connection.settimeout(max(until - time.monotonic(), 0.001))
        more = connection.recv(size - len(read))
        if not more:
            raise EOFError
        read += more
    return read


def _host_and_port(address: str, shown: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"{_SCHEME}{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise UsageError(
            f"{shown} is no URL of a Spark master.",
            why=f"{printable_url(_SCHEME + address)} has no host with a port.",
            remedy="Give it as spark://HOST:7077; several masters as spark://HOST1:7077,HOST2:7077.",
        )
    return host, port
