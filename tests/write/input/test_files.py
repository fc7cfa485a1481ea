"""Rows from files: Parquet and JSON lines."""

import datetime
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import UsageError
from lakeward.write.input.files import RowFormat, open_rows

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("t", pa.timestamp("us", "UTC"))])
MOMENT = datetime.datetime(2024, 3, 4, 5, 6, 7, 123456)


def rows_of(source):
    return [row for batch in source.batches() for row in batch.to_pylist()]


def test_parquet_files_come_one_after_the_other(tmp_path):
    """Keeps 1 of write/input/files: columns by name, moments in INT96 as those in UTC that they are."""
    first, second = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    table = pa.table({"id": ["a", "b"], "t": pa.array([MOMENT, None], pa.timestamp("us"))})
    pq.write_table(table, first, use_deprecated_int96_timestamps=True)
    pq.write_table(table.select(["t", "id"]), second, use_deprecated_int96_timestamps=True)

    source = open_rows([first, second])

    assert source.schema == pa.schema([("id", pa.string()), ("t", pa.timestamp("us", "UTC"))])
    assert [row["id"] for row in rows_of(source)] == ["a", "b", "a", "b"]
    assert next(source.batches()).column("t")[0].as_py() == MOMENT.replace(tzinfo=datetime.UTC)


def test_parquet_files_of_other_columns_are_refused(tmp_path):
    paths = [str(tmp_path / f"{name}.parquet") for name in "abc"]
    for path, table in zip(paths, ({"id": ["a"]}, {"id": ["a"], "n": [1]}, {"id": [1]}), strict=True):
        pq.write_table(pa.table(table), path)

    with pytest.raises(UsageError, match=r"b.parquet has other columns than .*a.parquet.*Only one of the two has n"):
        _ = open_rows(paths[:2]).schema
    with pytest.raises(UsageError, match=r"column id of .*c.parquet is int64, and that of .*a.parquet is string"):
        _ = open_rows([paths[0], paths[2]]).schema


def test_lines_have_the_types_of_the_table(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(
        '{"id": "007", "n": 5, "t": "2024-03-04T05:06:07.123456Z", "new": {"x": [1.5]}}\n\n{"n": null, "id": "b"}\n'
    )

    source = open_rows([str(file)], table_columns=COLUMNS)

    assert source.schema == COLUMNS.append(pa.field("new", pa.struct([("x", pa.list_(pa.float64()))])))
    assert rows_of(source) == [
        {"id": "007", "n": 5, "t": MOMENT.replace(tzinfo=datetime.UTC), "new": {"x": [1.5]}},
        {"id": "b", "n": None, "t": None, "new": None},
    ]


def test_lines_come_from_a_pipe():
    pipe = io.BytesIO(b'{"id": "a"}\n{"id": "b"}')

    source = open_rows(["-"], table_columns=COLUMNS, standard_input=lambda: pipe)

    assert source.schema.names == ["id"]
    assert rows_of(source) == [{"id": "a"}, {"id": "b"}]
    assert open_rows(["-"], table_columns=COLUMNS, all_columns=True, standard_input=io.BytesIO).schema == COLUMNS


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": 5}', "Line 3 of .* has 5 in id. id is string"),
        ('{"n": 1.5}', "Line 3 of .* has 1.5 in n"),
        ('{"n": 3000000000}', "Line 3 of .* has 3000000000 in n"),
        ('{"n": true}', "has True in n"),
        ('{"t": "2024-03-04T05:06:07"}', "has '2024-03-04T05:06:07' in t"),
        ('{"t": "yesterday"}', "has 'yesterday' in t"),
        ('{"id": "a", ', "Line 3 of .* is no JSON object"),
        ('{"id": "a", "n": 1, "id": "b"}', "Line 3 of .* has the key 'id' twice. The two may have different values"),
        ('{"s": [{"x": 1, "\\u0078" : 2}]}', "Line 3 of .* has the key 'x' twice"),
        ("[1]", "Line 3 of .* is no JSON object. It is a list"),
        ('{"m": null}', "type of the new column m cannot be inferred .* All of its values are null"),
    ],
)
def test_an_error_names_the_line(line, words):
    """Keeps 3 of write/input/files."""
    pipe = io.BytesIO(f'{{"id": "a", "n": 1}}\n\n{line}\n'.encode())

    with pytest.raises(UsageError, match=words):
        rows_of(open_rows(["-"], table_columns=COLUMNS, standard_input=lambda: pipe))


