"""Let logs of a table get tails, or no longer, and how many of its logs have one.

Touches: the folder of `index/tail_choice`; the end of each log of the newest slices, reading.
See:     docs/decisions/0155-tails-of-logs.md
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakeward.base.paths import join
from lakeward.format.log.log_tail import read_log_tail
from lakeward.index.tail_choice import TailChoice, check_can_have_tails, read_tail_choice
from lakeward.protocol.index.choices import publish_tail_choice
from lakeward.read.newest_slice import newest_slice
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class TailCounts:
    """How many of the logs of the newest slices have a tail."""

    logs: int = 0
    log_bytes: int = 0
    with_tail: int = 0
    with_tail_bytes: int = 0


def choose_tails(storage: Storage, snapshot: TableSnapshot, *, are_written: bool) -> TailChoice:
    """Let logs have tails, or no longer. Raises `Refused` where they can have none, and `Conflict`."""
    if are_written:
        check_can_have_tails(snapshot.base_path, snapshot.config)
    choice = read_tail_choice(storage, snapshot.base_path)
    if choice.are_written == are_written:
        return choice
    return publish_tail_choice(storage, snapshot.base_path, choice, replace(choice, are_written=are_written))


def count_tails(storage: Storage, snapshot: TableSnapshot) -> TailCounts:
    """Reads the end of each log. Raises `NotFound`."""
    slices = [slice_ for group in snapshot.file_groups if (slice_ := newest_slice(group.slices)) is not None]
    logs = [log for slice_ in slices for log in slice_.row_logs]
    with_tail = [log for log in logs if _has_tail(storage, join(snapshot.base_path, log.path), log.size)]
    return TailCounts(
        logs=len(logs),
        log_bytes=sum(log.size for log in logs),
        with_tail=len(with_tail),
        with_tail_bytes=sum(log.size for log in with_tail),
    )


def _has_tail(storage: Storage, path: str, size: int) -> bool:
    with storage.open_input(path) as file:
        return read_log_tail(file, size) is not None
