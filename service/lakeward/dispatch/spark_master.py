"""Whether the master of a standalone cluster answers, asked before a driver is started for it.

Spark itself tries for a minute, prints the traces of its tries and then fails over something else. Other masters than
`spark://` are left to Spark: behind them stand configuration files and proxies that only it knows.

Touches: connections to the hosts that the master's URL names, closed at once.
Keeps:   a master that does not answer is reported within `CONNECT_SECONDS` for each of its hosts.
"""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

from lakeward.errors import LakewardError, UsageError
from lakeward.printable import printable_url

CONNECT_SECONDS: Final = 5.0
_SCHEME: Final = "spark://"


def check_master(master: str) -> None:
    """Raises `UsageError` for a URL without a port, and `LakewardError` where none of its hosts answers."""
    if not master.startswith(_SCHEME):
        return
    shown, failures = printable_url(master), []
    for address in master.removeprefix(_SCHEME).split(","):
        host, port = _host_and_port(address, shown)
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise LakewardError(
        f"The Spark master {shown} cannot be reached.",
        why=f"{'; '.join(failures)}.",
        remedy="See that it runs, and that its name and port are right (--master, spark.master); `--local` merges on "
        "this machine, without Spark. Nothing was started.",
    )


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
