"""The shapes of file slices that are merged: how many rows of which columns, in which files, under which keys.

Sizes are those of `--scale 1`. Each is chosen so that a merge of it takes seconds; rows of few or narrow columns are
more, rows of wide ones fewer.

Touches: nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

KEY_COLUMN, ORDERING_COLUMN = "id", "ts"

Columns = dict[str, str]
"""Name -> kind, one of `AVRO_TYPES`."""


class Spread(StrEnum):
    """Which keys the logs have."""

    EVERYWHERE = "everywhere"
    """Four of five are keys of the base, drawn from all over it; the others fall between them."""
    CLUSTERED = "clustered"
    """Each log has the keys of one range of the base."""
    DISJOINT = "disjoint"
    """New ones behind the base, a range of its own for each log."""
    HOT = "hot"
    """Half of a log's rows are versions of one key, the others as everywhere."""


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    says: str
    base_rows: int
    """0: a LOG operation, which has no base file."""
    logs: int
    log_rows: int
    """Each log has so many, deletes included."""
    columns: Columns
    parquet_blocks: bool = False
    """Parquet blocks whose rows are sorted, else Avro blocks whose rows are not."""
    native: bool = False
    """Native logs, merged as in the layout lsm_tree; they have `parquet_blocks`."""
    base_sorted: bool = True
    spread: Spread = Spread.EVERYWHERE
    deletes: float = 0.0
    """This share of a log's records."""
    large_row_bytes: int = 0
    """The text of one row of the first log."""

    def scaled(self, scale: float) -> Shape:
        """The same with fewer or more rows, at least 100 in a file."""
        return replace(
            self,
            base_rows=max(100, round(self.base_rows * scale)) if self.base_rows else 0,
            log_rows=max(100, round(self.log_rows * scale)),
        )

    @property
    def is_log_operation(self) -> bool:
        return self.base_rows == 0

    @property
    def runs(self) -> int:
        """Files that are merged."""
        return self.logs + bool(self.base_rows)

    @property
    def schema_json(self) -> str:
        """Avro, every column nullable, as Spark writes it."""
        fields = [
            {"name": name, "type": ["null", _avro_type(kind, name)], "default": None}
            for name, kind in self.columns.items()
        ]
        return json.dumps({"type": "record", "name": "row", "namespace": "bench", "fields": fields})


def _avro_type(kind: str, name: str) -> Any:
    kind = kind.removeprefix(SPARSE)
    if kind == "address":
        fields = [{"name": "street", "type": "string"}, {"name": "number", "type": "int"}]
        return {"type": "record", "name": f"{name}_record", "fields": fields}
    return AVRO_TYPES[kind]


SPARSE = "sparse "
"""In front of a kind: six of ten values are null."""

AVRO_TYPES: dict[str, Any] = {
    "key": "string",
    "ordering": "long",
    "int": "int",
    "long": "long",
    "double": "double",
    "boolean": "boolean",
    "word": "string",  # one of 500
    "code": "string",  # 16 characters by chance
    "note": "string",  # one of 7,777 for a version
    "text": "string",  # 2,000 characters by chance
    "numbers": {"type": "array", "items": "long"},
    "attributes": {"type": "map", "values": "string"},
    "address": None,  # a record, which needs a name of its own
}

_KEYED: Columns = {KEY_COLUMN: "key", ORDERING_COLUMN: "ordering"}
FIFTEEN: Columns = _KEYED | {
    "account": "int",
    "big": "long",
    "ratio": "double",
    "score": "double",
    "active": "boolean",
    "seen": "long",
    "city": "word",
    "state": "word",
    "note": "note",
    "trace": "code",
    "amount": "double",
    "day": "int",
    "shop": "int",
}
NARROW: Columns = _KEYED | {"value": "long"}
WIDE: Columns = _KEYED | {
    f"c{number:03}": SPARSE + ("long", "int", "word", "double")[number % 4] for number in range(198)
}
LONG: Columns = _KEYED | {"value": "long", "title": "note", "body": "text"}
NESTED: Columns = _KEYED | {
    "value": "long",
    "numbers": "numbers",
    "attributes": "attributes",
    "home": "address",
    "work": SPARSE + "address",
}

SHAPES = {
    shape.name: shape
    for shape in (
        Shape("typical", "Avro logs, 15 columns", 2_000_000, 20, 30_000, FIFTEEN),
        Shape("avro-8-runs", "few large Avro logs", 2_000_000, 7, 286_000, FIFTEEN),
        Shape(
            "parquet-8-runs",
            "few large logs of sorted Parquet blocks",
            2_000_000,
            7,
            286_000,
            FIFTEEN,
            parquet_blocks=True,
        ),
        Shape(
            "lsm-8-runs",
            "few large native logs, by the ranks of files",
            2_000_000,
            7,
            286_000,
            FIFTEEN,
            parquet_blocks=True,
            native=True,
        ),
        Shape(
            "lsm-deletes",
            "30 % of the records of native logs delete",
            1_000_000,
            20,
            30_000,
            FIFTEEN,
            parquet_blocks=True,
            native=True,
            deletes=0.3,
        ),
        Shape("64-logs", "sorted Parquet blocks", 2_000_000, 64, 31_000, FIFTEEN, parquet_blocks=True),
        Shape("256-logs", "sorted Parquet blocks", 1_000_000, 256, 4_000, FIFTEEN, parquet_blocks=True),
        Shape("unsorted-base", "the base file has no order", 2_000_000, 20, 30_000, FIFTEEN, base_sorted=False),
        Shape("narrow", "few columns", 2_000_000, 20, 30_000, NARROW),
        Shape("wide", "60 % of the values are null", 100_000, 10, 6_000, WIDE),
        Shape("long-strings", "2,000 characters in a row", 150_000, 10, 6_000, LONG),
        Shape("nested", "lists, maps, records", 400_000, 10, 12_000, NESTED),
        Shape(
            "sparse-clustered",
            "1 % of the base, in 7 ranges",
            5_000_000,
            7,
            7_143,
            FIFTEEN,
            parquet_blocks=True,
            spread=Spread.CLUSTERED,
        ),
        Shape("sparse-random", "1 % of the base, all over it", 5_000_000, 7, 7_143, FIFTEEN, parquet_blocks=True),
        Shape(
            "disjoint-logs",
            "logs of new keys, each a range",
            1_000_000,
            8,
            100_000,
            FIFTEEN,
            parquet_blocks=True,
            spread=Spread.DISJOINT,
        ),
        Shape("hot-keys", "half of the log rows are one key", 500_000, 20, 100_000, FIFTEEN, spread=Spread.HOT),
        Shape("deletes", "30 % of the log records delete", 1_000_000, 20, 30_000, FIFTEEN, deletes=0.3),
        Shape("log-avro", "a LOG of Avro logs", 0, 30, 39_000, FIFTEEN),
        Shape("log-parquet", "a LOG of Parquet blocks", 0, 30, 105_000, FIFTEEN, parquet_blocks=True),
    )
}
