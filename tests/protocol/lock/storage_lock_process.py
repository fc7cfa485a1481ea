"""A process that takes the lock in an object store ten times, each time alone with a file.

python -m tests.protocol.lock.storage_lock_process BASE_URL FILE
"""

from __future__ import annotations

import os
import sys

from lakeward.base.clock import SystemClock
from lakeward.protocol.lock import storage_lock
from lakeward.protocol.lock.lock_choice import open_lock
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.owner import Processes
from lakeward.storage.storage_of_url import open_storage


def main(location: str, path: str) -> None:
    storage_lock.POLL_SECONDS = 0.01
    storage, base_path = open_storage(location)
    processes = Processes()
    for _ in range(10):
        options = StorageLockOptions(wait_seconds=30.0)
        owner = processes.new_owner()
        with open_lock(storage, base_path, owner, options, clock=SystemClock(), processes=processes) as lock:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            lock.fence()
            os.unlink(path)
    print("worked", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
