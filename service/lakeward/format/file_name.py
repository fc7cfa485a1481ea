r"""The names of data files, and the gate that every name from a table's metadata passes before it is used.

    base file             <file id>_<write token>_<instant>.parquet; .hfile in a metadata table
    log file              .<file id>_<instant>.log.<version>[_<write token>][.cdc]
    native log file       <file id>_<write token>_<instant>_<version>.<log|deletes|cdc>.<format>; table version 10
    partition path        <part>/<part>/..., empty for the one partition of an unpartitioned table

The instant of a log is the delta commit's own in layout 2 and the slice's base instant in layout 1. A partition
path is text: `%2F` and the like are characters of it, never decoded. Released Hudi writes and reads partitions of any
UTF-8 name, line breaks and backslashes included, but for `:` in local folders; so all of that is lawful here.

Touches: nothing.
Keeps:   1. a name is parsed only if its parts give exactly the same name back;
         2. what `check_*` and `resolve` let through has no part that is empty, `.` or `..`, also where backslashes
            count as slashes, so that joined to the base path it stays below it on every storage; names of files have
            neither backslashes nor control characters;
         3. nothing below the table's own `.hoodie` is ever resolved;
         4. no name is of two grammars: that of a native log, in its earlier spellings too, is no base file's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import UntrustedName
from lakeward.base.paths import join

# Control characters and line ends would garble listings and markers, surrogates cannot be written down as UTF-8.
_NEVER = r"/\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"

_FILE_ID = rf"(?P<file_id>[^._{_NEVER}]+)"
_INSTANT = r"(?P<instant>[0-9]+)"

PARQUET = "parquet"
HFILE = "hfile"
"""What a metadata table's base files are, and no data table's."""

_BASE_FILE = re.compile(rf"{_FILE_ID}_(?P<write_token>[A-Za-z0-9-]+)_{_INSTANT}\.(?P<extension>{PARQUET}|{HFILE})")
_VERSION = r"(?P<version>0|[1-9][0-9]{0,9})"
_TASK_TOKEN = r"(?P<write_token>[0-9]+-[0-9]+-[0-9]+)"
_LOG_FILE = re.compile(rf"\.{_FILE_ID}_{_INSTANT}\.log\.{_VERSION}(_{_TASK_TOKEN}(?P<suffix>\.cdc)?)?")
_NATIVE_END = r"\.(?P<kind>log|deletes|cdc)\.(?P<format>[A-Za-z0-9]+)"
_NATIVE_LOG = re.compile(rf"{_FILE_ID}_{_TASK_TOKEN}_{_INSTANT}_{_VERSION}{_NATIVE_END}")
_LIKE_NATIVE_LOG = re.compile(rf"{_FILE_ID}_{_TASK_TOKEN}_{_INSTANT}_[0-9]+{_NATIVE_END}")
_EARLY_NATIVE_LOG = re.compile(rf"{_FILE_ID}_{_TASK_TOKEN}_{_INSTANT}_{_VERSION}(?P<kind>\.delete)?\.{PARQUET}")
_FILE_ID_ALONE = re.compile(_FILE_ID)
_PLAIN_NAME = re.compile(rf"[^{_NEVER}]+")
_PATH_PART = re.compile(r"[^/\x00\ud800-\udfff]+")

_HOODIE_FOLDER = ".hoodie"


@dataclass(frozen=True, slots=True)
class WriteToken:
    """Who wrote a file: task partition, stage and task attempt, in Spark's words."""

    partition: int
    stage: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.stage}-{self.attempt}"


CDC_SUFFIX = ".cdc"

LogSortKey = tuple[str, int, str, int]
"""Instant, version, write token, and the place of the kind: by it inline and native logs have one order."""


class NativeLogKind(StrEnum):
    """What a native log holds, which its name alone says."""

    DATA = "log"
    DELETES = "deletes"
    CHANGES = "cdc"


_ORDER_OF_KINDS = {kind: place for place, kind in enumerate(NativeLogKind)}


@dataclass(frozen=True, slots=True)
class BaseFileName:
    file_id: str
    write_token: str
    instant: str
    extension: str = PARQUET

    @property
    def text(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFileName:
    file_id: str
    instant: str
    version: int
    write_token: str | None
    """None in names that early releases wrote."""
    suffix: str = ""
    """`CDC_SUFFIX` for a log of changes, which no snapshot reads."""

    @property
    def text(self) -> str:
        token = f"_{self.write_token}{self.suffix}" if self.write_token is not None else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}"

    @property
    def sort_key(self) -> LogSortKey:
        """Hudi's order of the logs in a slice. The write token compares as text, a missing one first."""
        kind = NativeLogKind.CHANGES if self.is_cdc else NativeLogKind.DATA
        return (self.instant, self.version, self.write_token or "", _ORDER_OF_KINDS[kind])

    @property
    def is_cdc(self) -> bool:
        return self.suffix == CDC_SUFFIX


