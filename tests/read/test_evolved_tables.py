"""Tables of Hudi's whose schema has changed: what a merge gives is what Hudi's own compaction wrote.

tests/golden/README.md says how the tables were made; tests/interop/test_changed_schemas.py makes them again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import read_rows


@pytest.mark.parametrize("table", ["evolved", "defaulted", "dropped"])
def test_rows_are_those_of_hudis_own_compaction(table: str, tmp_path: Path):
    """Added, promoted, moved, dropped and nested columns, and defaults that are not null, in Avro and Parquet logs."""
    found = read_rows(copy_golden(table, tmp_path / "table"))
    rows = [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in found]

    assert json.loads(json.dumps(rows, default=str)) == expected_rows(table)
