"""Let logs of a table get tails, or no longer.

Touches: the folder of `index/tail_choice`.
See:     docs/decisions/0155-tails-of-logs.md
"""

from __future__ import annotations

from dataclasses import replace

from lakeward.index.tail_choice import TailChoice, check_can_have_tails, read_tail_choice
from lakeward.protocol.index.choices import publish_tail_choice
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


def choose_tails(storage: Storage, snapshot: TableSnapshot, *, are_written: bool) -> TailChoice:
    """Let logs have tails, or no longer. Raises `Refused` where they can have none, and `Conflict`."""
    if are_written:
        check_can_have_tails(snapshot.base_path, snapshot.config)
    choice = read_tail_choice(storage, snapshot.base_path)
    if choice.are_written == are_written:
        return choice
    return publish_tail_choice(storage, snapshot.base_path, choice, replace(choice, are_written=are_written))
