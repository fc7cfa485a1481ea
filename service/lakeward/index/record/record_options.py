"""The place of record indexes, and how they are asked: what an operator chooses, and may change at any time.

Touches: nothing; it loads no kernels, so that a process which reads settings has none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakeward.base.paths import join
from lakeward.index.out_of_use import FOLDER
from lakeward.table.table_config import hoodie_folder

SCAN_FROM: Final = 0.35
"""The share of a file's entries that is looked up from which on the file is scanned."""
_NAME: Final = "record"


class LookupMode(Enum):
    DYNAMIC = "dynamic"
    SEEK = "seek"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class LookupOptions:
    mode: LookupMode = LookupMode.DYNAMIC
    scan_from: float = SCAN_FROM
    """For `dynamic`: keys that are looked up by entries of the file, from which on it is scanned."""

    def mode_for(self, *, entries: int, keys: int) -> LookupMode:
        """The mode for a file of so many entries, of which so many keys are looked up."""
        if self.mode is not LookupMode.DYNAMIC:
            return self.mode
        return LookupMode.SCAN if keys >= self.scan_from * entries else LookupMode.SEEK


LOOKUP_OPTIONS: Final = LookupOptions()


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The place of the record indexes of tables, and how they are asked."""

    location: str | None = None
    """A folder outside of the tables, of the same storage, for the indexes of many; None: below each table."""
    lookup: LookupOptions = LOOKUP_OPTIONS

    def folder(self, base_path: str) -> str:
        if self.location is None:
            return join(hoodie_folder(base_path), FOLDER, _NAME)
        digest = hashlib.sha256(base_path.encode()).hexdigest()[:16]
        return join(self.location.rstrip("/"), f"{base_path.rstrip('/').rpartition('/')[2]}-{digest}")


RECORD_OPTIONS: Final = RecordOptions()
