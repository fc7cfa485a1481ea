"""The next choice of a table's indexes, and what a comparison found of them: manifests, created once.

When two processes change the same choice, one gets an error: what it uses is not what holds any more.

Touches: the folder of `index/tee`.
Keeps:   1. when two processes choose at once, one does, and the other one gets an error;
         2. a choice is never taken back by deleting: it is followed by another one;
         3. what was compared is put upon what it was compared of, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex

from lakeward.base.errors import Conflict
from lakeward.index.manifest_form import manifest_path
from lakeward.index.tee import TEE_FORM, ComparedCommit, Tee, tee_folder
from lakeward.protocol.creation import create_once
from lakeward.protocol.index.manifests import delete_unnamed, publish
from lakeward.storage.storage import Storage


def publish_choice(storage: Storage, base_path: str, read: Tee, choice: Tee) -> Tee:
    """Let this choice hold, as it is numbered then. Raises `Conflict` where another one than `read` does by now."""
    folder = tee_folder(base_path)
    if read == Tee():
        storage.make_folder(folder)
        create_once(storage, manifest_path(folder, read.number), TEE_FORM.encode(read))
    return _published(storage, base_path, read, choice)


def publish_compared(storage: Storage, base_path: str, read: Tee, commits: Sequence[ComparedCommit]) -> Tee:
    """Remember what was found. Raises `Conflict` where another process compared or chose meanwhile.

    Args:
        commits: those that completed after what `read` has compared, in order of completion; one at least.
    """
    return _published(storage, base_path, read, read.with_compared(commits))


def _published(storage: Storage, base_path: str, read: Tee, next_one: Tee) -> Tee:
    folder = tee_folder(base_path)

    def change(newest: Tee) -> Tee:
        if newest.number != read.number:
            raise Conflict(
                "Another process chose the table's indexes meanwhile, or compared them.",
                why=f"{manifest_path(folder, newest.number)} is there.",
                remedy="See what holds now with `lakeward index tee TABLE`, and run the command again.",
            )
        return next_one

    made = publish(storage, folder, TEE_FORM, read, change, by=token_hex(8))
    delete_unnamed(storage, folder, TEE_FORM)
    return made
