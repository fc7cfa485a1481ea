"""A sample of the footers of base files, which stands for those of all: what their filters take.

Touches: storage, reading: footers.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from lakeward.base.errors import NotFound
from lakeward.base.paths import join
from lakeward.format.metadata.base_file_stats import read_bloom_filter
from lakeward.storage.storage import Storage
from lakeward.table.file_group import BaseFile
from lakeward.table.snapshot import TableSnapshot

FOOTERS: Final = 20
"""So many footers are opened, or all where there are no more files."""


def sample_bases(bases: Sequence[BaseFile], *, seed: int = 0) -> list[BaseFile]:
    """The files whose footers are opened, in the order of their paths; the same for equal files and seeds."""
    in_order = sorted(bases, key=lambda base: base.path)
    chosen = Random(seed).sample(range(len(in_order)), min(FOOTERS, len(in_order)))
    return [in_order[at] for at in sorted(chosen)]


def filter_bytes(storage: Storage, snapshot: TableSnapshot, base: BaseFile) -> int | None:
    """The bytes of its filter; None where it has none, or was cleaned meanwhile."""
    try:
        with storage.open_input(join(snapshot.base_path, base.path)) as file:
            found = read_bloom_filter(file, file_name=base.name)
    except NotFound:
        return None
    return None if found is None else len(found[1])
