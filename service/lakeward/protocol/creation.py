"""Create a file once, with all of its content, and read before acting where a reply was lost.

Touches: the file that is created, and nothing that was there before.
Keeps:   1. a create that ended in anything but success is read before anything else happens;
         2. a file that exists with other content is never taken for the one written here.
"""

from __future__ import annotations

from lakeward.base.errors import AlreadyExists, Conflict, LakewardError, NotFound, OutcomeUnknown
from lakeward.storage.storage import Storage


def create(storage: Storage, path: str, content: bytes) -> None:
    """Create the file; one that is there already is another process's, whatever it holds."""
    try:
        storage.create(path, content)
    except AlreadyExists:
        raise
    except (LakewardError, OSError) as error:
        confirm(storage, path, content, error)


def create_once(storage: Storage, path: str, content: bytes) -> None:
    """Create the file, or see that it is there with this content, whichever process created it."""
    try:
        storage.create(path, content)
    except (LakewardError, OSError) as error:
        confirm(storage, path, content, error)


def confirm(storage: Storage, path: str, content: bytes, error: Exception) -> None:
    """A create failed: return if it arrived all the same, raise what is true otherwise."""
    try:
        found = storage.read(path)
    except NotFound:
        raise error from None
    except (LakewardError, OSError) as second:
        raise OutcomeUnknown(
            f"It is not known whether {path} was created.",
            why=f"The create failed ({error}) and so did the read afterwards ({second}).",
            remedy="Run the command again when the storage answers; it reads first. Nothing was deleted.",
        ) from error
    if found != content:
        raise error


def changed_meanwhile(path: str) -> Conflict:
    return Conflict(
        f"{path} changed while it was held under the table lock.",
        why="Another process wrote it, which takes no lock or another one.",
        remedy="See that all writers of the table use one lock provider, and run the command again.",
    )


def read_if_there(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except NotFound:
        return None
