"""Rows from CSV."""

import datetime
import io
from decimal import Decimal

import pyarrow as pa
import pytest

from lakeward.base.errors import UsageError
from lakeward.write.input.files import RowFormat, open_rows

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("price", pa.decimal128(5, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("truth", pa.bool_()),
        ("tags", pa.list_(pa.string())),
    ]
)


def source_of(text):
    content = text if isinstance(text, bytes) else text.encode()
    return open_rows(["-"], row_format=RowFormat.CSV, table_columns=COLUMNS, standard_input=lambda: io.BytesIO(content))


def rows_of(source):
    return [row for batch in source.batches() for row in batch.to_pylist()]


def test_values_have_the_types_of_the_table():
    """Digits in a column of texts stay as they are, and so does a column that the table does not have."""
    text = (
        "\ufeffnew,id,n,price,day,at,local,truth\r\n"
        "05,007,-5,12.5,2024-03-04,2024-03-04T05:06:07.5+01:00,2024-03-04 05:06:07,true\r\n"
        '"a,""b""\nc","",,,,,,\r\n'
    )
    source = source_of(text)

    assert source.schema == pa.schema([("new", pa.string()), *(field for field in COLUMNS if field.name != "tags")])
    first, second = rows_of(source)
    assert first == {
        "new": "05",
        "id": "007",
        "n": -5,
        "price": Decimal("12.50"),
        "day": datetime.date(2024, 3, 4),
        "at": datetime.datetime(2024, 3, 4, 4, 6, 7, 500000, tzinfo=datetime.UTC),
        "local": datetime.datetime(2024, 3, 4, 5, 6, 7),
        "truth": True,
    }
    assert second == {**dict.fromkeys(source.schema.names), "new": 'a,"b"\nc', "id": ""}


def test_files_come_one_after_the_other(tmp_path):
    """Keeps 1 of write/input/csv_files: the columns of each in any order."""
    for name, text in (("a", "id,n\na,1\nb,2\n"), ("b", "n,id\n3,c\n")):
        (tmp_path / f"{name}.csv").write_text(text)

    source = open_rows([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], table_columns=COLUMNS)

    assert rows_of(source) == [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "c", "n": 3}]


def test_no_more_than_blocks_are_in_memory(monkeypatch):
    """Keeps 2 of write/input/csv_files."""
    monkeypatch.setattr("lakeward.write.input.csv_files._BLOCK_BYTES", 1000)
    source = source_of("id,n\n" + "".join(f"{number},{number}\n" for number in range(1000)))

    sizes = [batch.num_rows for batch in source.batches()]
    assert sum(sizes) == 1000
    assert max(sizes) < 200
    with pytest.raises(UsageError, match="A row has more than 1,000 B; a quotation mark may be open"):
        rows_of(source_of("id,n\n" + "x" * 5000 + ",1\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,n\na,1\nb,x\n", "In the column n: Row #3: CSV conversion error to int32: invalid value 'x'"),
        ("id,n\na,3000000000\n", "In the column n: Row #2"),
        ("id,n\na,1.0\n", "In the column n: Row #2"),
        ("id,n\na,1\nb\n", "Row #3: Expected 2 columns, got 1"),
        ("id,price\na,1\nb,1234.5\n", r"Row 3 has a number in price with more digits than decimal128\(5, 2\)"),
        ("id,price\na,1.005\n", "In the column price: Row #2"),
        ("id,at\na,2024-03-04T05:06:07\n", "In the column at: Row #2: .*expected a zone offset"),
        ("id,local\na,2024-03-04T05:06:07Z\n", "In the column local: Row #2: .*expected no zone offset"),
        ("id,truth\na,1\n", "In the column truth: Row #2"),
        ('n,id\n1,"a\n2,b\n', "A quotation mark is opened and not closed"),
        (b"id\n\xff\n", "In the column id: .*invalid UTF8"),
        ("id,id\na,b\n", "does not name the columns. It has 'id' twice"),
        ("id,\na,b\n", "does not name the columns. A name is empty"),
        ("", "is empty"),
        ("id,tags\na,b\n", "column tags cannot be given as CSV. Its type is list"),
    ],
)
def test_an_error_names_the_place(text, words):
    """Keeps 3 of write/input/csv_files."""
    with pytest.raises(UsageError, match=f"standard input.*{words}" if "tags" not in words else words):
        rows_of(source_of(text))


def test_files_of_other_columns_are_refused(tmp_path):
    for name, text in (("a", "id\na\n"), ("b", "id,n\na,1\n")):
        (tmp_path / f"{name}.csv").write_text(text)

    with pytest.raises(UsageError, match=r"b.csv has other columns than .*a.csv.*Only one of the two has n"):
        rows_of(open_rows([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]))
