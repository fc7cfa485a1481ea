"""Partition paths of moments, as Hudi's TIMESTAMP key generator names them.

    hoodie.keygen.timebased.timestamp.type
        EPOCHMILLISECONDS, EPOCHMICROSECONDS, UNIX_TIMESTAMP     numbers since 1970
        SCALAR                                                   in timestamp.scalar.time.unit; seconds
        DATE_STRING, MIXED                                       texts in one of the forms of input.dateformat
    output.dateformat                                            what the path is
    timezone; or input.timezone and output.timezone              of texts without an offset, and of paths

Fractions are cut off. A timestamp column counts as the number that it stores. Null stands for the first unit after the
epoch: it has a path as other values have, not the default partition.

Where the path must be in a zone and none is said, Hudi takes that of the writer's process, which no file of the table
has: it must be given.

Touches: the time zone database.
Keeps:   1. a path that is returned is the one that Hudi 1.2.0 makes of the value;
         2. what hangs on the zone of the writers is refused where that is not known.
Source:  TimestampBasedAvroKeyGenerator and HoodieDateTimeParser of Hudi 1.2.0
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeward.base.errors import Refused, Unsupported, UsageError
from lakeward.table.table_config import TableConfig
from lakeward.write.keys.joda_pattern import JodaPattern

_PREFIX: Final = "hoodie.keygen.timebased."
_OLD_PREFIX: Final = "hoodie.deltastreamer.keygen.timebased."
_PARSER: Final = ("hoodie.keygen.datetime.parser.class", "hoodie.deltastreamer.keygen.datetime.parser.class")

_TEXTS: Final = ("DATE_STRING", "MIXED")
_UNITS: Final = {"EPOCHMILLISECONDS": "MILLISECONDS", "EPOCHMICROSECONDS": "MICROSECONDS", "UNIX_TIMESTAMP": "SECONDS"}
_NANOSECONDS: Final = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}
_MILLISECOND: Final = 1_000_000
_FIRST: Final = -62_135_510_400_000
"""Milliseconds of the second day of the year 1, and of the last but one of 9999: in no zone another year is met."""
_LAST: Final = 253_402_128_000_000
_QUARTER: Final = 15 * 60 * 1000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DELIMITERS: Final = {",": ",", ";": ";", "#": "#", "\\|": "|"}
_OFFSET: Final = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d\d))?")


@dataclass(frozen=True, slots=True)
class TimestampPaths:
    unit: str | None
    """A name of Java's TimeUnit; None for texts."""
    inputs: tuple[JodaPattern, ...]
    output: JodaPattern
    input_zone: datetime.tzinfo | None
    output_zone: datetime.tzinfo | None
    writers_zone: datetime.tzinfo | None
    """The default zone of the writers' processes, where it is known."""

    def texts(self, column: pa.Array, name: str, *, rows_before: int) -> pa.DictionaryArray:
        """The path of each value, not escaped and without the column's name; none is null.

        Raises `UsageError` with the number of the first row, from 1, whose value has none, `Unsupported` for a type,
        and `Refused` where the zone is not known.
        """
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if self.unit is None:
            return self._of_texts(column, name, rows_before)
        milliseconds = self._milliseconds(column, name, rows_before)
        local = _local(milliseconds, self.output_zone or self._zone_of_writers(name)).cast(pa.timestamp("ms"))
        encoded = pc.floor_temporal(local, unit=self.output.floor).dictionary_encode()
        paths = [self.output.format(moment.as_py()) for moment in encoded.dictionary]
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(paths, pa.string()))

    def _milliseconds(self, column: pa.Array, name: str, rows_before: int) -> pa.Array:
        assert self.unit is not None
        numbers = pc.fill_null(_whole_numbers(column, name, rows_before), 1)
        nanoseconds = _NANOSECONDS[self.unit]
        by, over = max(1, nanoseconds // _MILLISECOND), max(1, _MILLISECOND // nanoseconds)
        first, last = max(_FIRST * over // by, -(2**63)), min(_LAST * over // by, 2**63 - 1)
        is_far = pc.or_(pc.greater(numbers, last), pc.less(numbers, first))
        _check_rows(
            is_far, column, name, rows_before, f"As {self.unit.lower()} since 1970 it is not in the years 1 to 9999."
        )
        return pc.divide(pc.multiply(numbers, by), over)  # towards zero, as Java divides

    def _of_texts(self, column: pa.Array, name: str, rows_before: int) -> pa.DictionaryArray:
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            _refuse_type(column, name, "texts")
        encoded = column.dictionary_encode(null_encoding="encode")
        paths = [self._path(text, name) for text in encoded.dictionary.to_pylist()]
        paths_of_rows = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(paths, pa.string()))
        forms = ", ".join(pattern.text for pattern in self.inputs)
        why = f"It is in none of the forms {forms}, or there is no such time."
        _check_rows(pc.is_null(paths_of_rows.dictionary_decode()), column, name, rows_before, why)
        return paths_of_rows

    def _path(self, text: str | None, name: str) -> str | None:
        """None for a text that is in none of the forms, or not a time in its zone."""
        text = self._for_null() if text is None else text
        moment = next((found for pattern in self.inputs if (found := pattern.parse(text)) is not None), None)
        if moment is None:
            return None
        if moment.tzinfo is None:
            zone = self.input_zone
            if zone is None and self.output_zone is not None:
                zone = self._zone_of_writers(name)
            if zone is not None:
                moment = moment.replace(tzinfo=zone)
                there = moment.astimezone(datetime.UTC).astimezone(zone)
                if there.replace(tzinfo=None) != moment.replace(tzinfo=None):
                    return None  # the clocks were set forward over it
        to = self.output_zone or self.input_zone
        try:
            return self.output.format(moment if to is None else moment.astimezone(to))
        except OverflowError:
            return None

    def _for_null(self) -> str:
        zone = self.input_zone or self.output_zone or datetime.UTC
        first = (_EPOCH + datetime.timedelta(milliseconds=1)).astimezone(zone)
        pattern = self.inputs[0]
        if pattern.has_offset:
            return ""  # which no form is: how Hudi writes an offset there is not known
        return pattern.format(first)

    def _zone_of_writers(self, name: str) -> datetime.tzinfo:
        if self.writers_zone is None:
            raise Refused(
                f"It is not known in which zone the table's partitions by {name} are.",
                why=f"{_PREFIX}output.timezone is not set, so Hudi takes the zone of each writer's process.",
                remedy="Say the time zone of the table's writers with --timezone, such as UTC.",
            )
        return self.writers_zone


def timestamp_paths(config: TableConfig, writers_zone: datetime.tzinfo | None) -> TimestampPaths:
    """How the table's properties say that paths are made. Raises `Refused` for what this release does not know."""

    def option(key: str) -> str:
        for prefix in (_PREFIX, _OLD_PREFIX):
            if f"{prefix}{key}" in config.properties:
                return config.properties[f"{prefix}{key}"]
        return ""

    kind = option("timestamp.type")
    output = option("output.dateformat")
    if kind not in (*_UNITS, "SCALAR", *_TEXTS) or not output:
        _refuse(config, f"{_PREFIX}timestamp.type is {kind!r} and output.dateformat {output!r}")
    if parser := config.get(*_PARSER):
        _refuse(config, f"{_PARSER[0]} is {parser}")
    unit = None
    if kind not in _TEXTS:
        unit = _UNITS.get(kind) or (option("timestamp.scalar.time.unit") or "SECONDS").upper()
        if unit not in _NANOSECONDS:
            _refuse(config, f"{_PREFIX}timestamp.scalar.time.unit is {unit}")
    pattern = _pattern(config, "output.dateformat", output, lambda found: not found.has_offset)
    inputs: tuple[JodaPattern, ...] = ()
    if unit is None:
        regex = option("input.dateformat.list.delimiter.regex").strip() or ","
        if regex not in _DELIMITERS:
            _refuse(config, f"{_PREFIX}input.dateformat.list.delimiter.regex is {regex!r}")
        texts = [each.strip() for each in option("input.dateformat").split(_DELIMITERS[regex])]
        inputs = tuple(_pattern(config, "input.dateformat", text, lambda found: found.can_be_read) for text in texts)
    both = any(f"{prefix}timezone" in config.properties for prefix in (_PREFIX, _OLD_PREFIX))
    input_zone, output_zone = (
        _zone(config, option("timezone" if both else f"{way}.timezone")) for way in ("input", "output")
    )
    return TimestampPaths(unit, inputs, pattern, input_zone, output_zone, writers_zone)


def _pattern(config: TableConfig, key: str, text: str, is_known: Callable[[JodaPattern], bool]) -> JodaPattern:
    try:
        found = JodaPattern(text)
    except ValueError as error:
        _refuse(config, f"{_PREFIX}{key} has the letter {error} in {text!r}")
    if not is_known(found):
        _refuse(config, f"{_PREFIX}{key} is {text!r}")
    return found


def _zone(config: TableConfig, text: str) -> datetime.tzinfo | None:
    """A zone by one of the names that mean the same to Java and here; Java takes others for UTC without a word."""
    text = text.strip()
    if not text:
        return None
    if text in ("UTC", "GMT"):
        return datetime.UTC
    if found := _OFFSET.fullmatch(text):
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        if int(found[2]) < 24 and int(found[3] or 0) < 60:
            return datetime.timezone(datetime.timedelta(minutes=-minutes if found[1] == "-" else minutes))
    elif "/" in text:
        try:
            return zoneinfo.ZoneInfo(text)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    _refuse(config, f"its time zone is {text!r}")


def _local(milliseconds: pa.Array, zone: datetime.tzinfo) -> pa.Array:
    """What a clock in the zone shows, in milliseconds since 1970. Arrow knows no summer time from 2038 on."""
    for step in (_QUARTER, 1):
        steps = pc.divide(pc.subtract(milliseconds, _FIRST), step).dictionary_encode()
        begins = [_FIRST + found * step for found in steps.dictionary.to_pylist()]
        offsets = [_offset(begin, zone) for begin in begins]
        # Nowadays clocks are set at full quarters of an hour; it was otherwise.
        if step == 1 or all(
            _offset(begin + step - 1, zone) == offset for begin, offset in zip(begins, offsets, strict=True)
        ):
            break
    return pc.add(milliseconds, pa.array(offsets, pa.int64()).take(steps.indices))


def _offset(milliseconds: int, zone: datetime.tzinfo) -> int:
    offset = (_EPOCH + datetime.timedelta(milliseconds=milliseconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // datetime.timedelta(milliseconds=1)


def _whole_numbers(column: pa.Array, name: str, rows_before: int) -> pa.Array:
    of = column.type
    if types.is_signed_integer(of):
        return column.cast(pa.int64())
    if types.is_timestamp(of) and of.unit in ("us", "ms"):
        return column.cast(pa.int64())
    if types.is_floating(of) or types.is_decimal(of):
        is_far = pc.invert(pc.less(pc.abs(column.cast(pa.float64())), 2.0**62))
        _check_rows(pc.fill_null(is_far, False), column, name, rows_before, "It is no number of a moment.")
        return pc.trunc(column).cast(pa.int64(), safe=False)
    _refuse_type(column, name, "numbers")


def _check_rows(is_wrong: pa.Array, column: pa.Array, name: str, rows_before: int, why: str) -> None:
    if pc.any(is_wrong).as_py():
        at = pc.index(is_wrong, pa.scalar(True)).as_py()
        raise UsageError(
            f"Row {rows_before + at + 1} has no partition: {name} is {column[at].as_py()!r}.",
            why=why,
            remedy="Mend the value, or leave the row out.",
        )


def _refuse_type(column: pa.Array, name: str, wanted: str) -> NoReturn:
    raise Unsupported(
        f"The column {name} cannot give partition paths.",
        why=f"The table's key generator wants {wanted}, and the column is {column.type}. Of a date Hudi takes the "
        "number of the day for one of its units.",
        remedy="Write this table with Hudi itself.",
    )


def _refuse(config: TableConfig, why: str) -> NoReturn:
    raise Refused(
        f"The table {config.name} names its partitions by times in a way that this release does not know.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Write this table with Hudi itself.",
    )
