"""The options of `lakeward table create` for partition names and for indexes.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from lakeward.base.errors import Unsupported, UsageError
from lakeward.table.new_keys import NewTimestamps, TimestampType
from lakeward.table.new_table import NewIndex, NewIndexes


class NewKeyGenerator(StrEnum):
    SIMPLE = "simple"
    COMPLEX = "complex"
    NON_PARTITION = "non-partition"
    TIMESTAMP = "timestamp"
    CUSTOM = "custom"


class NewTimestampType(StrEnum):
    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    SECONDS = "seconds"
    SCALAR = "scalar"
    TEXT = "text"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class PathArguments:
    """How partitions are named: a group of options."""

    hive_style: Annotated[
        bool, typer.Option("--hive-style", help="Name partitions column=value, as tables of CREATE TABLE are.")
    ] = False
    url_encode: Annotated[
        bool, typer.Option("--url-encode", help="Escape in the names of partitions what may not be in a path.")
    ] = False
    slash_dates: Annotated[
        bool, typer.Option("--slash-dates", help="Name the partition of 2024-03-04 2024/03/04; version 9.")
    ] = False
    key_generator: Annotated[
        NewKeyGenerator | None,
        typer.Option(
            help="Key generator: makes the key and the partition of a row. By default, as with Hudi: non-partition "
            "without --partition, "
            "simple with one record key and one partition column, else complex. timestamp names partitions by the "
            "moment in a column; custom is refused."
        ),
    ] = None
    timestamp_type: Annotated[
        NewTimestampType | None,
        typer.Option(
            help="What the column holds, for --key-generator timestamp: numbers since 1970 of this unit, or of that of "
            "--timestamp-unit (scalar); text; or texts of several forms (mixed)."
        ),
    ] = None
    timestamp_output: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="How a partition is named, such as yyyy/MM/dd (Joda-Time).")
    ] = None
    timestamp_input: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="How texts are read, such as yyyy-MM-dd; several with commas.")
    ] = None
    timestamp_unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="Of scalar: microseconds, days, and others of Java's TimeUnit.")
    ] = None
    timestamp_timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="In which partitions are named; UTC by default.")
    ] = None

    @property
    def timestamps(self) -> NewTimestamps | None:
        """None where none of the options is given. Raises `UsageError` where one is missing."""
        given = (self.timestamp_type, self.timestamp_output, self.timestamp_input, self.timestamp_unit)
        if not any((*given, self.timestamp_timezone)):
            return None
        if self.timestamp_type is None or self.timestamp_output is None:
            raise UsageError(
                "The moments by which partitions are named are not all said.",
                remedy="Give --timestamp-type, for what the column holds, and --timestamp-output, for the names.",
            )
        return NewTimestamps(
            type=TimestampType[self.timestamp_type.name],
            output_format=self.timestamp_output,
            input_format=self.timestamp_input,
            unit=self.timestamp_unit,
            timezone=self.timestamp_timezone or "UTC",
        )


@dataclass(frozen=True, slots=True)
class IndexArguments:
    """What finds keys and files: a group of options."""

    index: Annotated[
        str,
        typer.Option(
            metavar="INDEXES",
            help="Index type for all writers: simple; bucket:N, with N buckets to a "
            "partition; metadata, the record index in the metadata table. Without it each writer chooses its own. "
            "bloom-filters (of all files, in the metadata table) can be added with a comma, or stand alone.",
        ),
    ] = ""
    has_metadata_table: Annotated[
        bool,
        typer.Option(
            "--metadata-table/--no-metadata-table",
            help="Make the metadata table, with files and statistics of columns and partitions, as Hudi's first "
            "write does. Without it that first write makes it, unless its options turn it off.",
        ),
    ] = True

    @property
    def indexes(self) -> NewIndexes:
        """Raises `UsageError`."""
        finds: list[tuple[NewIndex, int | None]] = []
        bloom_filters = False
        for word in column_names(self.index):
            kind, _, number = word.partition(":")
            match kind:
                case "bloom-filters" if not number:
                    bloom_filters = True
                case "simple" | "metadata" if not number:
                    finds.append((NewIndex[kind.upper()], None))
                case "bucket" if number.isascii() and number.isdigit():
                    finds.append((NewIndex.BUCKET, int(number[:10])))
                case "bucket":
                    raise UsageError(
                        f"{word!r} does not say how many buckets a partition has.",
                        remedy="Give the number: --index bucket:8. It stays as it is for as long as the table lives.",
                    )
                case "record":
                    raise UsageError(
                        "A table is not made with Lakeward's record index.",
                        why="That is what `record` means everywhere; Hudi's, in the metadata table, is `metadata`.",
                        remedy="Write --index metadata. `lakeward index build` makes Lakeward's, later.",
                    )
                case _:
                    raise Unsupported(
                        f"The index {word!r} cannot be made with a table.",
                        why="It is none of simple, bucket:N, metadata and bloom-filters.",
                        remedy="Hudi's writers add others to the table afterwards, or have them as options of a write.",
                    )
        if len(finds) > 1:
            raise UsageError("Keys are found by one index.", remedy="Name one of simple, bucket:N and metadata.")
        finds_keys, buckets = finds[0] if finds else (None, None)
        return NewIndexes(finds_keys=finds_keys, buckets=buckets, bloom_filters=bloom_filters)


def column_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
