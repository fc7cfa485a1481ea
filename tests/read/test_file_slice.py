from __future__ import annotations

import gc
import io
import json
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported, UntrustedName
from lakeward.format.avro.schema import table_schema
from lakeward.format.file_name import parse_log_file
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.reference import merge_rows
from lakeward.read.file_slice import MergedSlice, open_slice
from lakeward.read.query.slice_query import EVERYTHING, REWRITE, SliceQuery
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.table.table_version import TableVersion
from tests.golden_tables import GOLDEN
from tests.read.log_files import BLOCK_SCHEMA, TABLE_SCHEMA, data_block, delete_block, row

SCHEMA = json.dumps(TABLE_SCHEMA)
EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
BASE = "fg_0-0-0_100.parquet"
LOG = ".fg_200.log.1_0-0-0"


def slice_input(folder: Path, base: str | None, logs: tuple[str, ...], **more: Any) -> SliceInput:
    values = {"schema": SCHEMA, "rules": EVENT, "instant": "999", **more}
    return SliceInput(partition_path="", file_id="fg", base_file=base, log_files=logs, base_path=str(folder), **values)


def make(
    folder: Path, base: list[dict[str, Any]] | None, *logs: bytes, query: SliceQuery = EVERYTHING, **more: Any
) -> MergedSlice:
    if base is not None:
        pq.write_table(pa.Table.from_pylist(base, table_schema(SCHEMA)), folder / BASE)
    names = []
    for number, data in enumerate(logs):
        names.append(f".fg_{200 + number}.log.1_0-0-0")
        (folder / names[-1]).write_bytes(data)
    of_slice = slice_input(folder, BASE if base is not None else None, tuple(names), **more)
    return open_slice(LocalStorage(), of_slice, query=query)


def rows_of(merged: MergedSlice) -> list[tuple[str, int, str]]:
    return [(row["id"], row["ts"], row["v"]) for batch in merged.batches() for row in batch.to_pylist()]


def test_the_golden_table_reads_as_hudi_read_it():
    """The slice that Hudi 1.2.0 wrote gives the rows of Hudi's own snapshot query, meta columns included."""
    folder = GOLDEN / "v9" / "table"
    names = sorted(path.name for path in (folder / "p").iterdir())
    logs = [name for name in names if parse_log_file(name)]  # one version and token each: names sort as logs do
    base = next(name for name in names if name.endswith(".parquet"))
    completed = sorted((folder / ".hoodie" / "timeline").glob("*.deltacommit"))[-1]
    with completed.open("rb") as file:
        schema = next(iter(fastavro.reader(file)))["extraMetadata"]["schema"]
    given = SliceInput(
        partition_path="p",
        file_id=base.split("_")[0],
        base_file=f"p/{base}",
        log_files=tuple(f"p/{name}" for name in logs),
        base_path=str(folder),
        instant="99991231000000000",
        schema=schema,
        rules=EVENT,
    )
    with open_slice(LocalStorage(), given) as merged:
        rows = [row for batch in merged.batches() for row in batch.to_pylist()]

    assert rows == json.loads((GOLDEN / "v9" / "expected.json").read_text())
    counts = merged.counts
    assert (counts.base_rows, counts.updated, counts.inserted, counts.deleted, counts.rows) == (6, 2, 0, 2, 4)
    assert (counts.log_files, counts.log_blocks, counts.log_records, counts.log_keys) == (3, 3, 6, 5)


def test_base_and_logs(tmp_path: Path):
    """Updated rows stay in place, deleted ones go, new ones come last; the counts add up.

    Keeps 1 of merge/hash_merge.
    """
    base = [row(key, 10, "base") for key in "abcd"]
    merged = make(
        tmp_path,
        base,
        data_block("200", [row("c", 11, "log"), row("x", 1, "new"), row("a", 9, "late")]),
        delete_block("201", [("b", None), ("d", 9), ("y", None)]),
    )

    assert rows_of(merged) == [("a", 10, "base"), ("c", 11, "log"), ("d", 10, "base"), ("x", 1, "new")]
    counts = merged.counts
    assert (counts.updated, counts.inserted, counts.deleted, counts.rows) == (1, 1, 1, 4)
    assert (counts.log_records, counts.log_keys) == (6, 6)


def test_the_sample_holds_all_that_the_files_say(tmp_path: Path):
    """Base row, data records and deletes of a sampled key, so that merging them again gives the row that came out."""
    merged = make(
        tmp_path,
        [row("a", 10, "base"), row("b", 10, "base")],
        data_block("200", [row("a", 11, "log"), row("b", 20, "log")]),
        delete_block("201", [("a", None), ("b", 15)]),
        query=SliceQuery(takes_sample=True),
    )
    out = {row["id"]: row for batch in merged.batches() for row in batch.to_pylist()}

    sample = merged.sample.keys
    assert [len(sample[key].logs) for key in "ab"] == [2, 2]
    assert [record.ordering for record in sample["b"].logs] == [None, 15]
    for key in "ab":
        due = merge_rows(sample[key].base, sample[key].logs, EVENT, integers=())
        assert due == [out[key] for key in [key] if key in out]
    assert list(out) == ["b"]


