"""The head of a Parquet footer, read without a Parquet library: is the file encrypted, in whole or in some columns?

An encrypted footer shows in the magic (`PARE`). With a plain footer and encrypted columns only field 8 of the
footer's Thrift structure tells (`encryption_algorithm`), and pyarrow 26 does not raise but ends the process when
it meets the metadata of such a column. So the structure is walked here, skipping all but its field numbers.

    ... | footer: FileMetaData, Thrift compact protocol | length, 4 bytes little-endian | PAR1 or PARE

Touches: nothing.
"""

from __future__ import annotations

from lakeward.errors import BrokenFile
from lakeward.format.parquet.thrift_compact import CompactReader

TAIL_BYTES = 8
"""Length and magic."""

_PLAIN = b"PAR1"
_ENCRYPTED_FOOTER = b"PARE"
_ENCRYPTION_ALGORITHM = 8
_FOOTER_BYTES_MAX = 64 * 1024 * 1024


def footer_bytes(tail: bytes, *, file: str) -> int:
    """The length of the footer by the file's last eight bytes. Raises `BrokenFile` where they end no Parquet file."""
    if len(tail) != TAIL_BYTES or tail[4:] not in (_PLAIN, _ENCRYPTED_FOOTER):
        raise BrokenFile(
            f"{file} is not a Parquet file.",
            why="It does not end with PAR1 or PARE.",
            remedy="Restore the file from a copy.",
        )
    length = int.from_bytes(tail[:4], "little")
    if length > _FOOTER_BYTES_MAX:
        raise BrokenFile(
            f"{file} has a footer that no file needs.",
            why=f"It claims {length} bytes of footer, and at most {_FOOTER_BYTES_MAX} are read.",
            remedy="Restore the file from a copy.",
        )
    return length


def is_encrypted(tail: bytes, footer: bytes, *, file: str) -> bool:
    """True when the footer or any column is encrypted."""
    if tail[4:] == _ENCRYPTED_FOOTER:
        return True
    try:
        return _ENCRYPTION_ALGORITHM in CompactReader(footer).struct_fields()
    except ValueError as error:
        raise BrokenFile(
            f"The footer of {file} cannot be read.", why=f"{error}.", remedy="Restore the file from a copy."
        ) from error
