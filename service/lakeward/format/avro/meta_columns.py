"""The columns that Hudi's writers put into each row by themselves.

Touches: nothing.
"""

from __future__ import annotations

from typing import Final

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)

OPERATION_COLUMN: Final = "_hoodie_operation"