@dataclass(frozen=True, slots=True)
class NativeLogName:
    """The name of a log that is a file of its format as it stands, as tables of version 10 have them."""

    file_id: str
    write_token: str
    instant: str
    version: int
    kind: NativeLogKind
    format: str = PARQUET
    """Any word; what is not read is refused when the file is opened."""
    is_early: bool = False
    """It is written as RFC-103 had it first, without a word for data, and with `delete` for deletes: never by us."""

    @property
    def text(self) -> str:
        start = f"{self.file_id}_{self.write_token}_{self.instant}_{self.version}"
        if self.is_early:
            return start + (".delete" if self.kind is NativeLogKind.DELETES else "") + f".{PARQUET}"
        return f"{start}.{self.kind}.{self.format}"

    @property
    def sort_key(self) -> LogSortKey:
        """Hudi's order of the logs in a slice: of what one flush wrote, rows come before deletes, then changes."""
        return (self.instant, self.version, self.write_token, _ORDER_OF_KINDS[self.kind])

    @property
    def is_cdc(self) -> bool:
        return self.kind is NativeLogKind.CHANGES


AnyLogName = LogFileName | NativeLogName


def parse_base_file(name: str, *, extension: str = PARQUET) -> BaseFileName | None:
    match = _BASE_FILE.fullmatch(name)
    if match is None or match["extension"] != extension:
        return None
    return BaseFileName(match["file_id"], match["write_token"], match["instant"], extension)


def parse_log_file(name: str) -> LogFileName | None:
    match = _LOG_FILE.fullmatch(name)
    if match is None:
        return None
    return LogFileName(
        match["file_id"], match["instant"], int(match["version"]), match["write_token"], match["suffix"] or ""
    )


def parse_any_log(name: str, *, native: bool) -> AnyLogName | None:
    """The name of a log of a table.

    Args:
        native: the table's version has native logs. To readers of others such a file is no log.
    """
    return parse_log_file(name) or (parse_native_log(name) if native else None)


def parse_any_data_file(name: str, *, native: bool, extension: str = PARQUET) -> BaseFileName | AnyLogName | None:
    """The name of a base file or log of a table; none is of both grammars.

    Args:
        native: as in `parse_any_log`.
        extension: of base files.
    """
    return parse_base_file(name, extension=extension) or parse_any_log(name, native=native)


def parse_native_log(name: str) -> NativeLogName | None:
    """The name of a native log, in RFC-103's earlier spellings too; no other file of any table has such a name."""
    match = _NATIVE_LOG.fullmatch(name)
    if match is not None:
        kind, format_, is_early = NativeLogKind(match["kind"]), match["format"], False
    elif (match := _EARLY_NATIVE_LOG.fullmatch(name)) is not None:
        kind, format_, is_early = NativeLogKind.DELETES if match["kind"] else NativeLogKind.DATA, PARQUET, True
    else:
        return None
    return NativeLogName(
        match["file_id"], match["write_token"], match["instant"], int(match["version"]), kind, format_, is_early
    )


def is_native_log(name: str) -> bool:
    """True for what table version 10 calls its logs, which readers of older tables take for base files.

    So it is of a version with leading zeros, which Hudi reads as a number and no writer writes.
    """
    return _LIKE_NATIVE_LOG.fullmatch(name) is not None


def is_change_log(name: str) -> bool:
    """True for the name of a log of changes, inline or native, which no snapshot reads."""
    log = parse_any_log(name, native=True)
    return log is not None and log.is_cdc


def check_file_name(name: str, *, extension: str = PARQUET, native: bool = False) -> str:
    """`name` itself, if it is a log file's or that of a base file with the extension. Raises `UntrustedName`.

    Args:
        native: a native log's is a log file's.
    """
    if parse_any_data_file(name, native=native, extension=extension) is None:
        raise _untrusted(name, "It is the name of neither a base file nor a log file.")
    return name


def check_file_id(file_id: str) -> str:
    """`file_id` itself, if file names can carry it. Raises `UntrustedName`."""
    if _FILE_ID_ALONE.fullmatch(file_id) is None:
        raise _untrusted(file_id, "It is no file id: those have neither '.' nor '_' nor '/' nor control characters.")
    return file_id


def check_relative_path(path: str) -> str:
    """`path` itself, of a partition or a file, if it stays below the base path and outside `.hoodie`.

    Raises `UntrustedName`.
    """
    if path == "":
        return path
    parts = path.split("/")
    if parts[0] == _HOODIE_FOLDER:
        raise _untrusted(path, "It lies in the table's own metadata.")
    for part in parts:
        # In Azure a backslash is a slash.
        if {".", ".."} & set(part.split("\\")) or _PATH_PART.fullmatch(part) is None:
            raise _untrusted(path, f"Its part {part!r} cannot be a name below the table.")
    return path


def check_plain_name(name: str) -> str:
    """`name` itself, of any file in a partition, if it is one name that can be shown. Raises `UntrustedName`."""
    if name in (".", "..") or _PLAIN_NAME.fullmatch(name) is None:
        raise _untrusted(name, "It is not the name of a file in a folder.")
    return name


def resolve(base_path: str, relative_path: str, *, extension: str = PARQUET, native: bool = False) -> str:
    """The path of a data file that metadata names `<partition path>/<file>`. Raises `UntrustedName`.

    Args:
        extension: of base files, `HFILE` for those of a metadata table (and below its own base path).
        native: native logs are data files of the table.
    """
    partition_path, slash, name = relative_path.rpartition("/")
    if slash and not partition_path:
        raise _untrusted(relative_path, "It is absolute.")
    check_relative_path(partition_path)
    check_file_name(name, extension=extension, native=native)
    return join(base_path, relative_path)


def _untrusted(name: str, why: str) -> UntrustedName:
    return UntrustedName(
        f"The table's metadata names {name!r}, which is not trusted.",
        why=why,
        remedy="Find out who wrote that metadata; nothing was opened or deleted by that name.",
    )
