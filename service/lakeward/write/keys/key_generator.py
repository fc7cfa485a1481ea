"""Record keys and partition paths of rows, as the table's key generator makes them.

    SIMPLE, TIMESTAMP       one key field: its value
    NON_PARTITION           one key field: its value; several: f1:v1,f2:v2
    COMPLEX                 f1:v1,f2:v2; of one key field f:v from version 9 on, below it f:v or the value
                            alone, by the release and the options of the table's writer

In the form f:v null is `__null__` and empty `__empty__`; , and : in values stay as they are. A row all of whose key
fields are null or empty has no key. Fields inside of structs are named with dots.

Touches: nothing.
Keeps:   1. a key or path that is returned is the one that released Hudi makes of the row;
         2. a table whose keys may have one of two forms is refused where it is not said which;
         3. every path is that of a folder inside of the table, which released Hudi makes of the same values.
Source:  KeyGenUtils and KeyGenerator of Hudi 1.2.0; KeyGenUtils.getPartitionPath and PartitionPathEncodeUtils of Hudi
         1.2.0
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Refused, Unsupported, UsageError
from lakeward.table.new_keys import DEFAULT_PARTITION, KeyGeneratorKind, generator_of
from lakeward.table.table_config import HOODIE_FOLDER, TableConfig
from lakeward.write.keys.timestamp_path import TimestampPaths, timestamp_paths
from lakeward.write.keys.value_text import value_text

"""What Hudi 1.2.0 records of the option above, which it does not record itself."""

_LAST_OF_TWO_FORMS: Final = 8
"""Up to this version tables with COMPLEX and one key field have either form."""

_RESERVED: Final = (*map(chr, range(1, 0x20)), *"\"#%'*/:=?\x7f\\{[]^")
_ESCAPES: Final = str.maketrans({reserved: f"%{ord(reserved):02X}" for reserved in _RESERVED})

_NAME_BYTES_MAX: Final = 255
"""The limit of local file systems and HDFS. Object stores take more, but from there no table could be copied."""


@dataclass(frozen=True, slots=True)
class PathStyle:
    """The partition path of a row: its partition columns' values, one below the other.

        value of one column     its text; null and empty are __HIVE_DEFAULT_PARTITION__
        url-encoded             reserved characters as % and two digits; blanks and letters of any language stay
        hive style              column= before the text, before the default one too
        slashes in dates        every - becomes /, where there is one column: 2024/03/04
        several columns         joined by /
        no column               the empty path

    A text with a / in it makes deeper folders where it is not url-encoded, as Hudi has it. Refused is a path that would
    not be a folder of the table of this name: with an empty part, `.` or `..`, or of more than 255 bytes, or where it
    begins with a dot as Hudi's own folder does, and one whose first part has a colon, which Hudi cannot read.
    """

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
        return "Hudi takes the text before a colon in the first part for the scheme of a URL, and fails."
    if "\0" in path:
        return "It has a zero character."
    return ""


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    names_fields: bool
    """Keys are f1:v1,f2:v2."""
    style: PathStyle
    timestamps: TimestampPaths | None = None
    """How the one partition field gives the time, where the table's partitions are of times."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that rows must have for it."""
        return frozenset(field.partition(".")[0] for field in self.key_fields + self.partition_fields)

    def keys(self, batch: pa.RecordBatch, *, rows_before: int = 0) -> tuple[pa.StringArray, pa.StringArray]:
        """The record keys and the partition paths of rows.

        Raises `UsageError` for a row without a key or path, with its number from 1, and `Unsupported` for a type.

        Args:
            rows_before: how many rows of the input came before these.
        """
        return self._record_keys(batch, rows_before), self._paths(batch, rows_before)

    def _record_keys(self, batch: pa.RecordBatch, rows_before: int) -> pa.StringArray:
        texts = [value_text(_column(batch, field), field) for field in self.key_fields]
        is_empty = pc.equal(pc.fill_null(texts[0], ""), "")
        for text in texts[1:]:
            is_empty = pc.and_(is_empty, pc.equal(pc.fill_null(text, ""), ""))
        if pc.any(is_empty).as_py():
            row = rows_before + pc.index(is_empty, pa.scalar(True)).as_py() + 1
            fields = " and ".join(self.key_fields)
            raise UsageError(
                f"Row {row} has no record key.",
                why=f"{fields} {'is' if len(texts) == 1 else 'are'} null or empty in it.",
                remedy="Fill the key in, or leave such rows out of the input.",
            )
        if not self.names_fields:
            return texts[0]
        pieces: list[pa.Array | pa.Scalar] = []
        for number, (field, text) in enumerate(zip(self.key_fields, texts, strict=True)):
            filled = pc.fill_null(pc.if_else(pc.equal(text, ""), "__empty__", text), "__null__")
            pieces += [pa.scalar(f"{',' if number else ''}{field}:"), filled]
        return pc.binary_join_element_wise(*pieces, "")

    def _paths(self, batch: pa.RecordBatch, rows_before: int) -> pa.StringArray:
        if not self.partition_fields:
            return pa.array(np.zeros(batch.num_rows, dtype="U1"), pa.string())
        if self.timestamps is not None:
            return self._paths_of_times(self.timestamps, batch, rows_before)
        is_only = len(self.partition_fields) == 1
        parts = [
            path_parts(_column(batch, field), field, self.style, is_only=is_only).dictionary_decode()
            for field in self.partition_fields
        ]
        paths = parts[0] if is_only else pc.binary_join_element_wise(*parts, "/")
        check_paths(paths, rows_before=rows_before)
        return paths

    def _paths_of_times(self, timestamps: TimestampPaths, batch: pa.RecordBatch, rows_before: int) -> pa.StringArray:
        (field,) = self.partition_fields
        texts = timestamps.texts(_column(batch, field), field, rows_before=rows_before)
        parts = [self.style.part(field, text, is_only=False) for text in texts.dictionary.to_pylist()]
        paths = pa.array(parts, pa.string()).take(texts.indices)
        check_paths(paths, rows_before=rows_before)
        return paths


