"""The next choice of a table's indexes, and what a comparison under one found: each created once.

    read the choice N -> create N + 1       it exists: another process chose meanwhile, and this one begins again
    a comparison under N, run M             it exists: another process compared the same commits, and its word stays

Touches: the folder of `index/tee`.
Keeps:   1. of two processes that choose at once one does, and the other one is told;
         2. a choice is never taken back by deleting: it is followed by another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.commit.creation import create
from lakeward.errors import AlreadyExists, Conflict
from lakeward.index.tee import (
    ChosenIndexes,
    ComparedCommit,
    Tee,
    choice_path,
    compared_path,
    encode_choice,
    encode_compared,
    list_tee,
    tee_folder,
)
from lakeward.storage.storage import Storage


def publish_choice(storage: Storage, base_path: str, choice: ChosenIndexes) -> None:
    """Let this choice hold, which follows the one before it. Raises `Conflict` where another one does."""
    path = choice_path(base_path, choice.number)
    storage.make_folder(tee_folder(base_path))
    try:
        create(storage, path, encode_choice(choice))
    except AlreadyExists:
        raise Conflict(
            "Another process chose the table's indexes meanwhile.",
            why=f"{path} is there.",
            remedy="See what holds now with `lakeward index tee TABLE`, and run the command again.",
        ) from None
    _forget(storage, base_path, before=choice.number)


def publish_compared(storage: Storage, base_path: str, under: Tee, commits: Sequence[ComparedCommit]) -> bool:
    """Remember what was found; False where another process compared the same meanwhile."""
    path = compared_path(base_path, under.choice.number, under.runs + 1)
    try:
        create(storage, path, encode_compared(commits))
    except AlreadyExists:
        return False
    return True


def _forget(storage: Storage, base_path: str, *, before: int) -> None:
    """Delete what was compared under choices that hold no more: it counts for nothing."""
    _, runs = list_tee(storage, base_path)
    for choice, numbers in runs.items():
        if choice < before:
            for number in numbers:
                storage.delete(compared_path(base_path, choice, number))