def test_blocks_after_the_instant_are_left_out(tmp_path: Path):
    """A compaction at T merges what a reader at T sees."""
    logs = (data_block("200", [row("a", 11, "log")]), data_block("300", [row("a", 12, "later")]))
    assert rows_of(make(tmp_path, [row("a", 10, "base")], *logs, instant="250")) == [("a", 11, "log")]


def test_without_base_file(tmp_path: Path):
    """A slice of logs alone is all inserts."""
    merged = make(tmp_path, None, data_block("200", [row("a", 1, "log"), row("b", 1, "log")]))
    assert rows_of(merged) == [("a", 1, "log"), ("b", 1, "log")]
    assert (merged.counts.base_rows, merged.counts.inserted) == (0, 2)


def test_without_logs(tmp_path: Path):
    """A slice of a base file alone is that file."""
    assert rows_of(make(tmp_path, [row("a", 1, "base")])) == [("a", 1, "base")]


def test_everything_deleted(tmp_path: Path):
    """A slice may come out empty."""
    merged = make(tmp_path, [row("a", 1, "base")], delete_block("200", [("a", None)]))
    assert rows_of(merged) == []
    assert merged.counts.rows == 0


def test_a_log_compaction_takes_the_place_of_its_sources(tmp_path: Path):
    """Blocks are read where the scan puts them, though their file comes later."""
    merged = make(
        tmp_path,
        [row("a", 10, "base")],
        data_block("200", [row("a", 11, "first")]),
        data_block("201", [row("a", 11, "second"), row("b", 1, "new")]),
        data_block("202", [row("a", 11, "first"), row("b", 1, "new")], COMPACTED_BLOCK_TIMES="200"),
    )
    assert rows_of(merged) == [("a", 11, "second"), ("b", 1, "new")]


@pytest.mark.parametrize("query", [EVERYTHING, REWRITE], ids=["everything", "rewrite"])
@pytest.mark.parametrize("memory_bytes", [1, 2_000, 60_000, 10**6, 10**9])
def test_a_small_budget_spills_and_changes_nothing(tmp_path: Path, memory_bytes: int, query: SliceQuery):
    """The budget decides where rows wait and in what order they come, never which; nor does it if values that repeat
    come as dictionaries, of which the logs have others than the base file.
    """
    base = [row(f"k{number}", 10, "base") for number in range(0, 400, 2)]
    logs = [
        data_block(f"2{part:02}", [row(f"k{n}", 5 + n % 11, f"log{part}") for n in range(part, 400, 3)])
        for part in range(6)
    ]
    spill = tmp_path / "spill"
    spill.mkdir()
    expected = rows_of(make(tmp_path, base, *logs))
    small = make(tmp_path, base, *logs, memory_bytes=memory_bytes)
    merged = open_slice(LocalStorage(), small._input, spill_folder=str(spill), query=query)

    assert pa.types.is_dictionary(merged.row_schema.field("v").type) == (query is REWRITE)
    assert sorted(rows_of(merged)) == sorted(expected)
    assert merged.counts.merged_by is (MergedBy.HASHES if memory_bytes == 10**9 else MergedBy.SORTING)
    assert merged.counts.log_keys == 400
    assert list(spill.iterdir()) == []


def test_giving_up_closes_everything(tmp_path: Path):
    """A reader that stops early leaves no temporary file and no open file behind."""
    logs = [data_block("200", [row(f"k{n}", 1, "x" * 50) for n in range(200)])]
    merged = make(tmp_path, [row("a", 1, "base")], *logs, memory_bytes=100)
    merged = open_slice(LocalStorage(), merged._input, spill_folder=str(tmp_path))
    batches = merged.batches()
    with merged:
        next(batches)
        # By its type alone: to ask what is no file, a dead weak proxy for instance, may raise.
        opened = [
            file for file in gc.get_objects() if type(file) is io.BufferedReader and str(file.name).endswith(BASE)
        ]
    assert [file.closed for file in opened] == [True]
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".arrow"]


def test_log_rows_are_projected_to_the_table(tmp_path: Path):
    """A column that the block does not have is null, one that the table has no more is dropped."""
    evolved = json.loads(SCHEMA)
    evolved["fields"] = [evolved["fields"][0], evolved["fields"][1], {"name": "new", "type": ["null", "double"]}]
    merged = make(tmp_path, [row("a", 1, "base")], data_block("200", [row("b", 1, "x")]), schema=json.dumps(evolved))
    rows = [row for batch in merged.batches() for row in batch.to_pylist()]
    assert [(row["id"], row["new"], "v" in row) for row in rows] == [("a", None, False), ("b", None, False)]


