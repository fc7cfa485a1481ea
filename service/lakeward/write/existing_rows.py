"""Some rows that a table has already, by which its writers' way of making keys is proved (`keys/proving.py`).

Touches: storage, reading the first rows of a few base files, of few columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from lakeward.format.avro.schema import block_schema
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.format.projection import project
from lakeward.storage.storage import Storage, join
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.keyed_rows import PARTITION_PATH, RECORD_KEY

_ROWS = 500


def existing_rows(storage: Storage, snapshot: TableSnapshot, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The first rows of the newest base file and of the oldest, which other writers may have made; none where the table
    has no base file.

    Args:
        columns: which of the table's they have beside keys and paths, as far as they are in the file.

    Raises `BrokenFile`.
    """
    bases = [slice_.base_file for slice_ in snapshot.latest_slices if slice_.base_file is not None]
    if not bases or snapshot.schema is None:
        return
    bases.sort(key=lambda base: base.instant)
    known = {field.name: field for field in block_schema(snapshot.schema, where="the table")}
    keys = [pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH)]
    for base in {base.path: base for base in (bases[-1], bases[0])}.values():
        with broken_if_unreadable(base.path), storage.open_input(join(snapshot.base_path, base.path)) as source:
            file = ParquetBatches(source, where=base.path, coerce_int96_timestamp_unit="us")
            wanted = [known[name] for name in file.schema.names if name in known and name in columns]
            schema = pa.schema([*keys, *wanted])
            batch = next(
                file.read(schema.names, rows_max=_ROWS, groups=range(min(1, file.metadata.num_row_groups))), None
            )
            if batch is not None:
                yield project(batch, schema, where=base.path)
