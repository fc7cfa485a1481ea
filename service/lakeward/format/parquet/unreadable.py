"""What is raised over the bytes of a base file, as the one error that names the file and what to do.

Touches: nothing.
Keeps:   what the storage failed with goes on as it is: it says nothing about the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakeward.base.errors import BrokenFile
from lakeward.format.parquet.pages import BadPage
from lakeward.storage.storage import is_of_storage


@contextmanager
def broken_if_unreadable(name: str) -> Iterator[None]:
    """Raise `BrokenFile` where the library, or who looks at pages and columns, cannot make sense of the file."""
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, BadPage) as broken:
        if is_of_storage(broken):
            raise
        raise BrokenFile(
            f"The base file {name} cannot be read.",
            why=f"It is not the Parquet file that its name says: {broken}.",
            remedy="Restore the file, or roll back the commit that wrote it.",
        ) from broken
