"""Slices of table version 10: native logs, inline logs, and both, by the classic fold. Keeps 5 of
read/logs/log_scan."""

from __future__ import annotations

import io
import json
import os
import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.format.file_name import NativeLogKind
from lakeward.format.log.log_writer import log_block_schema
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.merge.digest import Digest
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.file_slice import open_slice
from lakeward.read.logs.log_deletes import Deletes, find_deletes
from lakeward.read.logs.log_run import LogMerge, LogRun, SliceLogs
from lakeward.read.logs.log_scan import check_ordering, check_schemas, find_block_damage, scan_slice_heads
from lakeward.read.query.slice_query import EVERYTHING, SliceQuery
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage
from tests import native_log_judge as judge
from tests.format.log.native_log.native_files import FILE_ID, FOOTER, SCHEMA, TABLE_JSON, data_file, delete_file
from tests.format.log.native_log.native_files import native_name as name_of
from tests.read.conditions import Among, wanted
from tests.read.native_slices import COMMIT, EVENT, NEWEST, Flush, inline, lay_out, native
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**31)))
KEYS = [f"k{number}" for number in range(10)] + ["ü", "\uffff", "\U0001f600"]
STORAGE = LocalStorage()


def rows_of(given: SliceInput, query: SliceQuery = EVERYTHING) -> dict[str, tuple[int | None, str]]:
    with open_slice(STORAGE, given, query=query) as merged:
        found = [row for batch in merged.batches() for row in batch.to_pylist()]
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["ts"], row["v"]) for row in found}


def digest_of(given: SliceInput) -> str:
    """The file's name, which a slice does not say of its rows, is left out."""
    digest = Digest()
    with open_slice(STORAGE, given) as merged:
        for batch in merged.batches():
            digest.update(batch.drop_columns(["_hoodie_file_name"]))
    return digest.hexdigest


def random_flush(chance: random.Random, instant: str) -> Flush:
    touched = chance.sample(KEYS, chance.randint(1, 8))
    deleted = touched[: chance.randint(0, len(touched))] if chance.random() < 0.7 else []
    return Flush(
        instant,
        [(key, chance.randint(0, 6), f"{instant} {key}") for key in touched if key not in deleted],
        [(key, chance.choice([None, 0, *range(1, 7)])) for key in deleted],
    )


def compacted(flushes: list[Flush], instant: str, rules: MergeRules) -> Flush:
    """The output of a log compaction over flushes that begin with the oldest."""
    ordering = ["ts"] if rules is EVENT else []
    won: dict[str, judge.Version] = {}
    for flush in flushes:
        for name, data in native(flush, rules).items():
            for key, version in judge.versions(name, data, ordering):
                won[key] = judge.newer(won[key], version) if key in won else version
    return Flush(
        instant,
        [(key, each.row["ts"], each.row["v"]) for key, each in won.items() if each.row is not None],
        [(key, each.ordering[0] if each.ordering else None) for key, each in won.items() if each.row is None],
        compacted=tuple(flush.instant for flush in flushes),
    )


@pytest.mark.slow
@pytest.mark.parametrize("rules", [EVENT, COMMIT], ids=["event time", "commit time"])
def test_one_answer_whatever_form_the_logs_have(tmp_path: Path, rules: MergeRules) -> None:
    """At every instant the rows are those of the second reader over native logs: inline, native and mixed, with a log
    compaction of two files among them and without."""
    print(f"LAKEWARD_SEED={SEED}")
    chance = random.Random(f"{SEED} {rules.mode}")
    fields = ["ts"] if rules is EVENT else []
    for number in range(runs(2)):
        base = [(key, chance.randint(0, 6), "base") for key in chance.sample(KEYS, 6)]
        flushes = [random_flush(chance, str(200 + 10 * at)) for at in range(chance.randint(2, 5))]
        sources = flushes[: chance.randint(1, len(flushes))]
        output = native(compacted(sources, "900", rules), rules)
        forms = {
            "inline": [inline(flush, rules) for flush in flushes],
            "native": [native(flush, rules) for flush in flushes],
            "mixed": [chance.choice([inline, native])(flush, rules) for flush in flushes],
        }
        base_rows = [{judge.KEY: key, "ts": ts, "v": v} for key, ts, v in base]
        for instant in ("100", *(flush.instant for flush in flushes), NEWEST):
            of_then = {
                name: data
                for flush, files in zip(flushes, forms["native"], strict=True)
                if flush.instant <= instant
                for name, data in files.items()
            }
            due = judge.merged(base_rows, of_then, fields)
            digests = set()
            for form, files in forms.items():
                for with_output in (False, True):
                    logs = {name: data for of_flush in files for name, data in of_flush.items()}
                    logs |= output if with_output else {}
                    folder = tmp_path / f"{number} {form} {with_output}"
                    given = lay_out(folder, base, logs, rules=rules, instant=instant)
                    assert rows_of(given) == {key: (row["ts"], row["v"]) for key, row in due.items()}
                    if not with_output:  # its rows have another commit time here
                        digests.add(digest_of(given))
            assert len(digests) == 1


