"""What an index costs: read to build it, and written for it with a commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeward.cli.main import run
from lakeward.format.metadata.base_file_stats import read_bloom_filter
from lakeward.index.index_type import IndexType
from lakeward.index.record.record_file import FileKind
from lakeward.index.record.record_manifest import open_manifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.services.indexing.judge.cost import IndexCost, PutByCommits, index_cost
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from tests.clocks import SkippingClock
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base file in each of two partitions, a log on one of them, Hudi's record index, and two commits that Lakeward's
    has in delta files."""
    indexes = NewIndexes(finds_keys=NewIndex.METADATA)
    table = new_table(tmp_path_factory.mktemp("cost") / "t", indexes=indexes)
    write(table, [(f"k{n}", 1, "a", "x") for n in range(300)])
    assert run(["index", "build", str(table), "--type", "record"]) == 0
    write(table, [("other", 2, "b", "x")])
    write(table, [("k7", 3, "a", "y")])
    assert run(["index", "update", str(table), "--type", "record"]) == 0
    return table


def cost(table: Path, kind: IndexType) -> IndexCost:
    folder = RecordOptions().folder(str(table))
    put = PutByCommits(4, 10, 500)
    snapshot, clock = scan(table), SkippingClock()
    return index_cost(STORAGE, snapshot, kind, record_folder=folder, in_database=lambda number: put, clock=clock)


def test_what_is_read_to_build_it(table: Path) -> None:
    """The column chunks of keys, and whole logs; nothing for indexes that are there with the files."""
    read = 0
    for path in table.glob("*/*.parquet"):
        groups = pq.read_metadata(path)
        names = [groups.schema.column(at).path for at in range(groups.num_columns)]
        column = names.index("_hoodie_record_key")
        read += sum(groups.row_group(g).column(column).total_compressed_size for g in range(groups.num_row_groups))
    read += sum(path.stat().st_size for path in table.glob("*/.*.log.*") if not path.name.endswith(".crc"))
    for kind in (IndexType.METADATA, IndexType.RECORD, IndexType.POSTGRES):
        assert cost(table, kind).build_bytes == pytest.approx(read, abs=1)
    assert cost(table, IndexType.SIMPLE) == IndexCost(0, 0, 0)
    assert cost(table, IndexType.BLOOM).build_bytes == 0


def test_what_a_commit_writes_for_it(table: Path) -> None:
    """Filters of base files; the record index's part of commits on the metadata table; delta files; rows in a
    database, as it says."""
    filters = []
    for path in table.glob("*/*.parquet"):
        with path.open("rb") as file:
            found = read_bloom_filter(file, file_name=path.name)
        assert found is not None
        filters.append(len(found[1]))
    shown = cost(table, IndexType.BLOOM)
    assert (shown.commit_bytes, shown.commits) == (sum(filters) // 2, 2)

    logs = [*table.glob(".hoodie/metadata/record_index/.*.log.*")]
    shown = cost(table, IndexType.METADATA)
    written = sum(path.stat().st_size for path in logs if "_00000000000000" not in path.name and path.suffix != ".crc")
    assert shown.commits == 3 and shown.commit_bytes is not None
    assert shown.commit_bytes * 3 == pytest.approx(written, rel=0.35), "the log of the build is empty, but for its head"

    _, manifest = open_manifest(LocalStorage(), str(table / ".hoodie/.lakeward/index/record"))
    deltas = [file.size for file in manifest.files if file.kind is FileKind.DELTA]
    shown = cost(table, IndexType.RECORD)
    assert (shown.commits, shown.commit_bytes) == (2, round(sum(deltas) / 2))
    assert shown.commit_entries == 1, "each of both commits changed the place of one key, or wrote it over in place"
    shown = cost(table, IndexType.POSTGRES)
    assert (shown.commit_bytes, shown.commits, shown.commit_entries) == (125, 4, 2)


def test_before_any_commit(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    assert cost(table, IndexType.RECORD) == IndexCost(0, None, 0)
    assert cost(table, IndexType.BLOOM) == IndexCost(0, None, 0)
