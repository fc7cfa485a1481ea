"""How a table makes record keys and partition paths: which key generator, and, of a new table, its options.

    none is named: without partition field NON_PARTITION, of one key and one partition field SIMPLE, all else COMPLEX

Without a zone Hudi takes that of each writer's process for the paths of moments, so a table always says one.

Touches: nothing.
Keeps:   a generator that does not go with the columns, or whose rows Hudi cannot read, is refused before there is a
         table.
Source:  KeyGenUtils and TimestampBasedAvroKeyGenerator of Hudi 1.x; dates with slashes were tried with 1.2.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa

from lakeward.base.errors import Unsupported, UsageError
from lakeward.format.avro.schema import AvroField
from lakeward.table.table_config import TableConfig
from lakeward.table.table_version import TableVersion

_TIMESTAMPS: Final = "hoodie.keygen.timebased."

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The text of null, and of the empty text, in the path of a partition."""


class KeyGeneratorKind(StrEnum):
    """A key generator, by the name that Hudi has for it in a table's properties."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"


class TimestampType(StrEnum):
    """What the values of a partition field are, of which TIMESTAMP makes paths."""

    MILLISECONDS = "EPOCHMILLISECONDS"
    MICROSECONDS = "EPOCHMICROSECONDS"
    SECONDS = "UNIX_TIMESTAMP"
    SCALAR = "SCALAR"
    TEXT = "DATE_STRING"
    MIXED = "MIXED"

    @property
    def is_text(self) -> bool:
        return self in (self.TEXT, self.MIXED)


@dataclass(frozen=True, slots=True)
class NewTimestamps:
    """The options of TIMESTAMP; the patterns are Joda-Time's, the zones Java's."""

    type: TimestampType
    output_format: str
    input_format: str | None = None
    unit: str | None = None
    """The unit of SCALAR: a name of Java's TimeUnit."""
    timezone: str = "UTC"
    """The zone of texts without an offset, and of the paths."""

    @property
    def properties(self) -> dict[str, str]:
        values = {
            "timestamp.type": self.type.value,
            "output.dateformat": self.output_format,
            "input.dateformat": self.input_format,
            "timestamp.scalar.time.unit": self.unit,
            "timezone": self.timezone,
        }
        return {f"{_TIMESTAMPS}{key}": value for key, value in values.items() if value is not None}


_PACKAGE: Final = "org.apache.hudi.keygen."
_CLASSES: Final = {
    "SimpleKeyGenerator": KeyGeneratorKind.SIMPLE,
    "SimpleAvroKeyGenerator": KeyGeneratorKind.SIMPLE,
    "ComplexKeyGenerator": KeyGeneratorKind.COMPLEX,
    "ComplexAvroKeyGenerator": KeyGeneratorKind.COMPLEX,
    "NonpartitionedKeyGenerator": KeyGeneratorKind.NON_PARTITION,
    "NonpartitionedAvroKeyGenerator": KeyGeneratorKind.NON_PARTITION,
    "TimestampBasedKeyGenerator": KeyGeneratorKind.TIMESTAMP,
    "TimestampBasedAvroKeyGenerator": KeyGeneratorKind.TIMESTAMP,
}
"""Kinds by the names of their classes."""


def inferred_kind(record_key_fields: tuple[str, ...], partition_fields: tuple[str, ...]) -> KeyGeneratorKind:
    """The generator that Hudi takes where none is named."""
    if not partition_fields:
        return KeyGeneratorKind.NON_PARTITION
    is_simple = len(record_key_fields) == len(partition_fields) == 1
    return KeyGeneratorKind.SIMPLE if is_simple else KeyGeneratorKind.COMPLEX


def generator_of(config: TableConfig) -> KeyGeneratorKind | None:
    """The key generator of a table that there is; None for CUSTOM, and for classes that this release does not know."""
    named = config.key_generator
    if not named:
        return inferred_kind(config.record_key_fields, config.partition_fields)
    by_class = _CLASSES.get(named.removeprefix(_PACKAGE))
    by_name = {kind.value: kind for kind in _CLASSES.values()}
    return by_class or by_name.get(named.upper().removesuffix("_AVRO"))