def test_rows_of_a_flush_come_before_its_deletes(tmp_path: Path) -> None:
    """So a key in both is deleted; and what another flush of the instant wrote comes behind both."""
    first = native(Flush("200", [("a", 1, "first"), ("b", 1, "first")], [("a", 1), ("b", 1)]))
    second = {name.replace("_1.log.", "_2.log."): data for name, data in native(Flush("200", [("b", 1, "2")])).items()}
    given = lay_out(tmp_path, None, first | second)
    given = replace(given, log_files=(*sorted(given.log_files, key=lambda path: ("_2." in path, ".del" in path)),))
    assert rows_of(given) == {"b": (1, "2")}


def test_deletes_by_a_column_of_ints(tmp_path: Path) -> None:
    """0 and null are the default there, as to Hudi; in a column of longs 0 is a value."""
    rules = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("n",))
    footer = replace(FOOTER, instant="200")
    deletes = delete_file(["a", "b", "c"], pa.array([0, None, 3], pa.int32()), ["n"], footer)
    base = [("a", 1, "base"), ("b", 1, "base"), ("c", 1, "base"), ("d", 1, "base")]
    given = lay_out(tmp_path, base, {name_of(NativeLogKind.DELETES, instant="200").text: deletes}, rules=rules)
    table = pq.read_table(tmp_path / str(given.base_file))
    column = table.schema.get_field_index("n")
    rewritten = table.set_column(column, table.schema.field("n"), pa.array([5, 5, 5, 5], pa.int32()))
    pq.write_table(rewritten.replace_schema_metadata(table.schema.metadata), tmp_path / str(given.base_file))
    assert set(rows_of(given)) == {"c", "d"}
    of_longs = native(Flush("200", deletes=[("a", 0), ("b", None), ("c", 3)]))
    assert set(rows_of(lay_out(tmp_path / "longs", base, of_longs))) == {"a", "d"}


def test_a_log_of_changes_is_not_opened(tmp_path: Path) -> None:
    """Neither counted nor read; its bytes may be anything."""
    changes = {name_of(NativeLogKind.CHANGES, instant="200").text: b"nothing"}
    given = lay_out(tmp_path, None, native(Flush("200", [("a", 1, "x")])) | changes)
    with open_slice(STORAGE, given) as merged:
        list(merged.batches())
        assert merged.counts.log_files == 1
    assert not list(find_block_damage(STORAGE, str(tmp_path), given.log_files[-1]))
    assert find_deletes(STORAGE, str(tmp_path), [given.log_files[-1]], EVENT, SCHEMA) is Deletes.NONE


@pytest.mark.parametrize("rest", [0, 4, 200, -1])
@pytest.mark.parametrize("kind", ["log", "deletes"])
def test_a_torn_native_log_is_an_error(tmp_path: Path, kind: str, rest: int) -> None:
    """An inline log would have a torn block to skip."""
    files = native(Flush("200", [("a", 1, "x")], [("b", 1)]))
    torn = {name: data[:rest] if f".{kind}." in name else data for name, data in files.items()}
    given = lay_out(tmp_path, None, torn)
    with pytest.raises(BrokenFile, match=rf"_1\.{kind}\.parquet"):
        scan_slice_heads(STORAGE, str(tmp_path), given.log_files, instant=NEWEST)
    path = next(path for path in given.log_files if f".{kind}." in path)
    (damage,) = find_block_damage(STORAGE, str(tmp_path), path)
    assert (damage.path, damage.instant) == (path, "200")


