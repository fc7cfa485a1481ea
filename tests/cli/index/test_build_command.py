"""`lakeward index build` and `update` without a type: what there is to choose from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.index.index_type import IndexType
from tests.golden_tables import copy_golden

OWN = """  --type record    hash buckets of record keys below the table's .hoodie, or in the configured location
  --type postgres  record keys in a PostgreSQL database, that of the store or --url
  --type bloom     a cache of the filters and ranges in base files, by which lookups open fewer files"""
LISTED = {
    "build": f"{OWN}\n"
    "  --type metadata  a partition of the metadata table, which writers keep current; --kind says which",
    "update": OWN,
}


@pytest.mark.parametrize("verb", LISTED)
def test_without_a_type_they_list_what_can_be_built(
    verb: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each type has a line of text, and what Hudi keeps is built alone; with --json it is in the error's document."""
    table = copy_golden("v9", tmp_path / "table")
    assert run(["index", verb, str(table)]) == 2
    shown = capfd.readouterr().err
    assert shown == (
        f"LW-USAGE: Say with --type which index to {verb}.\n{LISTED[verb]}\n"
        "`lakeward index list TABLE` shows what the table has already.\n"
    )
    assert run(["index", verb, str(table), "--json"]) == 2
    captured = capfd.readouterr()
    error = json.loads(captured.err)["error"]
    assert (error["code"], error["why"], captured.out) == ("LW-USAGE", LISTED[verb], "")


def test_what_is_listed_is_what_can_be_built() -> None:
    """Each type that Lakeward keeps, and no other one."""
    assert {kind for kind in IndexType if kind.is_kept} == {kind for kind in IndexType if f"--type {kind}" in OWN}


def test_an_option_that_is_missing_names_its_values_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """The library lists them with tabs and line ends, which stood in the error as such."""
    assert run(["index", "drop", "TABLE"]) == 2
    assert capfd.readouterr().err.startswith(
        "LW-USAGE: Missing option '--type'. Choose from: simple, bloom, metadata, record, postgres, hbase\n"
    )
