"""Compactions of tables with schema on read; tests/interop/test_changed_schemas.py asks Hudi."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.base.errors import Conflict
from lakeward.format.timeline.commit_metadata import LATEST_SCHEMA, read_commit_metadata
from tests.golden_tables import copy_golden
from tests.protocol.refusals.test_eligibility import ALL_COLUMNS, COLUMNS, OLD, schema_history, version_of_schema
from tests.services.bench import NOTHING, PENDING, Bench


def test_the_commit_names_the_version_that_its_files_are_of(tmp_path: Path) -> None:
    """Hudi's readers look there first, and use the newest commit for the table."""
    bench = Bench(copy_golden("v9", tmp_path / "table"))
    schema_history(ALL_COLUMNS, OLD, latest=ALL_COLUMNS)(bench.base)

    (plan,) = bench.compactor().compact().plans

    (file,) = (bench.base / ".hoodie" / "timeline").glob(f"{plan.instant}_*.commit")
    extra = read_commit_metadata(file.read_bytes(), file=file.name, layout=2).extra_metadata
    assert json.loads(extra[LATEST_SCHEMA]) == ALL_COLUMNS


def test_a_plan_from_before_a_change_is_left(tmp_path: Path) -> None:
    """Its files would be of a later version than readers take them for by their instant."""
    bench = Bench(copy_golden("v9", tmp_path / "table", pending=True))
    changed = version_of_schema(*COLUMNS, number=int(PENDING) + 1)
    schema_history(changed, OLD, latest=changed)(bench.base)

    with pytest.raises(Conflict, match=f"changed after plan {PENDING}.*unschedule"):
        bench.compactor(planner=NOTHING).compact()
    assert not list((bench.base / ".hoodie" / "timeline").glob(f"{PENDING}_*"))
