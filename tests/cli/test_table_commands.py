"""`lakeward table create` by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.cli.main import run
from lakeward.format.java_properties import parse_properties
from lakeward.table.table_config import TableConfig
from tests.golden_tables import copy_golden

MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
SCHEMA = {
    "type": "record",
    "name": "orders",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "day", "type": "string"},
        {"name": "at", "type": MOMENT},
    ],
}


WEEKS = ("--timestamp-type", "microseconds", "--timestamp-output", "'week' w")


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
    error = capfd.readouterr().err
    assert f"There is a table already in {table}.\nIts name is orders.\n" in error
    assert "It has 0 rows in 0 base files." in error and "delete" not in error
    assert run(["inspect", str(table), "--timezone", "UTC"]) == 0
    assert "orders" in capfd.readouterr().out


def test_a_table_that_is_there_is_named_with_its_rows(
    schema: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Hudi's own, whatever words come: nothing of it is to be deleted, and nothing changes. Nor inside of it."""
    table = copy_golden("v9", tmp_path / "table")
    before = sorted(table.rglob("*"))
    assert run(["table", "create", str(table), "--schema", str(schema), "--record-key", "id"]) == 2
    error = capfd.readouterr().err
    name = TableConfig(parse_properties((table / ".hoodie/hoodie.properties").read_bytes())).name
    assert f"There is a table already in {table}.\nIts name is {name}.\n" in error
    assert re.search(r"It has [1-9]\d* rows in \d+ base files, and \d+ logs that are not merged\.", error)
    for inside in ("own", "a/b/c", ".hoodie/metadata", ".hoodie/own"):
        assert run(["table", "create", f"{table}/{inside}", "--schema", str(schema), "--record-key", "id"]) == 2
        error = capfd.readouterr().err
        assert f"No table can be created in {table}/{inside}." in error
        if inside != ".hoodie/metadata":  # which is a table itself
            assert f"That is inside of the table in {table}." in error
    assert sorted(table.rglob("*")) == before


def test_services_have_nothing_to_do_on_it(
    schema: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty metadata table is one that they verify, and that its own compaction makes base files of."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table, stopped = str(tmp_path / "t"), ("--writers", "stopped", "--timezone", "UTC")
    words = ("--record-key", "id", "--partition", "day", "--index", "metadata, bloom-filters")
    assert run(["table", "create", table, "--schema", str(schema), *words]) == 0
    capfd.readouterr()
    for _ in range(2):
        assert run(["verify", table, "--timezone", "UTC"]) == 0
        assert "No problem found." in capfd.readouterr().out
        assert run(["service", table, *stopped]) == 0
        shown = capfd.readouterr().out
        assert "Nothing to compact." in shown and "Nothing to clean." in shown and "Nothing to archive" in shown
        assert run(["metadata", "compact", table, *stopped]) == 0


def test_the_first_rows_go_into_all_its_indexes(
    schema: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No instant reveals a zone before the first one, whose time the record index has all the same."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table, rows = str(tmp_path / "t"), tmp_path / "rows.jsonl"
    words = ("--record-key", "id", "--partition", "day", "--index", "metadata")
    assert run(["table", "create", table, "--schema", str(schema), *words]) == 0
    rows.write_text('{"id": "a", "day": "p", "at": "2024-03-04T05:06:07Z"}\n')
    assert run(["write", table, "--input", str(rows), "--writers", "stopped"]) == 0
    assert run(["verify", table]) == 0
    assert "record_index: 1 record keys of 1 base files, right" in capfd.readouterr().out


def test_what_writers_are_asked(schema: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each word of --index, of partitions and of moments is a property."""
    words = ["--schema", str(schema), "--record-key", "id", "--dry-run", "--json"]

    def made(*more: str) -> dict[str, str]:
        assert run(["table", "create", str(tmp_path / "t"), *words, *more]) == 0
        properties: dict[str, str] = json.loads(capfd.readouterr().out)["properties"]
        return properties

    assert made("--index", "bucket:12")["hoodie.bucket.index.num.buckets"] == "12"
    assert run(["table", "create", str(tmp_path / "b"), *words[:4], "--index", "bucket:12"]) == 0
    assert run(["inspect", str(tmp_path / "b"), "--timezone", "UTC"]) == 0
    assert "BUCKET, 12 buckets a partition, asked of all writers" in capfd.readouterr().out
    assert made("--index", "simple", "--key-generator", "non-partition")["hoodie.index.type"] == "SIMPLE"
    indexed = made("--index", "bloom-filters, metadata")["hoodie.table.metadata.partitions"]
    assert indexed == "bloom_filters,column_stats,files,record_index"
    assert "hoodie.table.metadata.partitions" not in made("--no-metadata-table")
    latest = made("--table-version", "10")
    assert latest["hoodie.meta.fields.mode"] == "ALL" and "hoodie.table.storage.layout" not in latest
    assert made("--table-version", "10", "--layout", "lsm_tree")["hoodie.table.storage.layout"] == "lsm_tree"
    moments = ("--timestamp-type", "scalar", "--timestamp-unit", "microseconds", "--timestamp-output", "yyyy-MM")
    timed = made("--partition", "at", "--key-generator", "timestamp", *moments, "--timestamp-timezone", "Europe/Berlin")
    assert timed["hoodie.keygen.timebased.timestamp.type"] == "SCALAR"
    assert timed["hoodie.keygen.timebased.timezone"] == "Europe/Berlin"
    assert made("--partition", "day", "--slash-dates")["hoodie.table.partition_extractor_class"].endswith(
        "SlashEncodedDayPartitionValueExtractor"
    )


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
    "words, shown",
    [
        ([], "The table's columns are missing, or given twice."),
        (["--schema", "{schema}", "--like", "{schema}"], "The table's columns are missing, or given twice."),
        (["--like", "{schema}"], "has no schema to read."),
        (["--schema", "no.avsc"], "has no schema to read."),
        (["--schema", "{schema}", "--name", "a-b"], "'a-b' is no name of a table."),
        (["--schema", "{schema}", "--ordering", "ts"], "ts cannot be an ordering field."),
        (["--schema", "{schema}", "--index", "bucket"], "does not say how many buckets"),
        (["--schema", "{schema}", "--index", "bucket:few"], "does not say how many buckets"),
        (["--schema", "{schema}", "--index", "metadata:1"], "The index 'metadata:1' cannot be made with a table."),
        (["--schema", "{schema}", "--index", "expr_index"], "The index 'expr_index' cannot be made with a table."),
        (["--schema", "{schema}", "--index", "record"], "A table is not made with Lakeward's record index."),
        (["--schema", "{schema}", "--index", "metadata,simple"], "Keys are found by one index."),
        (["--schema", "{schema}", "--timestamp-unit", "days"], "The moments by which partitions are named"),
        (["--schema", "{schema}", "--key-generator", "custom"], "key generator CUSTOM cannot be created"),
        (["--schema", "{schema}", "--table-version", "10", "--ordering", "at.x"], "at.x cannot be an ordering field."),
        (["--schema", "{schema}", "--layout", "lsm_tree"], "cannot have the layout lsm_tree in version 9."),
        (
            ["--schema", "{schema}", "--partition", "at", "--key-generator", "timestamp", *WEEKS],
            "names its partitions by times in a way that this release does not know",
        ),
    ],
)
def test_a_slip_is_shown_and_nothing_is_made(
    words: list[str], shown: str, schema: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(schema=schema) for word in words]
    assert run(["table", "create", str(tmp_path / "t"), "--record-key", "id", *given]) == 2
    assert shown in capfd.readouterr().err
    assert not (tmp_path / "t").exists()
