"""What only a base file itself can say about whether it may be rewritten.

Touches: storage, reading the footer of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.format.parquet.footer import is_encrypted, read_ending
from lakeward.storage.storage import Storage, join
from lakeward.table.file_group import BaseFile


@dataclass(frozen=True, slots=True)
class BaseFileFacts:
    path: str
    broken: str | None
    """Why the file is no readable Parquet, or None."""
    is_encrypted: bool = False


def read_base_file_facts(storage: Storage, base_path: str, base: BaseFile) -> BaseFileFacts:
    """Read the footer of a file that was listed a moment ago. One that is gone meanwhile was cleaned, and nothing is
    wrong with it."""
    try:
        with storage.open_input(join(base_path, base.path)) as file:
            tail, footer = read_ending(file, base.size, file=base.path)
        encrypted = is_encrypted(tail, footer, file=base.path)
    except NotFound:
        return BaseFileFacts(base.path, None)
    except BrokenFile as error:
        return BaseFileFacts(base.path, str(error))
    return BaseFileFacts(base.path, None, encrypted)
