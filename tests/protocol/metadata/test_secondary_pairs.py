"""What a secondary index learns of a write."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.format.file_name import LogFileName
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.key import file_group_index, hashed_secondary_value, secondary_index_key
from lakeward.format.metadata.log_file import write_metadata_deletes
from lakeward.format.metadata.record import SecondaryIndexRecord
from lakeward.protocol.metadata import secondary_pairs
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata.key_changes import WriteChanges
from lakeward.protocol.metadata.key_sorter import KeySorter
from lakeward.protocol.metadata.secondary_pairs import why_not_indexed
from lakeward.read import slice_scan
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA, METADATA_TIMELINE, PARTITION_PROPERTY, set_property
from tests.our_reader import read_rows, scan
from tests.protocol.metadata.test_metadata_writer import INSTANT, Desk

BORN = "00000000000000009"
INDEX = "secondary_index_by_name"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The golden table with a secondary index of two file groups, as it is when it was created."""
    base = copy_golden(GOLDEN, tmp_path / "table")
    set_property(base, PARTITION_PROPERTY, f"column_stats,files,record_index,{INDEX}")
    file = base / ".hoodie" / ".index_defs" / "index.json"
    document = json.loads(file.read_text())
    definition = {"indexName": INDEX, "indexType": "secondary_index", "indexFunction": "", "sourceFields": ["name"]}
    document["indexDefinitions"][INDEX] = definition | {"indexOptions": {}, "version": "V2"}
    file.write_text(json.dumps(document))
    folder = base / METADATA / INDEX
    folder.mkdir()
    for number in range(2):
        with (folder / f".secondary-index-by-name-{number:04}-0_{BORN}.log.1_0-0-0").open("wb") as sink:
            write_metadata_deletes(
                sink, instant=BORN, schema_json="{}", partition=INDEX, keys=pa.array(["none"], pa.string())
            )
    timeline = base / METADATA_TIMELINE
    (done,) = timeline.glob("00000000000000000_*.deltacommit")
    shutil.copy(done, timeline / done.name.replace("00000000000000000_", f"{BORN}_"))
    return base


def pairs(base: Path) -> set[str]:
    return {secondary_index_key(row["name"], row["_hoodie_record_key"]) for row in read_rows(base)}


def written_pairs(desk: Desk, files: list[NewFile], write: WriteChanges) -> tuple[set[str], set[str]]:
    """Pairs that came, and that are gone."""
    desk.commit.prepare(scan(desk.base), files, write=write)
    desk.publish(desk.commit.stage(scan(desk.base), files, write=write, fence=lambda: None))
    records = desk.records(INDEX)
    assert set(records.values()) <= {SecondaryIndexRecord()}
    for block in desk.blocks(INDEX):
        keys = block.deleted_keys if block.hfile is None else [key.decode() for key, _ in block.hfile.entries()]
        groups = {file_group_index(hashed_secondary_value(key), 2) for key in keys}
        assert [f"-{group:04}-0_" in block.where for group in groups] == [True]
    return set(records), desk.deleted(INDEX)


@pytest.mark.parametrize("hidden", [1, 2], ids=["deletes", "updates"])
def test_pairs_of_a_log_are_what_it_changes(base: Path, hidden: int):
    """A row that was deleted or has another value now loses its pair, one that came or changed gets one; a value that
    stays is not given again. Keeps 1 of protocol/metadata/secondary_pairs."""
    timeline = base / ".hoodie" / "timeline"
    last = sorted(path for path in timeline.iterdir() if path.suffix == ".deltacommit")[-hidden:]
    away = [path.rename(base / path.name) for path in last]
    before = pairs(base)
    first = away[0].rename(last[0])
    after = pairs(base)
    instant = first.name.partition("_")[0]
    first.rename(away[0])
    desk = Desk(base)
    (group,) = scan(base).file_groups
    (log,) = (base / "p").glob(f".*_{instant}.log.1_*")
    name = LogFileName(group.file_id, INSTANT, 1, "0-7-0").text
    shutil.copy(log, desk.folder / name)
    file = NewFile("p", group.file_id, name, log.stat().st_size, ())

    assert written_pairs(desk, [file], WriteChanges(scan(base).schema or "")) == (after - before, before - after)
    assert after != before


def test_pairs_of_a_base_file_and_of_what_is_replaced(base: Path):
    """A new group brings all of its rows, and one that is replaced takes all of its: a row in both stays."""
    desk = Desk(base)
    (group,) = scan(base).file_groups
    base_file = next(each.base_file for each in group.slices if each.base_file is not None)
    name = base_file.name.replace(group.file_id, "new-0")
    shutil.copy(base / base_file.path, desk.folder / name)
    before = pairs(base)
    write = WriteChanges(scan(base).schema or "", replaced=(("p", group.file_id),))
    came, gone = written_pairs(desk, [NewFile("p", "new-0", name, 5, ())], write)
    assert len(came) == 6
    assert gone == before - came != set()


def test_memory_is_that_of_one_group(base: Path, monkeypatch: pytest.MonkeyPatch):
    """What one group changes is given to the sorter before the next one is read. Keeps 2 of
    protocol/metadata/secondary_pairs."""
    events: list[str] = []
    read, add = slice_scan.base_rows, KeySorter.add

    def shown(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*arguments: Any, **words: Any) -> Any:
            events.append(name)
            return act(*arguments, **words)

        return acted

    monkeypatch.setattr(secondary_pairs, "base_rows", shown("read", read))
    monkeypatch.setattr(KeySorter, "add", shown("add", add))
    desk = Desk(base)
    (group,) = scan(base).file_groups
    base_file = next(each.base_file for each in group.slices if each.base_file is not None)
    files = []
    for number in range(2):
        name = base_file.name.replace(group.file_id, f"new{number}-0")
        shutil.copy(base / base_file.path, desk.folder / name)
        files.append(NewFile("p", f"new{number}-0", name, 5, ()))
    desk.commit.prepare(scan(base), files, write=WriteChanges(scan(base).schema or ""))
    assert events == ["read", "add", "add"] * 2


@pytest.mark.parametrize(("column", "is_indexed"), [("name", True), ("ts", True), ("missing", False)])
def test_what_cannot_be_indexed_is_shown(base: Path, column: str, is_indexed: bool):
    """Text and whole numbers can; of others it is not known how Hudi writes them."""
    definition = IndexDefinition(INDEX, "secondary_index", "", (column,), {}, 2)
    assert (why_not_indexed(definition, scan(base).schema) is None) == is_indexed
    assert "does not name one column" in (why_not_indexed(None, None) or "")


@pytest.mark.parametrize("kind", ["boolean", "float", "double", "bytes", {"type": "int", "logicalType": "date"}])
def test_other_types_are_not_indexed(kind: object):
    """They are named by the column and its type."""
    fields = [{"name": "id", "type": "string"}, {"name": "other", "type": ["null", kind], "default": None}]
    schema = json.dumps({"type": "record", "name": "rows", "fields": fields})
    for column, is_indexed in (("id", True), ("other", False)):
        why = why_not_indexed(IndexDefinition(INDEX, "secondary_index", "", (column,), {}, 2), schema)
        assert (why is None) == is_indexed
        assert is_indexed or "the column other of the type" in (why or "")
