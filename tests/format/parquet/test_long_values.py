"""Ranges of values that are too long for the library's footers."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.parquet import base_file
from lakeward.format.parquet.base_file import BaseFileWriter
from lakeward.format.parquet.footer import TAIL_BYTES, footer_bytes
from lakeward.format.parquet.long_values import LIBRARY_BYTES_MAX
from lakeward.format.parquet.stored_row_groups import NotCopyable, read_stored_row_groups
from lakeward.format.parquet.thrift_tree import read_struct

LONG = 5000
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", None, "z" * LONG, "k"]),
    "both": (pa.string(), ["é" * LONG, "b" * LONG, "z" * LONG, "k"]),
    "wide": (pa.string(), ["é" * 3000, "a", "b", "c"]),
    "bytes": (pa.binary(), [b"\xff" * LONG, b"b", b"a" * LONG, None]),
    "fixed": (pa.binary(LONG), [b"a" * LONG, b"b" * LONG, None, b"c" * LONG]),
    "list": (pa.list_(pa.string()), [["a", None], [], None, ["b" * LONG]]),
    "map": (pa.map_(pa.string(), pa.string()), [[("b", "x" * LONG)], None, [], [("c", None)]]),
    "record": (
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.string()))]),
        [{"a": "x", "b": ["b" * LONG]}, None, {"a": None, "b": ["c"]}, {"a": "y", "b": None}],
    ),
    "number": (pa.int64(), [1, 2, 3, None]),
    "again": (pa.string(), ["q" * LONG] * 4),
}
SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in META_COLUMNS]
    + [pa.field(name, kind) for name, (kind, _) in COLUMNS.items()]
)


def written(
    keys: list[str], columns: dict[str, list[Any]] | None = None, *, file_name: str = "f.parquet"
) -> io.BytesIO:
    """A file of row groups of four rows, or what a test has them be."""
    whole = {name: (values * len(keys))[: len(keys)] for name, (_, values) in COLUMNS.items()} | (columns or {})
    of_meta = {name: ["m"] * len(keys) for name in META_COLUMNS} | {"_hoodie_record_key": keys}
    writer = BaseFileWriter(sink := io.BytesIO(), SCHEMA, file_name=file_name)
    writer.write(pa.RecordBatch.from_pydict(of_meta | whole, schema=SCHEMA))
    writer.close(is_sorted=True)
    return sink


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 4)


def exactness(file: io.BytesIO, group: int) -> dict[str, tuple[bool, bool]]:
    """Whether the footer says that the smallest and greatest value of each column are there; pyarrow does not say."""
    data = file.getvalue()
    end = len(data) - TAIL_BYTES
    footer, _ = read_struct(data[end - footer_bytes(data[end:], file="f") : end])
    found = {}
    for chunk in footer.get(4).values[group].get(1).values:
        facts = chunk.get(3)
        found[".".join(map(bytes.decode, facts.get(3).values))] = facts.get(12).get(8), facts.get(12).get(7)
    return found


def statistics_of(file: io.BytesIO, group: int) -> dict[str, Any]:
    chunks = pq.read_metadata(file).row_group(group)
    return {(chunk := chunks.column(at)).path_in_schema: chunk for at in range(chunks.num_columns)}


def leaves_of(file: io.BytesIO, group: int) -> dict[str, pa.Array]:
    """The values of each column as the library reads them back."""
    found = {}
    for column, name in zip(
        (read := pq.ParquetFile(file).read_row_group(group)).columns, read.column_names, strict=True
    ):
        values = column.combine_chunks()
        match name:
            case "list":
                found["list.list.element"] = values.flatten()
            case "map":
                found["map.key_value.key"], found["map.key_value.value"] = values.keys, values.items
            case "record":
                found["record.a"], of_b = values.flatten()
                found["record.b.list.element"] = of_b.flatten()
            case _:
                found[name] = values
    return found


def test_every_value_is_within_the_range_of_its_row_group():
    """Keeps 1 of format/parquet/long_values, keeps 6 of format/parquet/base_file: texts and bytes of any length, by
    themselves, within lists, maps and records, nulls among them, in each row group."""
    keys = ["k0", "k1", "k2", "k3", "l0", "l1", "l2", "l" * LONG]
    file = written(keys, {"again": ["short"] * 4 + ["q" * LONG] * 4})
    assert pq.read_metadata(file).num_row_groups == 2
    for group in range(2):
        chunks, leaves = statistics_of(file, group), leaves_of(file, group)
        assert chunks.keys() == leaves.keys()
        for path, values in leaves.items():
            values = values.drop_null()
            said = chunks[path].statistics
            assert said.has_min_max, path
            ends = pc.min_max(values).as_py()
            low, high = (end if isinstance(end, int) else raw_of(end) for end in (ends["min"], ends["max"]))
            assert said.min_raw <= low and high <= said.max_raw, path
            # A bound that is not among the values is short, and said not to be.
            is_exact = (said.min_raw == low, said.max_raw == high)
            assert exactness(file, group)[path] == is_exact, path
            for end, is_whole in zip((said.min_raw, said.max_raw), is_exact, strict=True):
                assert is_whole or len(end) <= 512, path
    last = statistics_of(file, 1)["_hoodie_record_key"].statistics
    assert (last.min_raw, last.max_raw) == (b"l0", b"l" * 255 + b"m")


def raw_of(end: str | bytes) -> bytes:
    return end.encode() if isinstance(end, str) else end


def test_what_the_library_says_stays():
    """Keeps 2 of format/parquet/long_values: up to its limit it says both ends, and above it the other one; a file
    without long values is as the library writes it."""
    for length, is_said in ((LIBRARY_BYTES_MAX, True), (LIBRARY_BYTES_MAX + 1, False)):
        pq.write_table(pa.table({"a": ["m" * length, "x"]}), sink := io.BytesIO())
        assert pq.read_metadata(sink).row_group(0).column(0).statistics.has_min_max == is_said, "the library's limit"
    file = written(["a", "b"], {"text": ["a", "m" * LIBRARY_BYTES_MAX]})
    said = statistics_of(file, 0)["text"].statistics
    assert (said.min_raw, said.max_raw) == (b"a", b"m" * LIBRARY_BYTES_MAX)
    said = statistics_of(written(["a", "b"]), 0)["text"].statistics
    assert said.min_raw == b"a"


def test_text_that_is_none_has_no_range():
    """What it would be cut to is not known; the file is written, and a reader of its text says what is wrong."""
    broken = pa.array([b"\xff" * LONG, b"a"]).view(pa.string())
    schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), pa.field("text", pa.string())])
    columns = [pa.array(["a", "b"])] * len(META_COLUMNS)
    writer = BaseFileWriter(sink := io.BytesIO(), schema, file_name="f.parquet")
    writer.write(pa.RecordBatch.from_arrays([*columns, broken], schema=schema))
    writer.close()
    assert not statistics_of(sink, 0)["text"].statistics.has_min_max


def test_row_groups_are_copied_with_their_ranges():
    """Other columns than the key have long values; between them come rows with a long key, which gets its range."""
    source = written([f"k{n}" for n in range(8)])
    groups = read_stored_row_groups(source, name="f").groups
    writer = BaseFileWriter(sink := io.BytesIO(), SCHEMA, file_name="f.parquet")
    keys = [pq.ParquetFile(source).read_row_group(at).column("_hoodie_record_key").combine_chunks() for at in range(2)]
    writer.copy(source, groups[0], [keys[0]])
    between = pq.ParquetFile(written(["k3", "k3" + "x" * LONG])).read().cast(SCHEMA)
    (batch,) = between.to_batches()
    writer.write(batch)
    writer.copy(source, groups[1], [keys[1]])
    writer.close()
    for mine, hudis in ((0, 0), (2, 1)):
        assert exactness(sink, mine) == exactness(source, hudis)
        for path, of_source in statistics_of(source, hudis).items():
            assert statistics_of(sink, mine)[path].statistics.equals(of_source.statistics), path
    said = statistics_of(sink, 1)["_hoodie_record_key"].statistics
    assert (said.min_raw, said.max_raw) == (b"k3", b"k3" + b"x" * 253 + b"y")


def test_a_column_without_a_range_is_not_copied(monkeypatch: pytest.MonkeyPatch):
    """Keeps 2 of format/parquet/stored_row_groups: such a file is of before ranges of long values were put there."""
    monkeypatch.setattr(base_file, "find_long", lambda table: {})
    with pytest.raises(NotCopyable, match="without a range"):
        read_stored_row_groups(written(["a", "b"]), name="f")
