"""A process that does with the lock in ZooKeeper what its standard input says, line by line, and answers.

python -m tests.protocol.lock.lock_process URL BASE_PATH SESSION_SECONDS

acquire   -> held                 release     -> released
fence     -> own | lost           work FILE   -> worked   (ten times: take it, have FILE alone, release it)
"""

from __future__ import annotations

import os
import sys

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LockLost
from lakeward.protocol.lock.zookeeper_lock import ZooKeeperLock
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions
from lakeward.protocol.owner import Processes
from lakeward.storage.local import LocalStorage


def main(url: str, base_path: str, session_seconds: str) -> None:
    options = ZooKeeperLockOptions(url, base_path, "orders", session_seconds=float(session_seconds))
    lock = ZooKeeperLock(LocalStorage(), "/data/orders", Processes().new_owner(), options, clock=SystemClock())
    for line in sys.stdin:
        match line.split():
            case ["acquire"]:
                lock.acquire()
                answer = "held"
            case ["fence"]:
                try:
                    lock.fence()
                    answer = "own"
                except LockLost:
                    answer = "lost"
            case ["release"]:
                lock.release()
                answer = "released"
            case ["work", path]:
                for _ in range(10):
                    with lock:
                        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                        lock.fence()
                        os.unlink(path)
                answer = "worked"
            case _:
                raise ValueError(line)
        print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
