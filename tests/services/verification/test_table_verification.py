"""Everything that can be checked without changing a table, put together."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Refused
from lakeward.cli.main import run
from lakeward.services.verification.check_report import CheckReport
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from lakeward.storage.local import LocalStorage
from lakeward.write import whole_write
from lakeward.write.input import input_schema
from tests.golden_tables import copy_golden
from tests.our_reader import read_rows
from tests.write.writing import COLUMNS, new_table, rows_of, values, write


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


def verify(base: Path, *, merge_sample: int = 0) -> CheckReport:
    return verify_table(
        LocalStorage(),
        str(base),
        size=SampleSize(20, 100),
        merge_sample=merge_sample,
        clock=SystemClock(),
        timezone="UTC",
    )


def test_a_sound_table(base: Path):
    """It is sound where its rows are merged, too: four, of six keys that the files know."""
    report = verify(base, merge_sample=2)
    assert report.problems == ()
    assert [check.name for check in report.checks] == ["table", "logs", "merge"]
    assert report.checks[2].note == "4 rows, 6 keys merged twice"


def test_what_merging_finds_is_a_problem(base: Path):
    """The base file is gone."""
    (path,) = (base / "p").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert {problem.check for problem in verify(base, merge_sample=1).problems} == {"table"}


def test_broken_properties_and_timelines_are_problems(base: Path):
    """Keeps 1 of services/verification/table_verification: what only forbids us to compact is none: the table is
    copy-on-write here."""
    properties = base / ".hoodie/hoodie.properties"
    properties.write_bytes(properties.read_bytes().replace(b"MERGE_ON_READ", b"COPY_ON_WRITE"))
    assert verify(base).problems == ()
    (base / ".hoodie/hoodie.properties.backup").write_bytes(properties.read_bytes())
    (problem,) = verify(base).problems
    assert problem.subject == ".hoodie/hoodie.properties.backup"


def test_two_base_files_of_one_instant(base: Path):
    """Nothing says which one counts."""
    (path,) = (base / "p").glob("*.parquet")
    file_id, _, rest = path.name.partition("_")
    (base / "p" / f"{file_id}_9-9-9_{rest.rpartition('_')[2]}").write_bytes(path.read_bytes())
    (problem,) = verify(base).problems
    assert problem.subject == f"p/{file_id}"
    assert "two base files" in problem.what


def test_leftovers_are_notes(base: Path):
    """A heartbeat of a writer that died, and a file of a write that never completed."""
    heartbeat = base / ".hoodie/.heartbeat/20200101000000000"
    heartbeat.parent.mkdir()
    heartbeat.write_bytes(b"")
    os.utime(heartbeat, (1, 1))
    (base / "p" / "f1_0-0-0_20270101000000000.parquet").write_bytes(b"x")
    report = verify(base)
    assert report.problems == ()
    assert "20200101000000000" in report.notes[0]
    assert "f1_0-0-0_20270101000000000.parquet" in report.notes[1]


def restored(base: Path, remedy: str) -> int:
    """Carries the remedy out."""
    found = re.search(r"`lakeward restore TABLE --to (\d+)`", remedy)
    assert found is not None, remedy
    return run(["restore", str(base), "--to", found[1], "--writers", "stopped"])


@pytest.mark.parametrize("schema", ["foo", '"string"', '{"type":"record","name":"r","fields":[]}'])
def test_a_schema_that_nobody_can_read_is_named_with_a_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: str
):
    """Hudi's next write fails on it; the table goes back to the newest commit that has another."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")])
    monkeypatch.setattr(whole_write, "_check_commit_metadata", lambda keys: None)
    write(base, [("k2", 1, "p", "b")], extra_metadata={"schema": schema})
    with pytest.raises(Refused, match="schema-unreadable"):
        write(base, [("k3", 1, "p", "b")])

    (problem,) = verify(base).problems

    assert problem.subject == "extraMetadata.schema"
    assert problem.what.startswith("The schema in the newest write is not that of an Avro record with columns")
    assert restored(base, problem.remedy) == 0
    assert verify(base).problems == ()
    assert values(read_rows(base)) == {"k1": "a"}


@pytest.mark.parametrize(("name", "why"), [("order id", "this one has ' '"), ("V", "There is v, too")])
def test_a_column_that_keeps_hudi_from_loading_the_table_is_named_with_a_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
):
    """Releases before wrote it; what was written before it came is still there."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a")])
    monkeypatch.setattr(input_schema, "_check_loadable", lambda evolved, before: None)
    write(base, rows_of([("k2", 1, "p", "b", "x")], COLUMNS.append(pa.field(name, pa.string()))))

    (problem,) = verify(base).problems

    assert problem.subject == f"column {name!r}"
    assert problem.what.startswith("Hudi cannot load the table. ") and why in problem.what
    assert restored(base, problem.remedy) == 0
    assert verify(base).problems == ()
    assert values(read_rows(base)) == {"k1": "a"}


def test_where_no_commit_has_another_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """There is no way back that a restore could go."""
    base = new_table(tmp_path / "t")
    monkeypatch.setattr(whole_write, "_check_commit_metadata", lambda keys: None)
    write(base, [("k1", 1, "p", "a")], extra_metadata={"schema": "foo"})

    (problem,) = verify(base).problems

    assert problem.remedy == "No commit on the active timeline has another schema: write the rows into a new table."
