"""The ZooKeeper lock as an operator states it: which servers, which place, how long to wait.

They stand apart from the lock itself, because every command reads them and few commands need ZooKeeper's client.

Touches: nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SERVER = re.compile(r"(?:[^\s,:/@\[\]]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class ZooKeeperLockOptions:
    """The place in which the writers keep the lock, in the words of their `hoodie.write.lock.zookeeper.*`."""

    url: str
    """`host:port,host:port`, after which a `/path` may say where everything is."""
    base_path: str | None = None
    """None: the place is derived from the table's base path, as Hudi's implicit provider does."""
    lock_key: str | None = None
    """The key below `base_path`; None: the table's name."""
    session_seconds: float = 60.0
    """How long the server keeps the lock of a holder that it does not hear of; the server may set bounds to it."""
    wait_seconds: float = 60.0


def check_servers(url: str) -> None:
    """Raises `ValueError` for what is no list of servers."""
    servers, _, path = url.partition("/")
    for server in servers.split(","):
        found = _SERVER.fullmatch(server)
        if found is None or int(found["port"] or 0) > 65535:
            raise ValueError("Servers are written like zk1:2181,zk2:2181,zk3:2181.")
    if path:
        check_node_path(f"/{path}")


def check_node_path(path: str) -> None:
    """Raises `ValueError` for what ZooKeeper, or Hudi, would not take as `base_path`."""
    names = path.split("/")[1:]
    if not path.startswith("/") or not all(names) or {".", ".."} & set(names) or "\0" in path:
        raise ValueError("A path in ZooKeeper is written like /hudi/locks, without a slash at its end.")