def test_a_column_that_comes_late_is_refused(monkeypatch):
    """What was written of the rows before it would say null where they say nothing."""
    monkeypatch.setattr("lakeward.write.input.json_lines.BATCH_ROWS", 2)
    pipe = io.BytesIO(b'{"id": "a"}\n{"id": "b"}\n{"id": "c"}\n{"id": "d", "n": 1}\n')

    with pytest.raises(UsageError, match="Line 4 of standard input has the column n, which none of the first rows has"):
        rows_of(open_rows(["-"], table_columns=COLUMNS, standard_input=lambda: pipe))


@pytest.mark.parametrize(
    ("files", "shown", "words"),
    [
        ([], None, "no input"),
        (["-", "b.jsonl"], None, "one input of several"),
        (["-"], RowFormat.PARQUET, "cannot be read from standard input"),
    ],
)
def test_inputs_that_are_refused(files, shown, words):
    with pytest.raises(UsageError, match=words):
        open_rows(files, row_format=shown)


def test_formats_that_are_not_known_or_differ_are_shown(tmp_path):
    """The remedies name options that exist alone."""
    for name in ("a.xml", "a.parquet", "b.jsonl"):
        (tmp_path / name).touch()
    for names, what, remedy in (
        (
            ["a.xml"],
            f"The format of {tmp_path / 'a.xml'} is not known.",
            "Give it the ending of what it holds, or pass JSON lines through standard input with --input -.",
        ),
        (
            ["a.parquet", "b.jsonl"],
            "The input files have several formats: jsonl, parquet.",
            "Write the files of each format by themselves.",
        ),
    ):
        with pytest.raises(UsageError) as refused:
            open_rows([str(tmp_path / name) for name in names])
        assert (refused.value.what, refused.value.remedy) == (what, remedy)


def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch):
    """Before anything is read of the others; and a folder is called one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days.jsonl").mkdir()
    (tmp_path / "b.jsonl").touch()
    for name in (str(tmp_path / "a.parquet"), "a.jsonl"):
        with pytest.raises(UsageError) as refused:
            open_rows(["b.jsonl", name])
        assert refused.value.what == f"The input {name} does not exist."
        below = f"A path that does not begin with / is looked for below {tmp_path}."
        assert refused.value.why == ("" if name[0] == "/" else below)
    with pytest.raises(UsageError, match=r"The input days\.jsonl is a folder\. Name the files in it"):
        open_rows(["days.jsonl"])


def test_what_looks_like_a_key_twice_is_none():
    """A text may have what ends a key; and objects beside each other may have the same keys. Keeps 4 of
    write/input/json_lines."""
    text = b'{"id": ":\\": \\"id\\": ", "k": [{"x": 1}, {"x": 2}]}'
    source = open_rows(["-"], standard_input=lambda: io.BytesIO(text))
    assert rows_of(source) == [{"id": ':": "id": ', "k": [{"x": 1}, {"x": 2}]}]


def test_a_key_twice_is_found_where_there_are_decimals():
    """Such lines are read by another parser."""
    columns = pa.schema([("d", pa.decimal128(10, 2))])
    source = open_rows(["-"], table_columns=columns, standard_input=lambda: io.BytesIO(b'{"d": 1, "d": 2}'))
    with pytest.raises(UsageError, match=r"Line 1 of .* has the key 'd' twice"):
        rows_of(source)