def check_kind(
    kind: KeyGeneratorKind,
    record_key_fields: tuple[str, ...],
    partition_fields: tuple[str, ...],
    timestamps: NewTimestamps | None,
    columns: Mapping[str, AvroField],
) -> None:
    """Raises `UsageError`, and `Unsupported` for CUSTOM."""
    if kind is KeyGeneratorKind.CUSTOM:
        raise Unsupported(
            "A table with the key generator CUSTOM cannot be created.",
            why="Each of its partition fields has a generator of its own, and this release does not write such tables.",
            remedy="Take one of simple, complex, non-partition and timestamp, or let Hudi create the table.",
        )
    keys, partitions = len(record_key_fields), len(partition_fields)
    takes = {
        KeyGeneratorKind.SIMPLE: (keys == partitions == 1, "one record key field and one partition field"),
        KeyGeneratorKind.COMPLEX: (partitions > 0, "at least one partition field"),
        KeyGeneratorKind.NON_PARTITION: (partitions == 0, "no partition field"),
        KeyGeneratorKind.TIMESTAMP: (keys == partitions == 1, "one record key field and one partition field"),
    }
    fits, wanted = takes[kind]
    if not fits:
        raise UsageError(
            f"The key generator {kind} does not go with these fields.",
            why=f"It takes {wanted}; there are {keys} and {partitions}.",
            remedy="Name another one with --key-generator, or none: it follows from the fields.",
        )
    if (kind is KeyGeneratorKind.TIMESTAMP) != (timestamps is not None):
        raise UsageError(
            "The key generator timestamp and the --timestamp options go together.",
            why=f"The generator is {kind}, and {'some are' if timestamps else 'none of them is'} given.",
            remedy="Give --key-generator timestamp with --timestamp-type and --timestamp-output, or neither.",
        )
    if timestamps is not None:
        _check_timestamps(timestamps, columns[partition_fields[0]])


def _check_timestamps(timestamps: NewTimestamps, column: AvroField) -> None:
    kind, arrow = timestamps.type, column.type.arrow
    if kind.is_text != (timestamps.input_format is not None):
        raise UsageError(
            f"--timestamp-input does not go with the type {kind}." if timestamps.input_format else f"{kind} is text.",
            why="A pattern says how texts are read; numbers have none.",
            remedy="Give --timestamp-input with the types DATE_STRING and MIXED, and with no other.",
        )
    if (kind is TimestampType.SCALAR) != (timestamps.unit is not None):
        raise UsageError(
            "--timestamp-unit and the type SCALAR go together.",
            why="The other types are of a unit each.",
            remedy="Give both, or neither.",
        )
    if pa.types.is_date(arrow) or kind.is_text != pa.types.is_string(arrow):
        raise UsageError(
            f"The column {column.name} does not go with the timestamps {kind}.",
            why=f"It holds {arrow}: days since 1970 count as milliseconds there."
            if pa.types.is_date(arrow)
            else f"It holds {arrow}, and {kind} is of {'texts' if kind.is_text else 'numbers and times'}.",
            remedy="Name another column or another --timestamp-type; partitions by a date need no key generator.",
        )


def check_slashes(
    kind: KeyGeneratorKind,
    partition_fields: tuple[str, ...],
    columns: Mapping[str, AvroField],
    *,
    version: TableVersion,
    hive_style: bool,
) -> None:
    """Dates with slashes in partition paths are possible. Raises `UsageError`."""
    why = None
    if not version.has_slash_dates:
        why = "Hudi before 1.1 does not know them, and would name other partitions."
    elif len(partition_fields) != 1 or kind is KeyGeneratorKind.TIMESTAMP:
        why = "They are of one partition field, whose values are dates."
    elif hive_style:
        why = "A date in three folders has no place for the name of the column."
    elif not pa.types.is_string(columns[partition_fields[0]].type.arrow):
        why = "Hudi 1.2 writes a column that is not text so, and cannot read it then."
    if why is not None:
        raise UsageError(
            "The partitions cannot be dates with slashes.",
            why=why,
            remedy="Leave --slash-dates out, or partition by one column of texts such as 2024-03-04, in version 9.",
        )
