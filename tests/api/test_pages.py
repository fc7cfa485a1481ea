"""The examples of the pages about reading run as they stand there, on a table in a folder of the test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward
from lakeward.cli.main import run
from tests.deploy.tools import PROJECT

COLUMNS = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64()), ("day", pa.date32())]
)


@pytest.fixture
def place(tmp_path: Path) -> str:
    """The folder that is used for `/data`."""
    base = tmp_path / "orders"
    table = lakeward.create_table(str(base), schema=COLUMNS, record_key=["id"], partition=["city"], ordering=["ts"])
    columns = [[f"k{n}" for n in range(30)], ["lima", "rome"] * 15, [1] * 30, [float(n) for n in range(30)]]
    rows = pa.table([*columns, pa.array([20_500 + n for n in range(30)], pa.int32()).cast(pa.date32())], schema=COLUMNS)
    table.write(rows, writers_stopped=True)
    return str(tmp_path)


@pytest.mark.parametrize("page", ["README.md", "docs/read/rows.md", "docs/read/python.md"])
def test_examples_in_python(page: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other; those of libraries that are not installed here are left out."""
    known: dict[str, object] = {}
    ran = 0
    for example in blocks(page, "python"):
        modules = re.findall(r"^import (\w+)", example, re.MULTILINE)
        if all(find_spec(module) for module in modules):
            exec(compile(example.replace("/data", place), page, "exec"), known)
            ran += 1
    assert ran >= (5 if page == "docs/read/python.md" else 1)
    assert page != "README.md" or capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "docs/read/rows.md"])
def test_examples_in_the_shell(
    page: str, place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line that calls `lakeward read` on a table; what it is piped into is left out."""
    monkeypatch.chdir(place)
    lines = [line for block in blocks(page, "") for line in block.splitlines() if line.startswith("lakeward read ")]
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line.partition(" | ")[0].replace("s3://lake", "/data"), comments=True)
        assert run([word.replace("/data", place) for word in words[1:]]) == 0, (line, capsys.readouterr().err)


def blocks(page: str, language: str) -> Iterator[str]:
    for found, text in re.findall(r"^```(\w*)\n(.*?)^```$", (PROJECT / page).read_text(), re.MULTILINE | re.DOTALL):
        if found == language:
            yield text
