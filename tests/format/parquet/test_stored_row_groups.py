"""Row groups that one file takes over from another as bytes: read by the library, they are what they were."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.format.parquet import base_file, stored_row_groups
from lakeward.format.parquet.base_file import BaseFileWriter, open_base_file
from lakeward.format.parquet.stored_row_groups import NotCopyable, find_difference, read_stored_row_groups
from lakeward.format.parquet.thrift_tree import BINARY, FALSE, I16, I64, Struct, read_struct, write_struct
from tests.format.parquet.test_base_file import FULL, SCHEMA, row

ROWS = 8
"""A row group's."""


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", ROWS)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [row(f"key {i:04}", tags=[f"{i}", None], counts=[("a", i)]) for i in range(first, last)]


def batch(of: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(of, schema=SCHEMA)


def a_file(of: list[dict[str, Any]], **options: Any) -> io.BytesIO:
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, SCHEMA, file_name="old.parquet", **options)
    writer.write(batch(of))
    writer.close(is_sorted=True)
    return sink


def keys_of(file: io.BytesIO, group: int) -> list[pa.Array]:
    return [pq.ParquetFile(file).read_row_group(group).column("_hoodie_record_key").combine_chunks()]


def taken(source: io.BytesIO, plan: list[int | list[dict[str, Any]]], **options: Any) -> tuple[io.BytesIO, Any]:
    """A file of row groups of the source, by their numbers, and of rows."""
    stored = read_stored_row_groups(source, name="old.parquet")
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, SCHEMA, file_name="new.parquet", **options)
    assert writer.form == stored.form
    for part in plan:
        if isinstance(part, int):
            writer.copy(source, stored.groups[part], keys_of(source, part))
        else:
            writer.write(batch(part))
    return sink, writer.close(is_sorted=True)


PLANS: list[list[int | list[dict[str, Any]]]] = [
    [0, 1, 2],
    [1],
    [rows(0, 2), 0, rows(8, 9), 2],
    [0, rows(8, 30)],
    [rows(100, 130), 2, 1, rows(200, 201), 0, rows(300, 303)],
]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_rows_are_those_of_the_parts_in_their_order(plan: list[Any], codec: str) -> None:
    """The library reads what was copied between what it wrote, with the new file's name in each row."""
    old = [FULL, *rows(1, 3 * ROWS)]
    source = a_file(old)
    sink, stats = taken(source, plan, codec=codec)
    expected = [
        each for part in plan for each in (old[part * ROWS : part * ROWS + ROWS] if isinstance(part, int) else part)
    ]
    renamed = [{**each, "_hoodie_file_name": "new.parquet"} for each in expected]
    assert pq.read_table(sink).cast(SCHEMA).equals(pa.Table.from_pylist(renamed, schema=SCHEMA))
    assert (stats.rows, stats.size_bytes) == (len(expected), len(sink.getvalue()))
    assert [pair[0] for pair in stats.copied] == [part for part in plan if isinstance(part, int)]
    assert find_difference(source, sink, stats.copied, file_name="new.parquet") is None
    keys = [each["_hoodie_record_key"] for each in expected]
    assert (stats.min_key, stats.max_key) == (min(keys), max(keys))


@pytest.mark.wide
@pytest.mark.parametrize("plan", PLANS)
def test_duckdb_reads_them(tmp_path: Path, plan: list[Any]) -> None:
    """All columns, and each key by itself, which it looks for by statistics of row groups and pages."""
    duckdb = pytest.importorskip("duckdb")
    sink, stats = taken(a_file([FULL, *rows(1, 3 * ROWS)]), plan)
    (path := tmp_path / "new.parquet").write_bytes(sink.getvalue())
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
        expected = pq.read_table(path)
        assert found.num_rows == stats.rows
        for name in SCHEMA.names:
            assert found.column(name).cast(SCHEMA.field(name).type).to_pylist() == expected.column(name).to_pylist()
        whole = expected.select(["_hoodie_record_key", "id", "_hoodie_file_name"]).to_pylist()
        by_key = f"SELECT id, _hoodie_file_name FROM read_parquet('{path}') WHERE _hoodie_record_key = ?"
        for key in {each["_hoodie_record_key"] for each in whole}:
            named = [(each["id"], "new.parquet") for each in whole if each["_hoodie_record_key"] == key]
            assert connection.execute(by_key, [key]).fetchall() == named


