"""What may be left unread: each case of decision 0046, and many more by chance against a read of everything."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.parquet.row_groups import RowGroup, ValueRange
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeMode, MergeRules, PartialUpdates
from lakeward.read.query.predicate import Predicate
from lakeward.read.query.row_group_choice import LogSide, choose_log_row_groups, choose_row_groups
from lakeward.read.query.slice_query import SliceQuery
from tests.read.conditions import Among, Between, wanted
from tests.read.log_files import data_block, delete_block, row
from tests.read.slice_queries import COMMIT, EVENT, TABLE, Rows, lay_out, parquet_block, read
from tests.runs import runs

KEY = RECORD_KEY_FIELD
WANTED = wanted(Among("v", frozenset({"wanted"})))
FILLED = [replace(rules, partial_updates=PartialUpdates.IGNORE_DEFAULTS) for rules in (COMMIT, EVENT)]


def rows_of(
    folder: Path, base: Rows | None, *logs: bytes, rules: MergeRules = EVENT, predicate: Predicate = WANTED
) -> tuple[list[tuple[str, int, str]], int]:
    """The rows that are wanted, and how many row groups were skipped for it."""
    rows, meter = read(lay_out(folder, base, logs, rules=rules), SliceQuery(predicate=predicate))
    return [(row["id"], row["ts"], row["v"]) for row in rows], meter.row_groups_skipped


def test_an_older_log_record_stays_beaten(tmp_path: Path):
    """The base row is the newer one by event time, and its values are not wanted: it is read all the same.

    Skipped, it would leave the field to the record in the log, whose value is wanted.
    """
    late = data_block("200", [row("k", 5, "wanted")])
    assert rows_of(tmp_path, [row("a", 10, "x"), row("k", 10, "x"), row("z", 10, "x")], late) == ([], 2)


def test_a_newer_log_record_that_is_not_wanted_hides_the_base_row(tmp_path: Path):
    """Logs are never filtered by values before they are merged."""
    newer = data_block("200", [row("k", 20, "x")])
    assert rows_of(tmp_path, [row("k", 10, "wanted"), row("z", 1, "wanted")], newer) == ([("z", 1, "wanted")], 0)


def test_a_newer_log_record_hides_an_older_one(tmp_path: Path):
    """Logs are not filtered before they are merged with each other, with a base file or without."""
    logs = data_block("200", [row("k", 10, "wanted")]), data_block("201", [row("k", 11, "x")])
    assert rows_of(tmp_path, None, *logs) == ([], 0)
    assert rows_of(tmp_path, [row("k", 9, "x")], *logs) == ([], 0)


@pytest.mark.parametrize("rules", [EVENT, COMMIT])
def test_where_the_last_one_written_wins_no_base_row_is_needed(tmp_path: Path, rules: MergeRules):
    """The log's record is the row by commit time, whatever stood in the base file; by event time they meet."""
    later = data_block("200", [row("k", 5, "wanted")])
    found, skipped = rows_of(tmp_path, [row("a", 10, "x"), row("k", 10, "x")], later, rules=rules)
    assert (found, skipped) == (([("k", 5, "wanted")], 2) if rules is COMMIT else ([], 1))


@pytest.mark.parametrize("rules", FILLED, ids=lambda rules: rules.mode.value)
def test_a_row_that_fills_another_is_read(tmp_path: Path, rules: MergeRules):
    """The base row of a partial update gives what the log's record lacks, though its own values are not wanted; also by
    commit time, where no base row is needed otherwise. And where it gives the value that is wanted, it is found."""
    base = [row("a", 10, "x"), row("k", 10, "x"), row("m", 10, "wanted")]
    later = data_block("200", [row("k", 20, "wanted") | {"id": None}, row("m", 20, "") | {"v": None}])
    found = [("k", 20, "wanted"), ("m", 20, "wanted")]
    assert rows_of(tmp_path, base, later, rules=rules) == (found, 1)


@pytest.mark.parametrize("ordering", [None, 5, 20])
def test_deletes_need_no_base_row(tmp_path: Path, ordering: int | None):
    """A delete gives no row, and neither does the base row that beats it, since its values are not wanted."""
    deletes = delete_block("200", [("k", ordering)])
    assert rows_of(tmp_path, [row("a", 10, "x"), row("k", 10, "x")], deletes) == ([], 2)


def test_a_delete_takes_the_row_that_is_wanted(tmp_path: Path):
    """A delete that is older than the row does not."""
    deletes = delete_block("200", [("a", None), ("b", 20), ("c", 5)])
    found, skipped = rows_of(tmp_path, [row(key, 10, "wanted") for key in "abc"], deletes)
    assert (found, skipped) == ([("c", 10, "wanted")], 0)


def test_keys_prune_logs_and_base_file_alike(tmp_path: Path):
    """No version of a record with another key is wanted, so none can be missed: data, deletes, base rows."""
    base = [row(key, 10, key) for key in "abcdef"]
    logs = (
        parquet_block("200", [row(key, 20, f"new {key}") for key in "bdfhj"], 1),
        delete_block("201", [("c", None), ("e", None)]),
        data_block("202", [row("a", 5, "late"), row("g", 5, "new")]),
    )
    given = lay_out(tmp_path, base, logs)
    for keys, expected in (("ce", []), ("ab", ["a", "new b"]), ("jk", ["new j"]), ("g", ["new"]), ("", [])):
        predicate = wanted(Among(KEY, frozenset(keys)))
        rows, meter = read(given, SliceQuery(predicate=predicate))
        assert [row["v"] for row in rows] == expected
        read_groups = sum(key in "abcdef" for key in keys) + sum(key in "bdfhj" for key in keys)
        assert (meter.row_groups, meter.row_groups_skipped) == (read_groups, 11 - read_groups)


