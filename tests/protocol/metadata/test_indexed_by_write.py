"""Columns that a write brings join the indexed ones."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakeward.protocol.metadata.indexed_by_write import indexed_by_write, name_columns
from lakeward.storage.local import LocalStorage
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN
from tests.our_reader import scan

INDEX = ".hoodie/.index_defs/index.json"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden(GOLDEN, tmp_path / "table")


def schema_with(base: Path, *names: str, kind: Any = "long") -> str:
    schema = json.loads(scan(base).schema or "")
    schema["fields"] += [{"name": name, "type": ["null", kind], "default": None} for name in names]
    return json.dumps(schema)


def source_fields(base: Path, name: str = "column_stats") -> list[str]:
    definition = json.loads((base / INDEX).read_text())["indexDefinitions"][name]
    assert isinstance(definition, dict)
    return list(definition["sourceFields"])


def name(base: Path, schema: str, storage: LocalStorage | FaultyStorage | None = None) -> None:
    storage, snapshot = storage or LocalStorage(), scan(base)
    name_columns(storage, snapshot, indexed_by_write(LocalStorage(), snapshot, schema), fence=lambda: None)


def test_a_new_column_joins_at_the_end(base: Path):
    """The definitions name it, others stay, and files are measured for it."""
    before = source_fields(base)
    found = indexed_by_write(LocalStorage(), scan(base), schema_with(base, "added"))

    assert found.named == (*before, "added")
    assert found.indexed is not None and set(found.indexed.columns) == {*before, "added"}
    name(base, schema_with(base, "added"))
    assert source_fields(base) == [*before, "added"]
    assert json.loads((base / INDEX).read_text())["indexDefinitions"]["record_index"]["version"] == "V1"
    again = indexed_by_write(LocalStorage(), scan(base), schema_with(base, "added"))
    assert again.named == (), "what is named is not named again"


@pytest.mark.parametrize("kind", [{"type": "array", "items": "long"}, {"type": "map", "values": "long"}])
def test_a_column_that_cannot_be_indexed_does_not_join(base: Path, kind: Any):
    """It has no order."""
    assert indexed_by_write(LocalStorage(), scan(base), schema_with(base, "added", kind=kind)).named == ()


def test_no_column_joins_those_that_an_operator_chose(base: Path):
    """The definitions leave out a column that Hudi indexes by default, so they were chosen."""
    definitions = json.loads((base / INDEX).read_text())
    definitions["indexDefinitions"]["column_stats"]["sourceFields"].remove("name")
    (base / INDEX).write_text(json.dumps(definitions))
    found = indexed_by_write(LocalStorage(), scan(base), schema_with(base, "added"))

    assert found.named == ()
    assert found.indexed is not None and not {"added", "name"} & set(found.indexed.columns)


def test_columns_join_up_to_the_32nd(base: Path):
    """Four there are."""
    names = [f"c{number:02}" for number in range(40)]
    found = indexed_by_write(LocalStorage(), scan(base), schema_with(base, *names))
    assert found.named[-28:] == tuple(names[:28])
    assert len(found.named) == 3 + 32


def test_the_definitions_are_there_at_every_moment(base: Path):
    """A process that dies at any call leaves them old or new and whole, and the next one ends what it began. Keeps 2
    of protocol/metadata/indexed_by_write."""
    schema, before = schema_with(base, "added"), source_fields(base)
    old = (base / INDEX).read_bytes()
    whole = FaultyStorage()
    name(base, schema, whole)
    for call in range(len(whole.calls)):
        (base / INDEX).write_bytes(old)
        with suppress(Killed):
            name(base, schema, FaultyStorage(Fault(FaultKind.KILL, call)))
        assert source_fields(base) in (before, [*before, "added"])
        name(base, schema)
        assert source_fields(base) == [*before, "added"]
