"""Are the logs that queries read whole? Every block head of the newest slices' logs, without merging anything.

A file may be as long as its commit says and broken within. Which of its blocks are sound is seen without reading what
they hold; of a native log the footer is read, without which no reader reads it. Logs of groups that are frozen are not
read: their damage is reported already.

Touches: reads block heads and footers; writes nothing and takes no lock.
Keeps:   1. damage is reported only if a fresh snapshot still has that log, and it is damaged still;
         2. a failed read ends the check, and a log that a cleaner removes meanwhile is not checked: neither is damage;
         3. a block that we could not merge is no damage; one of a form that is not known is a problem, since nothing
            behind it was looked at, and readers of Hudi's that do not know it either fail.
Memory:  one block head or footer at a time, and what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from lakeward.base.errors import NotFound, Unsupported
from lakeward.read.logs.log_scan import broken_log, find_block_damage
from lakeward.services.verification.check_report import Check, CheckReport, Problem
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.file_group import LogFile
from lakeward.table.snapshot import TableSnapshot

LOGS = "logs"


def check_logs(storage: Storage, snapshot: TableSnapshot, snapshot_now: Callable[[], TableSnapshot]) -> CheckReport:
    """`snapshot_now` gives the table as it is now; asked where something is found."""
    if snapshot.config.layout < 2:
        # A log that grows keeps the torn block of a writer that died; nothing is wrong with it then.
        return CheckReport(notes=("Blocks of logs are not checked: in a table of this version, torn ones are lawful.",))
    logs = _logs_of(snapshot)
    found = _Found(storage, snapshot.base_path)
    found.read(logs)
    damage = found.damage
    if damage:
        again = _Found(storage, snapshot.base_path)
        damaged = {file.path for file in damage}
        again.read(sorted((log for log in _logs_of(snapshot_now()) if log.path in damaged), key=lambda log: log.path))
        damage = again.damage
    problems = tuple(Problem(LOGS, file.path, f"{file.what}.", file.remedy) for file in damage)
    return CheckReport((Check(LOGS, found.checked, len(logs), "log files"),), problems)


class _Found:
    """The result of reading the heads of some logs."""

    def __init__(self, storage: Storage, base_path: str) -> None:
        self._storage = storage
        self._base_path = base_path
        self.damage: list[DamagedFile] = []
        self.checked = 0

    def read(self, logs: Iterable[LogFile]) -> None:
        for log in logs:
            # What is gone since the snapshot is not counted as checked.
            with suppress(NotFound):
                self._read_one(log)

    def _read_one(self, log: LogFile) -> None:
        try:
            for damaged in find_block_damage(self._storage, self._base_path, log.path):
                self.damage.append(damaged)
            self.checked += 1
        except Unsupported as error:
            self.damage.append(broken_log(log.path, error))  # and not counted as checked


def _logs_of(snapshot: TableSnapshot) -> list[LogFile]:
    """Logs that queries read; logs of changes are none."""
    return [
        log
        for group in snapshot.file_groups
        for slice_ in group.read_slices
        for log in slice_.log_files
        if not log.name.is_cdc
    ]
