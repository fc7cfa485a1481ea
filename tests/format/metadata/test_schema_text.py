"""The schema that a new metadata table has is the one that Hudi gives one, but for what is prose in it."""

from __future__ import annotations

import json

import pytest

from lakeward.format.hfile.reader import HFileReader
from lakeward.format.metadata.schema_text import metadata_schema
from tests.golden_tables import copy_golden
from tests.metadata_births import without_prose
from tests.metadata_golden import METADATA


@pytest.mark.parametrize("golden", ["v9_metadata", "v8_metadata"])
def test_it_is_that_of_hudis_own_first_file(golden: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also in the order of its keys, so that no reader can be known from another one."""
    table = copy_golden(golden, tmp_path_factory.mktemp("golden") / "table")
    (path,) = (table / METADATA / "files").glob("*_00000000000000000.hfile")
    with path.open("rb") as file:
        hudis = json.loads(HFileReader(file, length=path.stat().st_size, name=path.name).info["schema"])
    own = json.loads(metadata_schema(has_typed_stats=golden.startswith("v9")))
    assert json.dumps(without_prose(own)) == json.dumps(without_prose(hudis))
