"""The next choice of a table's indexes, of where its new keys go, or of tails of its logs, and what was found of them
since: manifests, created once.

When two processes change the same choice, one gets an error: what it uses is not what holds any more.

Touches: the folders of `index/tee`, `index/log_inserts` and `index/tail_choice`.
Keeps:   1. when two processes choose at once, one does, and the other one gets an error;
         2. a choice is never taken back by deleting: it is followed by another one;
         3. what was compared is put upon what it was compared of, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex

from lakeward.base.errors import Conflict
from lakeward.index.log_inserts import LOG_INSERTS_FORM, LogInserts, log_inserts_folder
from lakeward.index.manifest_form import M, ManifestForm, manifest_path
from lakeward.index.tail_choice import TAIL_CHOICE_FORM, TailChoice, tail_choice_folder
from lakeward.index.tee import TEE_FORM, ComparedCommit, Tee, tee_folder
from lakeward.protocol.creation import create_once
from lakeward.protocol.index.manifests import delete_unnamed, publish
from lakeward.storage.storage import Storage


def publish_choice(storage: Storage, base_path: str, read: Tee, choice: Tee) -> Tee:
    """Let this choice hold, as it is numbered then. Raises `Conflict` where another one than `read` does by now."""
    folder = tee_folder(base_path)
    if read == Tee():
        _begin(storage, folder, TEE_FORM, read)
    return _published(storage, folder, TEE_FORM, read, choice)


def publish_compared(storage: Storage, base_path: str, read: Tee, commits: Sequence[ComparedCommit]) -> Tee:
    """Remember what was found. Raises `Conflict` where another process compared or chose meanwhile.

    Args:
        commits: those that completed after what `read` has compared, in order of completion; one at least.
    """
    return _published(storage, tee_folder(base_path), TEE_FORM, read, read.with_compared(commits))


def publish_log_inserts(storage: Storage, base_path: str, read: LogInserts, said: LogInserts) -> LogInserts:
    """Let this hold, as it is numbered then. Raises `Conflict` where something else than `read` does by now."""
    return _following(storage, log_inserts_folder(base_path), LOG_INSERTS_FORM, read, said)


def publish_tail_choice(storage: Storage, base_path: str, read: TailChoice, choice: TailChoice) -> TailChoice:
    """Let this choice hold, as it is numbered then. Raises `Conflict` where another one than `read` does by now."""
    return _following(storage, tail_choice_folder(base_path), TAIL_CHOICE_FORM, read, choice)


def _following(storage: Storage, folder: str, form: ManifestForm[M], read: M, next_one: M) -> M:
    if read.number == 0:
        _begin(storage, folder, form, read)
    return _published(storage, folder, form, read, next_one)


def _begin(storage: Storage, folder: str, form: ManifestForm[M], read: M) -> None:
    storage.make_folder(folder)
    create_once(storage, manifest_path(folder, read.number), form.encode(read))


def _published(storage: Storage, folder: str, form: ManifestForm[M], read: M, next_one: M) -> M:
    def change(newest: M) -> M:
        if newest.number != read.number:
            raise Conflict(
                f"Another process changed {form.index} meanwhile, or what was found since.",
                why=f"{manifest_path(folder, newest.number)} is there.",
                remedy="See what holds now by the same command without options, and run it again.",
            )
        return next_one

    made = publish(storage, folder, form, read, change, by=token_hex(8))
    delete_unnamed(storage, folder, form)
    return made
