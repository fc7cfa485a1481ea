"""Temporary files of a merge: what is said when they cannot be written.

Touches: nothing itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from lakeward.base.errors import SpillFailed

SPILL_PREFIX = "lakeward-spill-"


@contextmanager
def spilling(what: str, folder: str | None) -> Iterator[None]:
    """Raises `SpillFailed` in place of the system's own errors, which know neither the folder nor what it was for.

    Args:
        what: is written, in the plural: "hashes of keys".
        folder: as `tempfile` takes it: None is the system's.
    """
    try:
        yield
    except OSError as error:
        raise SpillFailed(
            f"The {what} do not fit memory and could not be written to the folder {folder or _system_folder()}.",
            why=f"{error.strerror or error}.",
            remedy="Nothing was published. Make room there, or name a folder on another disk in TMPDIR where the "
            "operation runs, or allow it more memory; then run it again.",
        ) from error


def _system_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "for temporary files, of which there is none"
