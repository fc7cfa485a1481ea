"""Parquet files that are small on disk and large in memory are read in batches that fit."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.pages import PageWatch
from tests.format import inflating_files
from tests.format.inflating_files import DO_NOT_FIT, FIT, KEY, MB, repeated, with_keys

BYTES_MAX = 16 * MB


def names(cases: Any) -> list[str]:
    return [case.__name__ for case in cases]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What a process of its own found in each file, in this order."""
    folder = tmp_path_factory.mktemp("inflating")
    cases = [*FIT, *DO_NOT_FIT]
    paths = [inflating_files.write(folder, case) for case in cases]
    assert sum(path.stat().st_size for path in paths) < MB
    command = [sys.executable, "-m", "tests.format.inflating_files", str(BYTES_MAX), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(names(cases), map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", names(FIT))
def test_batches_are_bounded_by_decoded_bytes(case: str, found: dict[str, dict[str, Any]]) -> None:
    """However it is that a file inflates, a batch is not larger than the bound, nor the process by a multiple of it."""
    assert found[case]["error"] == ""
    assert found[case]["rows"] > 0
    assert found[case]["largest"] <= 1.1 * BYTES_MAX  # lengths and null bits are not counted to the byte
    assert found[case]["peak"] < 8 * BYTES_MAX, found


@pytest.mark.slow
def test_a_row_above_the_bound_is_named(found: dict[str, dict[str, Any]]) -> None:
    """An error that names key, column, file and remedy, instead of the memory; rows before it came out."""
    whole, of_list = (found[case.__name__] for case in DO_NOT_FIT)
    assert (
        "The column text of one of 3 rows that begin with the key 'key 0' in the base file one_row_too"
        in whole["error"]
    )
    assert "The column tags of the row with the key 'key 2' in the base file one_list_too" in of_list["error"]
    assert of_list["rows"] == 2
    for each in (whole, of_list):
        assert "16.0 MiB are allowed. Allow the operation more memory" in each["error"]
        assert each["peak"] < 8 * BYTES_MAX


@pytest.mark.parametrize("case", [*FIT[1:2], *FIT[5:7]], ids=lambda case: str(case.__name__))
def test_rows_stay_the_same(case: Any, tmp_path: Path) -> None:
    """Smaller batches, and lists that came out of dictionaries, hold the file's rows, in its order."""
    path = inflating_files.write(tmp_path, case)
    whole = pq.read_table(path)
    at = 0
    for batch in inflating_files.read(path, BYTES_MAX):
        assert pa.Table.from_batches([batch]) == whole.slice(at, batch.num_rows).cast(batch.schema)
        at += batch.num_rows
    assert at == whole.num_rows


def read(table: pa.Table, **options: Any) -> list[pa.RecordBatch]:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    file = ParquetBatches(sink, where="the file", bytes_max=BYTES_MAX)
    return list(file.read(file.schema.names))


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_codec_and_page_version_is_understood(compression: str, version: str) -> None:
    """Whatever wrote the pages, all rows come; columns with nulls, several row groups, old and long dictionaries."""
    texts = [None if n % 7 == 0 else f"value {n % 300}" * 9 for n in range(20_000)]
    table = with_keys(text=pa.array(texts), number=pa.array(range(20_000)), tags=pa.array([[text] for text in texts]))
    batches = read(
        table, compression=compression, data_page_version=version, row_group_size=9_000, data_page_size=5_000
    )

    assert pa.Table.from_batches(batches) == table
    assert len(batches) == 3


def test_dictionary_of_ordinary_values_does_not_make_batches_small() -> None:
    """A dictionary of a megabyte would inflate to gigabytes if each row had all of it; its longest value shows it."""
    table = with_keys(text=repeated([f"{n:050}" for n in range(10_000)], [n % 10_000 for n in range(16_000)]))
    assert [batch.num_rows for batch in read(table)] == [16_000]


def test_a_lying_footer_changes_no_bound(tmp_path: Path) -> None:
    """Sizes are those of the pages: a footer that says little of them brings no more of them at once."""
    table = with_keys(text=pa.array(["q" * 50_000] * 2_000))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_batch_size=4)
    file = ParquetBatches(sink, where="the file", bytes_max=BYTES_MAX)
    assert file.metadata.row_group(0).total_byte_size > 4 * BYTES_MAX
    file._first_guess = lambda group, rows_max: rows_max  # type: ignore[method-assign]

    sizes = [(batch.num_rows, batch.nbytes) for batch in file.read([KEY, "text"])]

    assert sum(rows for rows, _ in sizes) == 2_000
    assert max(size for _, size in sizes) <= BYTES_MAX


def test_many_columns_of_dictionaries_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group is begun twice at most, however many of its columns repeat their values, and once where they stay
    in their dictionaries."""
    names = [f"c{number}" for number in range(10)]
    values = pa.array([chr(65 + number) * 200 for number in range(30)] * 600)
    sink = io.BytesIO()
    pq.write_table(pa.table([values] * len(names), names=names), sink)
    begun = []
    begin = PageWatch.begin

    def counted(self: PageWatch, chunks: Any) -> None:
        begun.append(len(chunks))
        begin(self, chunks)

    monkeypatch.setattr(PageWatch, "begin", counted)
    file = ParquetBatches(sink, where="x", bytes_max=64 * 1024 * 1024)
    assert sum(batch.num_rows for batch in file.read(names)) == len(values)
    assert begun == [len(names)] * 2
    begun.clear()
    kept = pa.Table.from_batches(file.read(names, dictionaries=names))
    assert kept.column(0).cast(pa.string()).combine_chunks().equals(values)
    assert begun == [len(names)]
