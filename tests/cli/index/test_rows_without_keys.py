"""Tables whose rows carry no keys, which are made of them: by hand of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.main import run
from tests.golden_tables import copy_golden


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    table = copy_golden("keyless", tmp_path / "table")

    def call(verb: str, kind: str, *arguments: str, code: int = 0) -> Any:
        assert run(["index", verb, str(table), *arguments, "--type", kind, "--timezone", "UTC", "--json"]) == code
        said = capfd.readouterr()
        return json.loads(said.out) if code == 0 else said.err

    return call


def test_the_record_index_has_the_keys_that_are_made(call: Any) -> None:
    """It is verified by them, too: each row and each entry."""
    built = call("build", "record")
    checked = call("verify", "record", "--all")
    assert checked["faults"] == [] and checked["notes"] == []
    assert checked["rows"]["checked"] == checked["entries"]["checked"] == built["entries"] > 0


@pytest.mark.parametrize("kind", ["simple", "bloom"])
@pytest.mark.parametrize("verb", ["lookup", "verify"])
def test_base_files_have_none_to_be_looked_up(call: Any, kind: str, verb: str) -> None:
    """An answer that no key is there would be wrong."""
    keys = ("k1",) if verb == "lookup" else ()
    assert "index build TABLE --type record" in call(verb, kind, *keys, code=2)


def test_no_cache_is_made_of_filters_that_are_not_there(call: Any) -> None:
    assert "populate.meta.fields" in call("build", "bloom", code=2)