def test_without_statistics_everything_is_read(tmp_path: Path):
    """A query may say that footers are in doubt."""
    given = lay_out(tmp_path, [row(key, 10, key) for key in "abc"], [parquet_block("200", [row("d", 1, "d")], 1)])
    predicate = wanted(Among(KEY, frozenset("b")))
    rows, meter = read(given, SliceQuery(predicate=predicate, by_statistics=False))
    assert [row["v"] for row in rows] == ["b"]
    assert (meter.row_groups, meter.row_groups_skipped) == (4, 0)


def group(number: int, keys: str | None, values: str | None = None) -> RowGroup:
    """`keys` are the smallest and the largest one; None where nothing is known."""
    ranges = {KEY: keys, "v": values}
    return RowGroup(number, 1, {name: ValueRange(at[0], at[1]) for name, at in ranges.items() if at is not None})


@pytest.mark.parametrize(
    ("mode", "log_keys", "chosen"),
    [
        (MergeMode.EVENT_TIME_ORDERING, None, [1]),
        (MergeMode.EVENT_TIME_ORDERING, "ab", [0, 1, 3]),
        (MergeMode.EVENT_TIME_ORDERING, "bb", [0, 1, 3]),
        (MergeMode.EVENT_TIME_ORDERING, "ce", [0, 1, 2, 3]),
        (MergeMode.EVENT_TIME_ORDERING, "xz", [1, 3]),
        (MergeMode.COMMIT_TIME_ORDERING, "az", [1]),
    ],
)
def test_the_rule(mode: MergeMode, log_keys: str | None, chosen: list[int]):
    """A group whose values are not wanted is read where a data record of the logs may lie among its keys.

    Keys that are not known may be any.
    """
    groups = [group(0, "ac", "mn"), group(1, "df", "tx"), group(2, "eg", "mn"), group(3, None, "mn")]
    logs = LogSide(mode, None if log_keys is None else ValueRange(log_keys[0], log_keys[1]))
    assert choose_row_groups(groups, wanted(Among("v", frozenset("v"))), logs) == chosen
    assert choose_log_row_groups(groups, wanted(Among("v", frozenset("v")))) == [0, 1, 2, 3]


def test_a_group_without_wanted_keys_is_skipped_whatever_its_values(tmp_path: Path):
    """Both conditions hold for a row, so that one of them is enough to pass it over."""
    groups = [group(0, "ac", "tx"), group(1, "df", "tx"), group(2, None, "tx")]
    predicate = wanted(Between(KEY, "d"), Among("v", frozenset("v")))
    logs = LogSide(MergeMode.EVENT_TIME_ORDERING, ValueRange("a", "z"))
    assert choose_row_groups(groups, predicate, logs) == [1, 2]
    assert choose_log_row_groups(groups, predicate) == [1, 2]


KEYS = [f"k{number}" for number in range(8)]
VALUES = ["u", "v", "w"]


def random_rows(chance: random.Random, keys: list[str]) -> Rows:
    return [row(key, chance.randrange(8), chance.choice([*VALUES, None])) for key in keys]  # type: ignore[arg-type]


def random_log(chance: random.Random, instant: str) -> bytes:
    keys = chance.sample(KEYS, chance.randrange(1, 5))
    kind = chance.choice([0, 1, 1, 2, 2])
    if kind == 0:
        ordering = chance.choice([None, chance.randrange(8)])
        return delete_block(instant, [(key, ordering) for key in keys])
    rows = random_rows(chance, keys)
    return data_block(instant, rows) if kind == 1 else parquet_block(instant, rows, chance.randrange(1, 3))


def random_condition(chance: random.Random) -> Among | Between:
    match chance.choice([0, 1, 2, 2, 3, 4]):
        case 0:
            return Among(KEY, frozenset(chance.sample(KEYS, chance.randrange(4))))
        case 1:
            return Between(KEY, chance.choice([None, *KEYS]), chance.choice([None, *KEYS]))
        case 2:
            return Among("v", frozenset(chance.sample(VALUES, chance.randrange(3))))
        case 3:
            return Between("ts", chance.choice([None, 2, 5]), chance.choice([None, 4, 6]))
    return Among("ts", frozenset({chance.randrange(8)}))


@pytest.mark.parametrize("seed", range(runs(8)))
def test_what_is_read_and_filtered_is_what_everything_filtered_is(tmp_path: Path, seed: int):
    """Random slices of every kind, of partial updates too, against a read of all rows whose rows are chosen afterwards.

    Keeps 1 of read/query/row_group_choice.
    """
    chance = random.Random(seed)
    keys = chance.sample(KEYS, chance.choice([0, 2, 6, 7, 8]))
    base = random_rows(chance, sorted(keys) if chance.random() < 0.5 else keys)
    logs = [random_log(chance, str(200 + number)) for number in range(chance.randrange(4))]
    rules = chance.choice([EVENT, EVENT, COMMIT, *FILLED])
    given = lay_out(
        tmp_path, base if base or not logs else None, logs, rules=rules, group_rows=chance.choice([1, 1, 2, 3])
    )
    everything, _ = read(given)
    for _ in range(8):
        conditions = [random_condition(chance) for _ in range(chance.choice([1, 1, 2]))]
        columns = chance.choice([None, [KEY, *chance.sample(TABLE.names, 2)]])
        expected = [
            {name: value for name, value in row.items() if columns is None or name in columns}
            for row in everything
            if all(condition.holds(row[condition.column]) for condition in conditions)
        ]
        assert read(given, SliceQuery(columns, wanted(*conditions)))[0] == expected, (conditions, columns)
