"""`lakeward read`: rows on the terminal and in files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.clock import Clock
from lakeward.cli.main import run
from lakeward.read.newest_slice import TableReading
from lakeward.read.slice_scan import read_slice
from lakeward.scan import table_scan
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from tests.metadata_golden import set_property
from tests.write.writing import Row, new_table, write

ROWS: list[Row] = [(f"k{number:02}", 1, "pq"[number % 2], f"v{number}") for number in range(30)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t")
    write(table, ROWS)
    return table


def test_the_first_rows_and_how_many_there_are(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", str(base), "--columns", "id, v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0].split(), lines[1].split()) == (["id", "v"], ["k00", "v0"])
    assert len(lines) == 22 and lines[-1] == "30 rows, the first 20 shown; --limit shows more"
    assert run(["read", str(base), "--limit", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 row"


def test_rows_are_not_counted_where_much_would_be_read(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Footers are few bytes; a filter, and logs, need the rows."""
    monkeypatch.setattr(table_scan, "CHEAP_BYTES_MAX", 1)
    assert run(["read", str(base)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "30 rows, the first 20 shown; --limit shows more"
    assert run(["read", str(base), "--where", "v like 'v%'"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "The first 20 rows; --limit shows more, --count counts all"
    write(base, [("k00", 2, "p", "new")])
    assert run(["read", str(base), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_found"] is None
    monkeypatch.setattr(table_scan, "CHEAP_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(table_scan, "CHEAP_FILES_MAX", 2)
    assert run(["read", str(base)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("The first 20 rows;")


def test_a_count(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", str(base), "--count", "--where", "part = 'p' and v != 'v0'"]) == 0
    assert capsys.readouterr().out == "14\n"
    assert run(["read", str(base), "--count", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": 30}


def test_explain(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", str(base), "--count", "--where", "part = 'p' and id < 'k04'", "--explain"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "2\n"
    assert "partitions: 1 of 2 read" in shown.err and "file groups: 1 of 2 read, 0 of them with logs" in shown.err


def test_keys(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys of the option and of a file; those that have no row are counted, and `--json` lists them."""
    assert run(["read", str(base), "--keys", "k03, nowhere", "--columns", "v"]) == 0
    shown = capsys.readouterr()
    assert shown.out.split() == ["v", "v3", "1", "row"]
    assert shown.err == "1 of 2 keys has no row: nowhere\n"
    (tmp_path / "keys").write_text("k04\nk05\n" + "".join(f"none{n}\n" for n in range(12)))
    assert run(["read", str(base), "--keys-from", str(tmp_path / "keys"), "--count"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "2\n"
    assert shown.err.startswith("12 of 14 keys have no row: none0, none1, ") and shown.err.endswith(" and 2 more\n")
    assert run(["read", str(base), "--keys", "k03,x", "--json", "--columns", "id"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["missing_keys"]) == ([{"id": "k03"}], ["x"])
    assert run(["read", str(base), "--keys", ","]) == 2
    assert "No record key is given." in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("row_format", ["jsonl", "csv", "parquet", "arrow"])
def test_formats(base: Path, tmp_path: Path, row_format: str) -> None:
    """To a file, which is whole when it is there, and to stdout, the same bytes. Keeps 1 of cli/read/row_output."""
    file = tmp_path / f"rows.{row_format}"
    assert run(["read", str(base), "--output", str(file), "--where", "id < 'k03'"]) == 0
    match row_format:
        case "jsonl":
            found = [json.loads(line) for line in file.read_text().splitlines()]
        case "csv":
            found = pa.csv.read_csv(file).to_pylist()
        case "parquet":
            found = pq.read_table(file).to_pylist()
        case "arrow":
            found = pa.ipc.open_stream(file).read_all().to_pylist()
    assert sorted(row["id"] for row in found) == ["k00", "k01", "k02"]
    command = [sys.executable, "-m", "lakeward.cli.main", "read", str(base), "--format", row_format]
    piped = subprocess.run([*command, "--where", "id < 'k03'"], capture_output=True, check=True).stdout
    assert piped == file.read_bytes()
    assert run(["read", str(base), "--output", str(file)]) == 2


@pytest.mark.slow
def test_a_reader_that_has_seen_enough(base: Path) -> None:
    command = f"{sys.executable} -m lakeward.cli.main read {base} --format jsonl | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)


def test_json_is_one_document(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a format is named."""
    assert run(["read", str(base), "--json", "--limit", "1", "--columns", "id"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"columns": ["id"], "rows": [{"id": "k00"}], "rows_found": 1}
    assert run(["read", str(base), "--json", "--limit", "1", "--columns", "id", "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_what_is_missing_is_reported(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps of cli/read/read_command: the exit code is that of damage, and no file is left by a read that failed."""
    file = next((base / "q").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-9])
    output = base.parent / "rows.jsonl"
    assert run(["read", str(base), "--output", str(output)]) == 1
    assert list(base.parent.glob("rows*")) == []
    assert "--skip-damaged reads the other file groups." in capsys.readouterr().err
    assert run(["read", str(base), "--skip-damaged", "--count"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "15\n" and file.name in shown.err and "--skip-damaged" not in shown.err
    assert run(["read", str(base), "--skip-damaged", "--output", str(output)]) == 1
    assert len(output.read_text().splitlines()) == 15


def test_a_comparison(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples of each difference are shown, and the exit code says that there is one."""
    other = shutil.copytree(base, base.parent / "other")
    assert run(["read", str(base), "--diff", str(other)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No difference."
    write(other, [("k01", 2, "q", "new"), ("k99", 1, "p", "more")])
    assert run(["read", str(base), "--diff", str(other), "--columns", "v", "--limit", "1"]) == 6
    assert capsys.readouterr().out.splitlines() == [
        "rows read: 30 before, 31 after",
        "same: 29   changed: 1   added: 1   gone: 0",
        "changed columns: v (1)",
        "partition p: 0 changed, 1 added, 0 gone",
        "partition q: 1 changed, 0 added, 0 gone",
        '~ id="k01" in q',
        '    v: "v1" -> "new"',
        '+ id="k99" in p',
    ]
    assert run(["read", str(base), "--diff", str(other), "--json", "--where", "id < 'k05'"]) == 6
    document = json.loads(capsys.readouterr().out)
    assert (document["before"], document["after"], document["same"]) == (str(base), str(other), 4)
    changes = {"ts": {"before": 1, "after": 2}, "v": {"before": "v1", "after": "new"}}
    assert document["changed_rows"] == [{"key": {"id": "k01"}, "partition": "q", "changes": changes}]
    (first, _) = sorted(
        path.name.partition("_")[0] for path in (other / ".hoodie" / "timeline").glob("*_*.deltacommit")
    )
    moments = ["read", str(other), "--as-of", first, "--diff", str(other)]
    assert run([*moments, "--diff-as-of", first]) == 0 and run(moments) == 6
    assert run(["read", str(base), "--diff-as-of", first]) == 2
    capsys.readouterr()
    assert run(["read", str(base), "--diff", str(other), "--count"]) == 2
    assert "--count is not for --diff." in capsys.readouterr().err


def test_files_that_go_while_rows_come_out(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends with 75, and leaves no file."""

    def deleting(storage: Storage, reading: TableReading, slice_: FileSlice, *given: Any, **named: Any) -> Any:
        yield from read_slice(storage, reading, slice_, *given, **named)
        for file in (base / "q").glob("*.parquet"):
            file.unlink()

    monkeypatch.setattr("lakeward.scan.table_scan.read_slice", deleting)
    output = base.parent / "rows.jsonl"
    assert run(["read", str(base), "--output", str(output)]) == 75
    assert "were deleted while the query ran" in capsys.readouterr().err
    assert list(base.parent.glob("rows*")) == []


def completion_times(base: Path) -> list[str]:
    instants = sorted((base / ".hoodie" / "timeline").glob("*_*.deltacommit"))
    return [path.name.partition("_")[2].partition(".")[0] for path in instants]


def test_changes(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each change, and on stderr where to go on; a table that captures none is refused."""
    assert run(["read", str(base), "--changes"]) == 2
    assert "captures no changes" in capsys.readouterr().err
    set_property(base, "hoodie.table.cdc.enabled", "true")
    write(base, [("k01", 2, "q", "new"), ("k99", 1, "p", "more")])
    first, last = completion_times(base)
    asked = ["read", str(base), "--changes", "--since", first]
    output = tmp_path / "changes.jsonl"
    assert run([*asked, "--output", str(output), "--columns", "v,ts", "--where", "op = 'u'"]) == 0
    assert f"1 commit; go on with --since {last}" in capsys.readouterr().err
    (line,) = output.read_text().splitlines()
    found = json.loads(line)
    assert (found["op"], found["before"], found["after"]) == ("u", {"v": "v1", "ts": 1}, {"v": "new", "ts": 2})
    assert run([*asked, "--count"]) == 0 and capsys.readouterr().out == "2\n"
    assert run([*asked, "--json", "--columns", "id"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted((row["op"], row["after"]["id"]) for row in document["rows"]) == [("i", "k99"), ("u", "k01")]
    assert (document["end"], document["rows_found"]) == (last, 2)
    assert run(["read", str(base), "--changes", "--limit", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 rows"
    assert run(["read", str(base), "--changes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "The first 20 rows; --limit shows more, --count counts all"
    assert run([*asked, "--explain"]) == 2 and "--explain is not for --changes." in capsys.readouterr().err
    assert run(["read", str(base), "--changes", "--since", "earliest", "--count"]) == 0


def test_commits_of_a_window(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The note and the document say from where to go on; a table as of a moment."""
    write(base, [("k01", 2, "q", "new")])
    first, last = completion_times(base)
    assert run(["read", str(base), "--since", first, "--columns", "id,v", "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["end"], document["columns"]) == (last, ["id", "v"])
    assert run(["read", str(base), "--since", first, "--count"]) == 0
    assert f"1 commit; go on with --since {last}" in capsys.readouterr().err
    assert run(["read", str(base), "--until", first]) == 2
    assert "A window has no beginning." in capsys.readouterr().err
    assert run(["read", str(base), "--as-of", first, "--count"]) == 0
    assert run(["read", str(base), "--as-of", "someday"]) == 2 and "is no moment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "other"),
    [
        (["--count"], ["--output", "rows.csv"]),
        (["--count"], ["--format", "csv"]),
        (["--diff", "other"], ["--count"]),
        (["--diff", "other"], ["--explain"]),
        (["--diff", "other"], ["--skip-damaged"]),
        (["--diff", "other"], ["--output", "rows.csv"]),
        (["--diff", "other"], ["--format", "csv"]),
        (["--diff", "other"], ["--keys", "k01"]),
        (["--diff", "other"], ["--keys-from", "keys.txt"]),
        (["--diff", "other"], ["--changes"]),
        (["--diff", "other"], ["--since", "20260101"]),
        (["--changes"], ["--as-of", "20260101"]),
        (["--changes"], ["--keys", "k01"]),
        (["--changes"], ["--read-optimized"]),
    ],
)
def test_options_that_exclude_each_other(
    base: Path, option: list[str], other: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """None is passed over in silence."""
    assert run(["read", str(base), *option, *other]) == 2
    assert f"{other[0]} is not for {option[0]}." in capsys.readouterr().err


def test_slips(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", str(base), "--output", "rows.xlsx"]) == 2
    assert "The format of rows.xlsx is not known by its name." in capsys.readouterr().err
    assert run(["read", str(base), "--output", "rows", "--format", "table"]) == 2
    assert "A table is for the terminal." in capsys.readouterr().err
    assert run(["read", str(base), "--where", "v ="]) == 2
    assert "something is missing at its end.\n  v =\n     ^\n" in capsys.readouterr().err
    assert run(["read", str(base), "--columns", "id,,v"]) == 2
    assert "has a comma without a name" in capsys.readouterr().err
    assert run(["read", str(base), "--columns", "ID"]) == 2
    assert "Did you mean id?" in capsys.readouterr().err


def test_a_partition_that_is_not_there(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No row is chosen, which is no error; a note names the nearest value that a partition has, or some of them."""
    set_property(base, "hoodie.datasource.write.hive_style_partitioning", "false")
    write(base, [("k90", 1, "lima", "x")])
    assert run(["read", str(base), "--count", "--where", "part = 'lime' and v = 'x'"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("0\n", "No partition has part = 'lime'. Did you mean lima?\n")
    assert run(["read", str(base), "--count", "--where", "part = 'x'"]) == 0
    assert capsys.readouterr().err == "No partition has part = 'x'. The values are lima, p, q.\n"
    assert run(["read", str(base), "--count", "--where", "part = 'p' and v = 'none'"]) == 0
    assert capsys.readouterr().err == ""


def test_help_has_panels(capsys: pytest.CaptureFixture[str]) -> None:
    """Options are listed by what they are about, each in one panel."""
    assert run(["read", "--help"]) == 0
    text = capsys.readouterr().out
    panels = ["Which rows and columns:", "What to read:", "How to print:", "Options:"]
    assert [text.index(each) for each in panels] == sorted(text.index(each) for each in panels)
    assert text.index("--where") < text.index(panels[1]) < text.index("--as-of") < text.index(panels[2])


def test_how_far_a_reading_is(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress has sentences about file slices; rows that go to a program, which may show them, have none."""
    shown: list[tuple[bool, list[str]]] = []

    @contextmanager
    def view(clock: Clock, *, is_shown: bool) -> Iterator[Callable[[str], None]]:
        shown.append((is_shown, []))
        yield shown[-1][1].append

    monkeypatch.setattr("lakeward.cli.read.read_command.reading_view", view)
    assert run(["read", str(base), "--count", "--where", "ts = 1"]) == 0
    is_shown, said = shown.pop()
    assert is_shown and said[0] == "listing the table" and said[-1] == "read 1 of 2 file slices, 15 rows"
    assert run(["read", str(base), "--output", str(base.parent / "rows.csv")]) == 0
    is_shown, said = shown.pop()
    assert is_shown and said[-1] == "read 1 of 2 file slices, 30 rows"
    monkeypatch.setattr("os.fstat", lambda number: os.stat("/dev/null"))
    assert run(["read", str(base), "--format", "jsonl"]) == 0
    assert shown.pop()[0] is False
