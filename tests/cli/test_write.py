"""`lakeward write`: rows from files and from standard input, dry runs, and what it asks for."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.cli.main import run
from tests.our_reader import read_rows
from tests.write.writing import Row, new_table, rows_of, values, write

FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "q", "a")]
SAID = ("--writers", "stopped")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t")
    write(table, FIRST)
    return table


def files(base: Path) -> set[str]:
    return {str(path.relative_to(base)) for path in base.rglob("*")}


def called(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["write", *words, "--json"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def parquet(base: Path, rows: list[Row]) -> str:
    path = base.parent / "rows.parquet"
    pq.write_table(pa.Table.from_batches([rows_of(rows)]), path)
    return str(path)


def test_rows_of_a_file(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what happened to them."""
    report = called(capsys, str(base), "--input", parquet(base, [("k1", 2, "p", "b"), ("k3", 1, "r", "b")]), *SAID)
    assert (report["inserted"], report["updated"], report["partitions"]) == (1, 1, ["p", "r"])
    assert values(read_rows(base)) == {"k1": "b", "k2": "a", "k3": "b"}


def test_rows_of_standard_input(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON lines, here of keys that go."""
    lines = b'{"id": "k1", "part": "p"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert run(["write", str(base), "--input", "-", "--operation", "delete", *SAID]) == 0
    assert values(read_rows(base)) == {"k2": "a"}


def test_a_dry_run_writes_nothing(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says which file groups would take how many rows, and asks for no word about other writers. Keeps 1 of
    cli/write_command."""
    before = files(base)
    rows = parquet(base, [("k1", 2, "p", "b"), ("k3", 1, "r", "b"), ("k4", 1, "r", "b")])
    would = called(capsys, str(base), "--input", rows, "--dry-run")
    found = {(each["partition"], each["kind"], each["rows"]) for each in would["file_groups"]}
    assert found == {("p", "append", 1), ("r", "create", 2)}
    assert run(["write", str(base), "--input", rows, "--dry-run"]) == 0
    assert "append to" in capsys.readouterr().out
    assert files(base) == before


def test_a_word_about_other_writers_is_asked_for(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without it nothing is written. Keeps 1 of cli/write_command."""
    before = files(base)
    assert run(["write", str(base), "--input", parquet(base, FIRST)]) == 2
    assert "--writers stopped" in capsys.readouterr().err
    assert files(base) == before


@pytest.mark.parametrize("name", ["gone.jsonl", "gone.csv", "gone.parquet"])
def test_a_missing_input_is_usage(base: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """So it is in each format, and without a traceback. Keeps 2 of cli/write_command."""
    before, gone = files(base), base.parent / name
    assert run(["write", str(base), "--input", parquet(base, FIRST), "--input", str(gone), *SAID]) == 2
    assert f"LW-USAGE: The input {gone} does not exist." in capsys.readouterr().err
    assert files(base) == before


def test_bloom_filters_that_are_too_small_are_shown(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A write, then the compaction of its rows: how often the worst of them errs."""
    many = parquet(base, [(f"k{number}", 1, "new", "a") for number in range(300)])
    report = called(capsys, str(base), "--input", many, *SAID, "--bloom-filter-max", "100")
    assert [0.1 < rate < 0.5 for rate in report["bloom_error_rates"]] == [True]
    assert run(["write", str(base), "--input", many, *SAID]) == 0
    assert "bloom" not in capsys.readouterr().out
    words = ["compact", str(base), "--type", "full", *SAID, "--partition", "new", "--bloom-filter-max"]
    assert run([*words, "100"]) == 0
    assert "bloom filters of 1 file have more keys" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "words",
    [
        ("--operation", "delete_partition", "--input", "ROWS"),
        ("--operation", "upsert"),
        ("--operation", "delete_partition"),
        ("--input", "ROWS", "--index", "bucket"),
        ("--input", "ROWS", "--index", "metadata"),
        ("--input", "ROWS", "--index", "record"),
        ("--input", "ROWS", "--index-url", "postgresql://localhost/index"),
        ("--input", "ROWS", "--index", "postgres", "--index-url", "sqlite:///index.db"),
        ("--input", "OTHER"),
        ("--input", "ROWS", "--bloom-filter-max", "65MiB"),
        ("--input", "ROWS", "--bloom-filter-max", "0"),
    ],
)
def test_what_does_not_go_together(base: Path, words: tuple[str, ...]) -> None:
    """A usage error or a refusal, before anything is written. Keeps 2 of cli/write_command."""
    given = {"ROWS": parquet(base, FIRST), "OTHER": str(base.parent / "other.csv")}
    Path(given["OTHER"]).write_text("id,part\nk1,p\n")
    before = files(base)
    assert run(["write", str(base), *(given.get(word, word) for word in words), *SAID]) == 2
    assert files(base) == before
