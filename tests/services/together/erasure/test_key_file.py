"""Files of keys: text, CSV, Parquet; errors name file and line, and no key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import UsageError
from lakeward.services.together.erasure.key_file import key_hmac, read_key_file

SECRET = "secret-person-4711"


def test_a_key_a_line(tmp_path: Path) -> None:
    """Each key once, with its first line. Keeps 2 of services/together/erasure/key_file."""
    path = tmp_path / "keys.txt"
    path.write_bytes(f"{SECRET}\r\n\nother key, with a comma\n{SECRET}\nlast".encode())

    found = read_key_file(path)
    assert found.keys == (SECRET, "other key, with a comma", "last") and found.lines == (1, 3, 5)


def test_a_column(tmp_path: Path) -> None:
    """Columns of Parquet and CSV; numbers in a CSV file stay text."""
    pq.write_table(pa.table({"x": [1, 2], "_hoodie_record_key": [SECRET, "b"]}), tmp_path / "k.parquet")
    (tmp_path / "k.csv").write_text("key,x\n007,1\nb,2\n")

    assert read_key_file(tmp_path / "k.parquet").keys == (SECRET, "b")
    assert read_key_file(tmp_path / "k.csv").keys == ("007", "b")


BAD = {
    "utf.txt": (SECRET.encode() + b"\n" + SECRET.encode() + b"\xff\n", "Line 2 is not UTF-8 text."),
    "zero.txt": (b"a\n\n" + SECRET.encode() + b"\0\n", "Line 3 has a zero byte."),
    "long.txt": (SECRET.encode() * 5000, "Line 1 is longer than a record key can be."),
    "none.txt": (b"\n\n", "It names no key."),
    "torn.csv": (f"key,x\n{SECRET},1\n{SECRET}\n".encode(), "It cannot be read as what its name says."),
    "two.csv": (f"a,b\n{SECRET},1\n".encode(), "It has 2 columns, and none is called key or _hoodie_record_key."),
    "empty.csv": (f"key,x\n{SECRET},1\n,2\n".encode(), "Row 2 has no key."),
    "torn.parquet": (b"PAR1" + SECRET.encode() + b"PAR1", "It cannot be read as what its name says."),
}


@pytest.mark.parametrize("name", [*BAD, "gone.txt"])
def test_bad_files(tmp_path: Path, name: str) -> None:
    """Keeps 1 of services/together/erasure/key_file."""
    path = tmp_path / name
    data, why = BAD.get(name, (None, "No such file or directory."))
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(UsageError) as raised:
        read_key_file(path)
    error: BaseException | None = raised.value
    assert raised.value.why == why and str(path) in raised.value.what
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_hmac_needs_its_salt() -> None:
    """Two salts give two names of a key."""
    assert key_hmac(b"1" * 32, SECRET) != key_hmac(b"2" * 32, SECRET)
