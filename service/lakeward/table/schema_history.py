"""The versions of a table's schema (`.hoodie/.schema`), where a writer has used schema on read.

Hudi writes them as it does instants: a file without content when a change is requested and when it is under way, and
one with all versions so far when it is done. So the newest of these has them all, and a change that died shows, too.

Touches: storage, reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.format.schema_history import SchemaVersion, read_schema_history
from lakeward.storage.storage import Storage, join
from lakeward.table.table_config import hoodie_folder

SCHEMA_FOLDER = ".schema"

_COMPLETED = re.compile(r"(?P<time>\d+)_\d+\.schemacommit")
_BEGUN = re.compile(r"(?P<time>\d+)\.schemacommit\.(requested|inflight)")


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    versions: tuple[SchemaVersion, ...] = ()
    """Newest first."""
    problem: str | None = None
    """Why they cannot be relied on, in a sentence, or None."""


def load_schema_history(storage: Storage, base_path: str) -> SchemaHistory | None:
    """None where there is none."""
    folder = join(hoodie_folder(base_path), SCHEMA_FOLDER)
    names = [entry.name for entry in storage.list(folder) if not entry.name.endswith(".crc")]
    if not names:
        return None
    completed = {match["time"]: name for name in names if (match := _COMPLETED.fullmatch(name)) is not None}
    begun = {match["time"] for name in names if (match := _BEGUN.fullmatch(name)) is not None}
    unknown = [name for name in names if not (_COMPLETED.fullmatch(name) or _BEGUN.fullmatch(name))]
    if unknown or not completed or max(begun, default="") > max(completed):
        return SchemaHistory(problem=f"{unknown[0] if unknown else max(names)} is not a change that is complete.")
    file = completed[max(completed)]
    try:
        return SchemaHistory(read_schema_history(storage.read(join(folder, file)), file=f".hoodie/.schema/{file}"))
    except (BrokenFile, NotFound) as error:
        return SchemaHistory(problem=str(error))