def test_three_hundred_columns(tmp_path: Path):
    """Each has the value of the winning row, also where the log has the columns in another order, and some of a
    narrower type."""
    kinds = ["int", "long", "string", "double", "boolean"]
    values: list[Any] = [1, 2**40, "ü", 0.1, True]

    def columns(of_int: str) -> list[dict[str, Any]]:
        types = [of_int if kind == "int" else kind for kind in kinds] * 60
        return [{"name": f"c{n}", "type": ["null", kind], "default": None} for n, kind in enumerate(types)]

    def wide(key: str, ts: int, shift: int) -> dict[str, Any]:
        several = {f"c{n}": None if (n + shift) % 7 == 0 else values[n % 5] for n in range(300)}
        return row(key, ts, "v") | several

    schema = {**TABLE_SCHEMA, "fields": [*TABLE_SCHEMA["fields"], *columns("long")]}
    of_block = {**BLOCK_SCHEMA, "fields": [*BLOCK_SCHEMA["fields"], *reversed(columns("int"))]}
    base = pa.Table.from_pylist([wide("a", 1, 0), wide("b", 5, 1)], table_schema(json.dumps(schema)))
    pq.write_table(base, tmp_path / BASE)
    log = data_block("200", [wide("a", 2, 2), wide("b", 2, 3), wide("c", 2, 4)], schema_json=of_block)
    (tmp_path / LOG).write_bytes(log)
    merged = open_slice(LocalStorage(), slice_input(tmp_path, BASE, (LOG,), schema=json.dumps(schema)))
    found = [row for batch in merged.batches() for row in batch.to_pylist()]

    names = ["id", *(f"c{n}" for n in range(300))]
    expected = [wide("a", 2, 2), wide("b", 5, 1), wide("c", 2, 4)]
    assert [[each[name] for name in names] for each in found] == [[each[name] for name in names] for each in expected]


@pytest.mark.parametrize("name", ["../x.parquet", "/etc/passwd", "x.txt"])
def test_names_that_leave_the_table_are_refused(tmp_path: Path, name: str):
    """Names come from metadata and are not trusted."""
    with pytest.raises(UntrustedName):
        open_slice(LocalStorage(), slice_input(tmp_path, name, ()))


def test_a_slice_without_files_is_broken(tmp_path: Path):
    """There is nothing to merge."""
    with pytest.raises(BrokenFile):
        open_slice(LocalStorage(), slice_input(tmp_path, None, ()))


def test_a_torn_base_file_is_named(tmp_path: Path):
    """A base file that is no Parquet stops the merge with its name."""
    merged = make(tmp_path, [row("a", 1, "base")])
    (tmp_path / BASE).write_bytes(b"PAR1 nothing")
    with pytest.raises(BrokenFile, match="parquet"):
        rows_of(merged)


def test_a_key_twice_in_the_base_file(tmp_path: Path):
    """The first of its rows meets the logs, the other one stays, also when they are far apart."""
    base = [row(f"k{number % 20_000}", number, "") for number in range(20_001)]
    out = rows_of(make(tmp_path, base, data_block("200", [row("k0", 30_000, "log")])))
    assert [each[:2] for each in out if each[0] == "k0"] == [("k0", 30_000), ("k0", 20_000)]


def test_inputs_travel():
    """A slice input is pickled to executors."""
    given = slice_input(Path("/t"), BASE, (".fg_1.log.1_0-0-0",))
    assert pickle.load(io.BytesIO(pickle.dumps(given))) == given


def test_floats_in_lists_that_became_doubles(tmp_path: Path):
    """A table of version 8 is refused for them, whose readers would find other rows in our file; others are merged."""
    listed = {"name": "f", "type": ["null", {"type": "array", "items": "double"}], "default": None}
    schema = json.dumps({**TABLE_SCHEMA, "fields": [*TABLE_SCHEMA["fields"], listed]})
    base = pa.Table.from_pylist([row("a", 1, "base") | {"f": [0.1]}], table_schema(schema))
    index = base.schema.get_field_index("f")
    floats = base.set_column(index, "f", base.column("f").cast(pa.list_(pa.float32())))
    pq.write_table(floats, tmp_path / BASE)
    for version, widens in ((8, False), (9, True)):
        assert TableVersion(version).widens_floats_alike is widens
        given = slice_input(tmp_path, BASE, (), schema=schema, widens_nested_floats=widens)
        with open_slice(LocalStorage(), given) as merged:
            if widens:
                assert [each["f"] for batch in merged.batches() for each in batch.to_pylist()] == [[0.1]]
            else:
                with pytest.raises(Unsupported, match="column f"):
                    list(merged.batches())
