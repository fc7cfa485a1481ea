"""A record index below its table, built at any moment of the table's life and kept up to date, against the rows.

A seed is one life of a table; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lakeward.index.index_type import IndexType
from lakeward.index.record.index_growth import Scaling, ScalingWay
from lakeward.index.record.merge_choice import MergeOptions
from lakeward.index.record.record_manifest import find_manifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.table_indexes import OpenOwnIndex
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.index.external.test_external_lives import live
from tests.index.record.reopened_record_index import new_record_index
from tests.runs import runs

STORAGE = LocalStorage()


def opened(folder: Path, snapshot: TableSnapshot) -> RecordIndexWriter:
    return RecordIndexWriter.of(STORAGE, snapshot, str(folder), merges=MergeOptions(3, 0.3))


def made(base: Path) -> list[OpenOwnIndex]:
    """A global one below the table, and one by partition elsewhere; their buckets are full soon."""
    folders = Path(RecordOptions().folder(str(base))), base.parent / "elsewhere"
    for folder, way in zip(folders, ScalingWay, strict=True):
        is_global = way is ScalingWay.GROUP
        new_record_index(folder, is_global=is_global, buckets=2, scaling=Scaling(way, entries_max=5))
    return [partial(opened, folder) for folder in folders]


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(20)))]


@pytest.mark.slow
@pytest.mark.parametrize("own", [None, IndexType.RECORD], ids=["others write", "writes use it, too"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.turns(22)
def test_a_table_is_followed(tmp_path: Path, seed: int, own: IndexType | None) -> None:
    """No key is missed and none is found where it is not, before a build, after one that was stopped, after one that
    was not and beside updates, merges and growth, whatever is done to the table, and whether its writes inform the
    index or not; and nothing that is done to the table touches the index that is below it."""
    print(f"seed {seed}")
    live(tmp_path / "t", seed, 16, made, own)
    for folder in (Path(RecordOptions().folder(str(tmp_path / "t"))), tmp_path / "elsewhere"):
        found = find_manifest(STORAGE, str(folder))
        assert found is not None
        for file in found[1].files:
            size = (folder / file.path).stat().st_size
            assert size >= file.offset + file.size if file.is_in_log else size == file.size
