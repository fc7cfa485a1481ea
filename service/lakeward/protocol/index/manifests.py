"""The manifests of an index of Lakeward: the next one is created once, and what none names any more is deleted.

    read N -> write files, named by N -> create N + 1
              it exists -> read the newest, put the change upon that, create the one after; after `REBASES` numbers
                           the attempt is over, and its files are what no manifest will ever name

So a file that no manifest names can go once the newest manifest is more than `REBASES` numbers later than its name
says: no attempt can publish it any more. Manifests stay for an hour and as long as they are among the last ones, so
that lookups which began with one find its files; and with a manifest those stay that it is read by.

Touches: the folder of the index.
Keeps:   1. no manifest is replaced, and none is made twice; a reply that is lost is followed by reading;
         2. a file is deleted only if no manifest that is kept names it, and none can any more;
         3. a manifest that is kept can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeward.base.errors import AlreadyExists, BrokenFile, IndexMoved, NotFound
from lakeward.base.paths import join
from lakeward.index.manifest_form import DATA_FOLDER, M, ManifestForm, list_manifests, manifest_path
from lakeward.protocol.creation import create
from lakeward.storage.storage import Storage

REBASES: Final = 16
KEPT: Final = 16
KEPT_SECONDS: Final = 3600.0


def publish(storage: Storage, folder: str, form: ManifestForm[M], read: M, change: Callable[[M], M], *, by: str) -> M:
    """Make the change the newest manifest. Raises `IndexMoved` where others are always faster, and what `change` does.

    Args:
        read: the manifest that the change was made with.
        change: puts the change upon a manifest. Raises an error of Lakeward where that one does not bear it.
        by: the token of the attempt.
    """
    current = read
    while current.number < read.number + REBASES:
        new = change(current).numbered(current.number + 1, by=by)
        content = form.encode_next(storage, folder, new, after=current)
        path = manifest_path(folder, new.number)
        try:
            create(storage, path, content)
            _check_is_new(storage, folder, new.number)
            return new
        except AlreadyExists:
            # A store may try again by itself after a reply that was lost, and find what it had created.
            if _is(storage, path, content):
                return new
        newest = _newest(storage, folder, form)
        assert newest.number >= new.number, "that one exists"
        current = newest
    raise IndexMoved(
        "The index is changed by other processes all the time.",
        why=f"{REBASES} manifests came between.",
        remedy="Run the command again.",
    )


def delete_unnamed(storage: Storage, folder: str, form: ManifestForm[M]) -> None:
    """Delete manifests that nothing uses any more, and files that none of the others names."""
    manifests = list_manifests(storage, folder)
    if not manifests:
        return
    newest = manifests[max(manifests)]
    kept_from = min(
        number
        for place, (number, status) in enumerate(reversed(manifests.items()))
        if place < KEPT or status.modified >= newest.modified - KEPT_SECONDS
    )
    try:
        named, read = form.named(storage, folder, (number for number in manifests if number >= kept_from))
    except BrokenFile:
        return  # what it names is not known; once it is no longer kept, the rest goes
    for status in storage.list(join(folder, DATA_FOLDER)):
        made_from = form.number_of(status.name)
        if made_from is None or f"{DATA_FOLDER}/{status.name}" in named or status.is_folder:
            continue
        if made_from + REBASES < max(manifests):
            storage.delete(status.path)
    for number, status in manifests.items():
        if number < kept_from and number not in read:
            storage.delete(status.path)


def _check_is_new(storage: Storage, folder: str, made: int) -> None:
    """Raises `IndexMoved` where the manifest that was made follows none, or had been there before, and was deleted."""
    # t0 we read manifest 7, and sleep; t1 the index is built again, or others make 8 to 40, and after an hour 7 or 8
    # are deleted, 7 not where later ones are read by it; t2 we make 8, that nothing uses. One is deleted only with
    # `KEPT` later ones there; so many are not made between our two calls.
    there = list_manifests(storage, folder)
    newest = max(there, default=made)
    if made - 1 in there and newest < made + KEPT:
        return
    found = f"there is a manifest {newest} already" if newest > made else "the one before it is gone"
    raise IndexMoved(
        "The index is not changed: it was built again, or the attempt took longer than manifests are kept.",
        why=f"The manifest {made} was made, and {found}.",
        remedy="Run the command again.",
    )


def _is(storage: Storage, path: str, content: bytes) -> bool:
    try:
        return storage.read(path) == content
    except NotFound:
        return False


def _newest(storage: Storage, folder: str, form: ManifestForm[M]) -> M:
    for _ in range(REBASES):
        try:
            newest = form.read_newest(storage, folder)
        except NotFound:
            continue  # it was deleted after the listing, since later ones came
        if newest is not None:
            return newest
        break
    raise IndexMoved(
        "The index went while it was changed.",
        why=f"There is no manifest in {folder} any more: another process dropped it, or built it again.",
        remedy="Run the command again.",
    )