def test_the_footer_is_that_of_a_file_whose_rows_were_encoded() -> None:
    """Filter, range, statistics, sizes and places: all that readers see is the same, and as many bytes."""
    source = a_file(rows(0, 3 * ROWS))
    encoded = io.BytesIO()
    writer = BaseFileWriter(encoded, SCHEMA, file_name="new.parquet")
    writer.write(batch(rows(0, 3 * ROWS)))
    writer.close(is_sorted=True)
    assert taken(source, [0, rows(ROWS, 2 * ROWS), 2])[0].getvalue() == encoded.getvalue()
    # A copied row group's own again, too.
    assert taken(taken(source, [0, 1, 2])[0], [0, 1, 2])[0].getvalue() == encoded.getvalue()


def test_page_indexes_move_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that use the pages' places and ranges find them."""
    whole = pq.ParquetWriter
    monkeypatch.setattr(pq, "ParquetWriter", lambda *a, **k: whole(*a, **k, write_page_index=True))
    source = a_file(rows(0, 3 * ROWS))
    sink, _ = taken(source, [rows(0, 3), 1, rows(100, 103), 2])
    metadata = pq.read_metadata(sink)
    assert metadata.num_row_groups == 4
    tree, _ = read_struct(footer_of(sink))
    for group in tree.get(4).values:
        for chunk in group.get(1).values:
            index, _ = read_struct(sink.getvalue(), chunk.get(4))
            facts = chunk.get(3)
            assert index.get(1).values[0].get(1) == facts.get(9)
            first_page, _ = read_struct(sink.getvalue(), index.get(1).values[0].get(1))
            assert first_page.get(5).get(1) <= facts.get(5)
            ranges, end = read_struct(sink.getvalue(), chunk.get(6))
            assert end - chunk.get(6) == chunk.get(7)
            if facts.get(3).values == [b"_hoodie_record_key"]:
                assert ranges.get(2).values == [facts.get(12).get(6)]


def test_chunks_are_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at once is bounded. Keeps 4 of format/parquet/stored_row_groups."""
    source = a_file(rows(0, ROWS))
    whole = taken(source, [0])[0].getvalue()
    monkeypatch.setattr(stored_row_groups, "_PIECE_BYTES", 7)
    asked: list[int] = []
    counted = mock.Mock(wraps=source)

    def read(size: int) -> bytes:
        asked.append(size)
        return source.read(size)

    counted.read.side_effect = read
    group = read_stored_row_groups(source, name="f").groups[0]
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, SCHEMA, file_name="new.parquet")
    writer.copy(counted, group, keys_of(source, 0))
    writer.close(is_sorted=True)
    assert max(asked) == 7
    assert sink.getvalue() == whole


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit below what is held while many small row groups are copied gives none of them. Keeps 4 of
    format/parquet/stored_row_groups."""
    whole = pq.ParquetWriter
    monkeypatch.setattr(pq, "ParquetWriter", lambda *a, **k: whole(*a, **k, write_page_index=True))
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 2)
    source = a_file(rows(0, 20))
    keys = [keys_of(source, group) for group in range(10)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    stored = read_stored_row_groups(source, name="old.parquet")
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, SCHEMA, file_name="new.parquet")
    for group, of_group in zip(stored.groups, keys, strict=True):
        writer.copy(source, group, of_group)
    writer.close(is_sorted=True)
    held = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert read_stored_row_groups(source, name="old.parquet", bytes_max=2 * held).groups
    with pytest.raises(NotCopyable, match="memory"):
        read_stored_row_groups(source, name="old.parquet", bytes_max=held)