def key_generator(
    config: TableConfig, *, names_single_field: bool | None = None, writers_zone: datetime.tzinfo | None = None
) -> KeyGenerator:
    """The generator that the table's properties name, or what Hudi takes where they name none.

    Raises `Refused` for a table whose keys this release cannot make.

    Args:
        names_single_field: keys of one field are f:v, as the table's existing keys show (`names_its_field`); asked
            for with COMPLEX below version 9 alone.
        writers_zone: the default time zone of the processes that write the table; asked for with TIMESTAMP alone, where
            the properties name none.
    """
    key_fields = config.record_key_fields
    if not key_fields:
        raise Refused(
            f"The table {config.name} has no record key fields, and its rows get new keys with each write.",
            why="hoodie.table.recordkey.fields is not set, so Hudi generates keys from the instant and the row.",
            remedy="Write it with Hudi, or make a table with a record key.",
        )
    kind = _kind(config)
    partition_fields = () if kind is KeyGeneratorKind.NON_PARTITION else config.partition_fields
    style = PathStyle(
        hive=config.hive_style,
        url_encoded=config.url_encode,
        slashes_in_dates=config.has_slashes_in_dates,
    )
    names_fields = len(key_fields) > 1
    if kind is KeyGeneratorKind.COMPLEX and not names_fields:
        names_fields = _names_single_field(config, names_single_field)
    if kind in (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.TIMESTAMP) and (names_fields or len(partition_fields) != 1):
        raise _refused_kind(config, f"{kind} goes with one key field and one partition field.")
    timestamps = timestamp_paths(config, writers_zone) if kind is KeyGeneratorKind.TIMESTAMP else None
    return KeyGenerator(key_fields, partition_fields, names_fields, style, timestamps)


def names_its_field(keys: Iterable[str], field: str) -> bool | None:
    """Whether a table's existing keys of one field are f:v; None where there are none.

    Raises `Refused` where some are and some are not: then one row may have two keys, and each write splits more.
    """
    found = {key.startswith(f"{field}:") for key in keys}
    if len(found) > 1:
        raise Refused(
            f"The table has record keys that begin with {field}: and others that do not.",
            why="Its writers had different encodings of keys (hoodie.write.complex.keygen.new.encoding), so one row "
            "may be there under two keys.",
            remedy="Rewrite the table with one encoding of its keys.",
        )
    return next(iter(found), None)


def _kind(config: TableConfig) -> KeyGeneratorKind:
    kind = generator_of(config)
    if kind is None:
        raise _refused_kind(config, "This release makes keys of SIMPLE, COMPLEX, NON_PARTITION and TIMESTAMP.")
    return kind


def has_two_forms(config: TableConfig) -> bool:
    """Whether keys of the one key field may be f:v or the value alone."""
    version = config.version.number
    is_older = version is not None and version <= _LAST_OF_TWO_FORMS
    return is_older and len(config.record_key_fields) == 1 and _kind(config) is KeyGeneratorKind.COMPLEX


def _names_single_field(config: TableConfig, given: bool | None) -> bool:
    if not has_two_forms(config):
        return True
    if given is None:
        (field,) = config.record_key_fields
        raise Refused(
            f"It is not known how the keys of the table {config.name} are written.",
            why=f"With the key generator COMPLEX and one field they are {field}:value or the value alone, by the "
            "release of the writer, and no key was found that shows it.",
            remedy="Let Hudi, with the options of the table's other writers, write the first rows.",
        )
    return given


def _refused_kind(config: TableConfig, why: str) -> Refused:
    return Refused(
        f"The table {config.name} has the key generator {config.key_generator or 'that Hudi takes by itself'}.",
        why=why,
        remedy="Write this table with Hudi itself; compaction and the other services work on it as on others.",
    )


def _column(batch: pa.RecordBatch, field: str) -> pa.Array:
    """A column, or what a path of names leads to inside of structs."""
    name, *inner = field.split(".")
    index = batch.schema.get_field_index(field)
    if index >= 0:
        return batch.column(index)
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise Unsupported(
            f"The rows have no column {name}, which the table's keys or partitions are made of.",
            why=f"Their columns are {', '.join(batch.schema.names)}.",
            remedy="Give rows with this column.",
        )
    column = batch.column(index)
    for each in inner:
        column = pc.struct_field(column, each)
    return column