def test_a_footer_without_an_entry_is_an_error(tmp_path: Path) -> None:
    """A Parquet file of that name that no writer of logs made."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([], SCHEMA), sink)
    given = lay_out(tmp_path, None, {name_of(instant="200").text: sink.getvalue()})
    with pytest.raises(BrokenFile, match=r"no entry hudi.log.format.metadata"):
        open_slice(STORAGE, given)


def test_the_first_names_of_native_logs_are_read(tmp_path: Path) -> None:
    """RFC-103 had another word for deletes and none for rows."""
    files = native(Flush("200", [("a", 2, "log")], [("b", 2)]))
    early = {name.replace(".log.", ".").replace(".deletes.", ".delete."): data for name, data in files.items()}
    assert early.keys().isdisjoint(files)
    given = lay_out(tmp_path, [("a", 1, "base"), ("b", 1, "base"), ("c", 1, "base")], early)
    assert rows_of(given) == {"a": (2, "log"), "c": (1, "base")}


def test_positions_that_are_none_are_damage(tmp_path: Path) -> None:
    """They are not used, and so no merge finds them."""
    files = {name_of(instant="200").text: data_file([], positions_in="100")}
    ((name, data),) = files.items()
    given = lay_out(tmp_path, None, {name: data.replace(b"AAAAAA==", b"AAAAAQ==")})
    (damage,) = find_block_damage(STORAGE, str(tmp_path), given.log_files[0])
    assert "record positions" in damage.detail
    assert rows_of(given) == {}


@pytest.mark.parametrize("word", ["orc", "lance"])
def test_an_unknown_format_is_refused_by_its_name(tmp_path: Path, word: str) -> None:
    """Before a byte of it is read: heads are scanned before a plan names the log."""
    given = lay_out(tmp_path, None, {name_of(instant="200", format=word).text: b"?"})
    with pytest.raises(Unsupported, match=f"of the format {word}"):
        scan_slice_heads(STORAGE, str(tmp_path), given.log_files, instant=NEWEST)


def test_superseded_native_logs_are_not_opened(tmp_path: Path) -> None:
    """The two files of an output have the place of their sources, whichever of these were opened; what came between is
    merged behind them. Where no output names them, they are opened."""
    first, second = Flush("200", [("a", 1, "x"), ("b", 1, "x")]), Flush("300", [("c", 1, "x")], [("b", 1)])
    between = Flush("400", [("c", 1, "between"), ("b", 1, "between")])
    output = compacted([first, second], "500", COMMIT)
    logs = native(first) | native(second) | native(between) | native(output)
    given = lay_out(tmp_path, None, logs, rules=COMMIT)
    superseded = {path: () for path in given.log_files if "_200_" in path or "_300_" in path}
    for path in superseded:
        (tmp_path / path).write_bytes(b"gone")
    logs = SliceLogs(str(tmp_path), given.log_files, NEWEST, superseded=superseded)
    run = LogRun(STORAGE, logs, LogMerge(COMMIT), schema=SCHEMA)
    with closing(run):
        assert run.instants == ("500", "400")
        assert [each.file.split(".")[-2] for each in run.scan.blocks] == ["log", "deletes", "log"]
    others = [path for path in given.log_files if "_500_" not in path]
    with pytest.raises(BrokenFile):
        scan_slice_heads(STORAGE, str(tmp_path), others, instant=NEWEST, superseded=superseded)


def test_an_output_of_two_files_that_is_not_in_the_slice_yet(tmp_path: Path) -> None:
    """It is read by its paths, as if both were the newest logs."""
    sources = [Flush("200", [("a", 1, "x"), ("b", 1, "x")]), Flush("300", [("c", 2, "x")], [("b", 1)])]
    given = lay_out(tmp_path, None, native(sources[0]) | inline(sources[1]))
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    for name, data in native(compacted(sources, "500", EVENT)).items():
        (attempt / name).write_bytes(data)
    unpublished = sorted((str(path) for path in attempt.iterdir()), key=lambda path: ".deletes." in path)
    logs = SliceLogs(str(tmp_path), given.log_files, NEWEST, unpublished=unpublished)
    run = LogRun(STORAGE, logs, LogMerge(EVENT), schema=SCHEMA)
    with closing(run):
        assert run.instants == ("500",) and len(run.scan.blocks) == 2
        run.read()
        assert run.records.records == 3


def test_a_query_skips_row_groups_and_deletes_by_their_keys(tmp_path: Path) -> None:
    """It is as in inline logs; and a projection leaves columns unread."""
    base = [(key, 1, "base") for key in "abcd"]
    logs = native(Flush("200", [("a", 2, "log"), ("c", 2, "log")], [("b", 2), ("d", 2)]))
    given = lay_out(tmp_path, base, logs)
    query = SliceQuery(columns=("id", "ts", "v"), predicate=wanted(Among("_hoodie_record_key", frozenset({"a"}))))
    assert rows_of(given, query) == {"a": (2, "log")}


def test_the_column_that_orders_may_be_text(tmp_path: Path) -> None:
    """Parquet blocks of inline logs are refused there, since releases read them wrongly; none reads native logs."""
    rules = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("v",))
    table = table_schema(TABLE_JSON)
    given = lay_out(tmp_path, None, native(Flush("200", [("a", 1, "x"), ("b", 1, "y")])), rules=rules)
    check_ordering(scan_slice_heads(STORAGE, str(tmp_path), given.log_files, instant=NEWEST), rules, table)
    assert rows_of(given)["b"] == (1, "y")


def test_a_partial_native_log_keeps_what_it_does_not_have(tmp_path: Path) -> None:
    """A row of it takes the other columns from the row that it wins over."""
    table = json.loads(TABLE_JSON)
    table["fields"] = [field for field in table["fields"] if field["name"] in ("id", "ts")]
    schema = table_schema(json.dumps(table))
    footer = replace(FOOTER, instant="200", schema_json=log_block_schema(json.dumps(table)), is_partial=True)
    sink = io.BytesIO()
    with NativeDataWriter(sink, schema, file_id=FILE_ID, footer=footer) as writer:
        rows = [{**dict.fromkeys(schema.names), "_hoodie_record_key": key, "id": key, "ts": 7} for key in "ab"]
        writer.write(pa.RecordBatch.from_pylist(rows, schema))
        writer.close()
    rules = replace(EVENT, takes_partial_blocks=True)
    base = [("a", 5, "base"), ("b", 9, "base")]
    given = lay_out(tmp_path, base, {name_of(instant="200").text: sink.getvalue()}, rules=rules)
    assert rows_of(given) == {"a": (7, "base"), "b": (9, "base")}
    with pytest.raises(Unsupported, match="partial updates"):
        LogRun(STORAGE, SliceLogs(str(tmp_path), given.log_files, NEWEST), LogMerge(rules), schema=SCHEMA)


def test_schemas_of_native_logs_are_checked(tmp_path: Path) -> None:
    """A column that became wider is read as the table has it; one that became another is refused before it is read."""
    for kind, allowed in (("int", True), ("string", False)):
        before = json.loads(TABLE_JSON)
        before["fields"][1]["type"] = ["null", kind]
        text = json.dumps(before)
        schema = table_schema(text)
        sink = io.BytesIO()
        footer = replace(FOOTER, instant="200", schema_json=log_block_schema(text))
        value = 7 if kind == "int" else "7"
        rows = [{**dict.fromkeys(schema.names), "_hoodie_record_key": "a", "id": "a", "ts": value, "v": "old"}]
        with NativeDataWriter(sink, schema, file_id=FILE_ID, footer=footer) as writer:
            writer.write(pa.RecordBatch.from_pylist(rows, schema))
            writer.close()
        given = lay_out(tmp_path / kind, None, {name_of(instant="200").text: sink.getvalue()})
        scan = scan_slice_heads(STORAGE, given.base_path, given.log_files, instant=NEWEST)
        if allowed:
            check_schemas(scan, SCHEMA)
            assert rows_of(given) == {"a": (7, "old")}
        else:
            with pytest.raises(Unsupported):
                check_schemas(scan, SCHEMA)