def test_indexes_of_many_pages_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The footer says how large they are. Keeps 4 of format/parquet/stored_row_groups."""
    whole = pq.ParquetWriter
    monkeypatch.setattr(pq, "ParquetWriter", lambda *a, **k: whole(*a, **k, write_page_index=True))
    source = a_file(rows(0, ROWS))
    indexes = sum(
        chunk.get(5) + chunk.get(7)
        for group in read_struct(footer_of(source))[0].get(4).values
        for chunk in group.get(1).values
    )
    monkeypatch.setattr(stored_row_groups, "_INDEX_GROWTH", 100_000)
    with pytest.raises(NotCopyable, match="indexes"):
        read_stored_row_groups(source, name="f", bytes_max=1_000_000)
    monkeypatch.setattr(stored_row_groups, "_INDEX_GROWTH", 0)
    assert 0 < 4 * indexes < 1_000_000
    assert read_stored_row_groups(source, name="f", bytes_max=1_000_000).groups


def footer_of(file: io.BytesIO) -> bytes:
    data = file.getvalue()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def with_footer(file: io.BytesIO, change: Callable[[Struct], None]) -> io.BytesIO:
    footer = footer_of(file)
    tree, _ = read_struct(footer)
    change(tree)
    changed = write_struct(tree)
    return io.BytesIO(file.getvalue()[: -8 - len(footer)] + changed + len(changed).to_bytes(4, "little") + b"PAR1")


def chunk(tree: Struct, index: int = 2) -> Struct:
    """A column of the second row group; the third one has the record keys."""
    return tree.get(4).values[1].get(1).values[index]


def facts(tree: Struct, index: int = 2) -> Struct:
    return chunk(tree, index).get(3)


def put(fields: Callable[[Struct], Struct], number: int, kind: int, value: Any) -> Callable[[Struct], None]:
    return lambda tree: fields(tree).fields.update({number: (kind, value)})


def statistics(tree: Struct) -> Struct:
    return facts(tree).get(12)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (put(chunk, 1, BINARY, b"another.parquet"), "fields that are not known"),
        (put(chunk, 8, BINARY, b"encrypted with a column key"), "fields that are not known"),
        (put(chunk, 2, I64, 4), "fields that are not known"),
        (put(facts, 14, I64, 4), "fields that are not known"),
        (put(facts, 99, I64, 4), "fields that are not known"),
        (put(lambda tree: tree.get(4).values[1], 99, I64, 4), "fields that are not known"),
        (put(facts, 7, I64, 10**9), "lie on one another, or outside"),
        (put(facts, 7, I64, -1), "lie on one another, or outside"),
        (lambda tree: put(facts, 9, I64, facts(tree).get(9) + 1)(tree), "lie on one another, or outside"),
        (put(facts, 9, I64, 0), "lie on one another, or outside"),
        (lambda tree: facts(tree).fields.pop(9), "not that of a Parquet file"),
        (lambda tree: tree.fields.pop(4), "not that of a Parquet file"),
        (put(lambda tree: tree, 4, I64, 4), "not that of a Parquet file"),
        (put(statistics, 7, FALSE, None), "no exact range"),
        (lambda tree: statistics(tree).fields.pop(8), "no exact range"),
        (lambda tree: statistics(tree).fields.pop(6), "no exact range"),
        (put(statistics, 3, I64, 1), "no exact range"),
        (lambda tree: facts(tree).fields.pop(12), "no exact range"),
        (lambda tree: chunk(tree, 4).get(3).get(3).values.append(b"x"), "not the columns of Hudi"),
    ],
)
def test_what_is_not_understood_is_not_copied(change: Callable[[Struct], None], why: str) -> None:
    """A footer with anything more, or less, or elsewhere. Keeps 1, 2 of format/parquet/stored_row_groups."""
    file = with_footer(a_file(rows(0, 3 * ROWS)), change)
    with pytest.raises(NotCopyable, match=why):
        read_stored_row_groups(file, name="f")


def test_an_encrypted_footer_is_not_copied() -> None:
    """Nothing of the file is looked at. Keeps 1 of format/parquet/stored_row_groups."""
    file = io.BytesIO(a_file(rows(0, 2)).getvalue()[:-4] + b"PARE")
    with pytest.raises(NotCopyable, match="encrypted"):
        read_stored_row_groups(file, name="f")


def test_keys_too_long_for_statistics_are_not_copied() -> None:
    """The library leaves the range out. Keeps 2 of format/parquet/stored_row_groups."""
    with pytest.raises(NotCopyable, match="no exact range"):
        read_stored_row_groups(a_file([row("k" * 5000)]), name="f")


@pytest.mark.parametrize(
    "change",
    [
        put(lambda tree: tree, 6, BINARY, b"parquet-cpp-arrow version 1.0.0"),
        put(lambda tree: tree, 8, BINARY, b"an encryption algorithm"),
        lambda tree: tree.get(2).values[5].fields.update({4: (BINARY, b"renamed")}),
        lambda tree: tree.get(2).values[5].fields.update({3: (tree.get(2).values[5].fields[3][0], 0)}),  # required
        lambda tree: tree.get(7).values.pop(),
    ],
)
def test_files_of_another_form(change: Callable[[Struct], None]) -> None:
    """Another library, schema or order of values is another form. Keeps 3 of format/parquet/stored_row_groups."""
    file = a_file(rows(0, 2 * ROWS))
    form = read_stored_row_groups(file, name="f").form
    assert read_stored_row_groups(a_file(rows(0, 1), codec="snappy"), name="f").form == form
    assert read_stored_row_groups(with_footer(file, change), name="f").form != form
    assert read_stored_row_groups(a_file(rows(0, 1), required={"id"}), name="f").form != form


def test_ordinals_are_those_of_the_new_file() -> None:
    """A source may number its row groups."""

    def number(tree: Struct) -> None:
        for index, group in enumerate(tree.get(4).values):
            group.fields[7] = (I16, index)

    sink, _ = taken(with_footer(a_file(rows(0, 3 * ROWS)), number), [rows(0, 1), 2, 0])
    assert [group.get(7) for group in read_struct(footer_of(sink))[0].get(4).values] == [None, 1, 2]


@pytest.mark.parametrize("change", ["a page", "the footer", "the file's name", "the wrong row group"])
def test_a_copy_that_went_wrong_is_seen(change: str) -> None:
    """Every byte of the pages counts, and what the footer says of them."""
    source = a_file(rows(0, 3 * ROWS))
    sink, stats = taken(source, [rows(0, 1), 2, 0])
    pairs, name = list(stats.copied), "new.parquet"
    if change == "a page":
        at = pq.read_metadata(sink).row_group(1).column(7).data_page_offset + 40
        sink.getbuffer()[at] ^= 1
    elif change == "the footer":
        sink = with_footer(sink, lambda tree: facts(tree, 6).get(12).fields.update({3: (I64, 3)}))
    elif change == "the file's name":
        name = "another.parquet"
    else:
        pairs[0] = (1, pairs[0][1])
    assert find_difference(source, sink, pairs, file_name=name) is not None
    assert find_difference(source, taken(source, [rows(0, 1), 2, 0])[0], stats.copied, file_name="new.parquet") is None


def test_row_groups_can_be_passed_over() -> None:
    """Only the chosen ones are decoded, with columns of the file or without."""
    file = a_file(rows(0, 3 * ROWS))
    for schema in (SCHEMA, pa.schema([pa.field("new", pa.int32())])):
        found = open_base_file(file, schema, name="f", choose=lambda _: [0, 2])
        assert sum(each.num_rows for each in found) == 2 * ROWS
