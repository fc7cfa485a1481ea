"""Record keys that a table has already, by which its writers' way of making keys is told.

Touches: storage, reading the footers of a few base files.
Source:  the key range in a base file's footer (`format/parquet/key_summary.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.format.parquet.base_file import read_edge_keys
from lakeward.storage.storage import Storage, join
from lakeward.table.snapshot import TableSnapshot

_FILES = 3


def existing_keys(storage: Storage, snapshot: TableSnapshot) -> Iterator[str]:
    """The smallest and the greatest key of some base files; none where there is no base file."""
    bases = [slice_.base_file for slice_ in snapshot.latest_slices if slice_.base_file is not None]
    for base in bases[:_FILES]:
        with storage.open_input(join(snapshot.base_path, base.path)) as source:
            yield from read_edge_keys(source, name=base.path)
