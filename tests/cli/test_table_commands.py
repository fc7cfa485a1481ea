"""`lakeward table create` by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.cli.main import run

SCHEMA = {"type": "record", "name": "orders", "fields": [{"name": "id", "type": "string"}]}


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "orders.avsc"
    path.write_text(json.dumps(SCHEMA))
    return path


def test_from_a_dry_run_to_a_table(schema: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The dry run writes nothing and shows what is written then; a second table there is refused, and our own verbs
    take it for a table. Keeps of cli/table_commands."""
    table = tmp_path / "lake" / "orders"
    words = [str(table), "--schema", str(schema), "--record-key", "id", "--type", "cow", "--table-version", "8"]
    assert run(["table", "create", *words, "--dry-run", "--json"]) == 0
    would = json.loads(capfd.readouterr().out)
    assert not table.parent.exists()
    assert run(["table", "create", *words, "--json"]) == 0
    made = json.loads(capfd.readouterr().out)
    assert made == {**would, "dry_run": False}
    assert (made["name"], made["properties"]["hoodie.table.type"]) == ("orders", "COPY_ON_WRITE")
    assert json.loads(made["properties"]["hoodie.table.create.schema"]) == SCHEMA
    assert run(["table", "create", *words]) == 2
    assert "There is something already: hoodie.properties" in capfd.readouterr().err
    assert run(["inspect", str(table), "--timezone", "UTC"]) == 0
    assert "orders" in capfd.readouterr().out


def test_a_table_like_a_file_of_another_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Hudi's own columns are left out, and what may be null is taken to be all."""
    file = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"_hoodie_record_key": ["a"], "id": ["a"]}).cast(
            pa.schema([("_hoodie_record_key", pa.string()), pa.field("id", pa.string(), nullable=False)])
        ),
        file,
    )
    assert run(["table", "create", str(tmp_path / "t"), "--like", str(file), "--record-key", "id", "--dry-run"]) == 0
    assert '"fields":[{"name":"id","type":["null","string"],"default":null}]' in capfd.readouterr().out


@pytest.mark.parametrize(
    "words, told",
    [
        ([], "A table needs columns."),
        (["--schema", "{schema}", "--like", "{schema}"], "A table needs columns."),
        (["--like", "{schema}"], "has no schema to read."),
        (["--schema", "no.avsc"], "has no schema to read."),
        (["--schema", "{schema}", "--name", "a-b"], "'a-b' is no name of a table."),
        (["--schema", "{schema}", "--ordering", "ts"], "ts cannot be an ordering field."),
    ],
)
def test_a_slip_is_told_and_nothing_is_made(
    words: list[str], told: str, schema: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(schema=schema) for word in words]
    assert run(["table", "create", str(tmp_path / "t"), "--record-key", "id", *given]) == 2
    assert told in capfd.readouterr().err
    assert not (tmp_path / "t").exists()
