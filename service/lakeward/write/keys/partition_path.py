"""The partition path of a row: its partition columns' values, one below the other.

    value of one column     its text; null and empty are __HIVE_DEFAULT_PARTITION__
    url-encoded             reserved characters as % and two digits; blanks and letters of any language stay
    hive style              column= before the text, before the default one too
    slashes in dates        every - becomes /, where there is one column: 2024/03/04
    several columns         joined by /
    no column               the empty path

A text with a / in it makes deeper folders where it is not url-encoded, as Hudi has it. Refused is a path that would not
be a folder of the table of this name: with an empty part, `.` or `..`, or of more than 255 bytes, or where it begins
with a dot as Hudi's own folder does, and one whose first part has a colon, which Hudi cannot read.

Touches: nothing.
Keeps:   every path is that of a folder inside of the table, which released Hudi makes of the same values.
Source:  KeyGenUtils.getPartitionPath and PartitionPathEncodeUtils of Hudi 1.2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import UsageError
from lakeward.table.table_config import HOODIE_FOLDER
from lakeward.write.keys.value_text import value_text

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"

_RESERVED: Final = (*map(chr, range(1, 0x20)), *"\"#%'*/:=?\x7f\\{[]^")
_ESCAPES: Final = str.maketrans({reserved: f"%{ord(reserved):02X}" for reserved in _RESERVED})

_NAME_BYTES_MAX: Final = 255
"""The limit of local file systems and HDFS. Object stores take more, but from there no table could be copied."""


@dataclass(frozen=True, slots=True)
class PathStyle:
    hive: bool = False
    url_encoded: bool = False
    slashes_in_dates: bool = False

    def part(self, field: str, value: str | None, *, is_only: bool) -> str:
        """The part of a path that a value gives.

        Args:
            is_only: the path is made of this column alone.
        """
        text = value or DEFAULT_PARTITION
        if self.url_encoded:
            text = text.translate(_ESCAPES)
        if self.hive:
            text = f"{field}={text}"
        return text.replace("-", "/") if self.slashes_in_dates and is_only else text


def path_parts(column: pa.Array, field: str, style: PathStyle, *, is_only: bool) -> pa.DictionaryArray:
    """A column's part of the paths, each distinct value once; null stands for no index."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
    texts = value_text(encoded.dictionary, field).to_pylist()
    parts = pa.array([style.part(field, text, is_only=is_only) for text in texts], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, parts)


def check_paths(paths: pa.StringArray, *, rows_before: int) -> None:
    """Raises `UsageError` with the number of the first row, from 1, whose path is none.

    Args:
        rows_before: how many rows of the input came before these.
    """
    for path in pc.unique(paths).to_pylist():
        if why := _trouble(path):
            row = rows_before + pc.index(paths, pa.scalar(path)).as_py() + 1
            raise UsageError(
                f"Row {row} has no partition that can be written: its path would be {path!r}.",
                why=why,
                remedy="Mend or leave out such rows, or write them with Hudi into a table that url-encodes its paths.",
            )


def _trouble(path: str) -> str:
    parts = path.split("/")
    if (longest := max(len(part.encode()) for part in parts)) > _NAME_BYTES_MAX:
        return f"A part of it has {longest} bytes, and a folder's name at most {_NAME_BYTES_MAX}."
    if path == "":
        return ""
    if "" in parts or "." in parts or ".." in parts:
        return "A part of it is empty, . or .., which names no folder of its own."
    if HOODIE_FOLDER in parts:
        return f"{HOODIE_FOLDER} is the folder of what Hudi keeps of a table itself; Hudi looks for no rows in it."
    if ":" in parts[0]:
        return "Hudi takes what stands before a colon in the first part for the scheme of a URL, and fails."
    if "\0" in path:
        return "It has a zero character."
    return ""
