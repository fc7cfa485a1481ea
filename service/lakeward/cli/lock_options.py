"""The options by which a verb that writes is told about the table's other writers.

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lakeward.daemon.config import LockProvider


class NoWriters(StrEnum):
    STOPPED = "stopped"


WritersOption = Annotated[
    NoWriters | None,
    typer.Option(help="Your word that no other writer or table service is at work on this table now."),
]
LockOption = Annotated[
    LockProvider | None,
    typer.Option(help="Share the table with its writers through Hudi's lock provider of that name."),
]
LockZooKeeperOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT[,HOST:PORT]",
        help="With --lock zookeeper: the servers, as the writers have them in hoodie.write.lock.zookeeper.url.",
    ),
]
LockZooKeeperPathOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The writers' hoodie.write.lock.zookeeper.base_path. Without it the lock is where Hudi's "
        "ZookeeperBasedImplicitBasePathLockProvider has it.",
    ),
]
LockZooKeeperKeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="KEY", help="The writers' hoodie.write.lock.zookeeper.lock_key; default: the name of the table."
    ),
]
LockWaitOption = Annotated[
    str | None, typer.Option(metavar="DURATION", help="How long to wait for the table lock; default 60s.")
]
LockExpireOption = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="After how many minutes your writers let a lock expire "
        "(hoodie.write.lock.filesystem.expire). Without it a foreign lock never expires.",
    ),
]
