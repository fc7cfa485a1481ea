"""The address at which a daemon listens: its host, and whether others reach it.

Touches: nothing.
"""

from __future__ import annotations

import ipaddress


def is_loopback(listen: str) -> bool:
    """Whether no machine but this one reaches the address."""
    host = host_of(listen)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(address: str) -> str:
    """`host`, `host:port`, `[::1]:port`: without the port, in lower case."""
    text = address.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def local_address(listen: str) -> str:
    """Host and port by which a process on the same machine reaches what listens there."""
    host, _, port = listen.rpartition(":")
    everywhere = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
    return f"{everywhere.get(host, host)}:{port}"
