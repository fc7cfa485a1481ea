"""The rules of the merge as a table: what Hudi 1.2 does, one case each."""

import itertools
import math

import pytest

from lakeward.base.errors import Unsupported
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.reference import LogRecord, fold_key, merge_key

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
COMMIT = MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",))


def row(ts, name="", **more):
    return {"ts": ts, "name": name, **more}


def data(ts, name="", **more):
    return LogRecord(row(ts, name, **more))


def delete(ts=None):
    return LogRecord(None, ts)


def name_of(base, *logs, rules=EVENT, integers=()):
    merged = merge_key(base, logs, rules, integers=integers)
    return None if merged is None else merged["name"]


BASE = row(10, "base")

CASES = {
    "no log record": ([], "base"),
    "greater wins": ([data(11, "log")], "log"),
    "ties go to the log": ([data(10, "log")], "log"),
    "late row loses": ([data(9, "log")], "base"),
    "late row loses to an older log record": ([data(12, "a"), data(11, "b")], "a"),
    "ties go to the newer log record": ([data(12, "a"), data(12, "b")], "b"),
    "delete without ordering value": ([delete()], None),
    "delete without ordering value, over a greater row": ([data(99, "a"), delete()], None),
    "delete with an equal ordering value": ([delete(10)], None),
    "late delete": ([delete(9)], "base"),
    "late delete over a log record": ([data(12, "a"), delete(11)], "a"),
    "a data record after a commit-time delete wins in the logs, then loses to the base": (
        [delete(), data(5, "a")],
        "base",
    ),
    "a data record after a commit-time delete": ([delete(), data(10, "a")], "a"),
    "a tombstone keeps its ordering value": ([delete(20), data(15, "a")], None),
    "an ordered delete does not replace a commit-time delete": ([delete(), delete(5)], None),
    "but a column's delete does": ([delete(), data(5, "a", _hoodie_is_deleted=True)], "base"),
    "a late column's delete": ([data(9, "a", _hoodie_is_deleted=True)], "base"),
    "a column's delete": ([data(10, "a", _hoodie_is_deleted=True)], None),
    "a column's delete without ordering value": ([data(None, "a", _hoodie_is_deleted=True)], None),
    "a long 0 is an ordering value": ([delete(0)], "base"),
}


@pytest.mark.parametrize(("logs", "expected"), CASES.values(), ids=CASES)
def test_event_time(logs, expected):
    """The ordering column is a long, and the base row has 10. Keeps 1 of merge/rules/reference."""
    assert name_of(BASE, *logs) == expected


def test_an_int_zero_is_the_default():
    """In an int column 0 is Hudi's default, so a delete with 0 always wins, and null counts as 0."""
    assert name_of(BASE, delete(0), integers=("ts",)) is None
    assert name_of(row(-1, "base"), data(None, "log"), integers=("ts",)) == "log"
    assert name_of(row(1, "base"), data(None, "log"), integers=("ts",)) == "base"


def test_missing_ordering_values_tie_with_each_other_only():
    """Two nulls tie; a null against a value makes Java throw, so it is refused."""
    assert name_of(row(None, "base"), data(None, "log")) == "log"
    with pytest.raises(Unsupported):
        name_of(BASE, data(None, "log"))
    with pytest.raises(Unsupported):
        name_of(None, data(1), data(None))


def test_a_delete_block_looks_at_the_class_first():
    """An ordered delete over a record without ordering value wins in the logs: the classes differ."""
    assert name_of(None, data(None, "a"), delete(5)) is None


def test_keys_only_in_the_logs():
    """A data record alone is an insert; a delete alone is nothing."""
    assert name_of(None, data(1, "a")) == "a"
    assert name_of(None, data(1, "a"), delete()) is None
    assert name_of(None, delete(5)) is None


def test_commit_time_takes_the_last():
    """Ordering values do not count under commit time ordering."""
    assert name_of(BASE, data(1, "a"), rules=COMMIT) == "a"
    assert name_of(BASE, delete(1), rules=COMMIT) is None
    assert name_of(BASE, delete(99), data(1, "a"), rules=COMMIT) == "a"


def test_event_time_without_ordering_field_takes_the_last():
    """Without an ordering field all values are the default and ties go to the later record."""
    rules = MergeRules(MergeMode.EVENT_TIME_ORDERING)
    assert name_of(BASE, data(1, "a"), rules=rules) == "a"
    assert name_of(BASE, delete(), data(1, "a"), rules=rules) == "a"
    assert name_of(BASE, data(1, "a"), delete(), rules=rules) is None


def test_several_ordering_fields():
    """They are compared one after the other, as Hudi's reader of a real table does; a late delete leaves the row, and
    one without ordering values never does."""

    def both(base, *logs, integers=()):
        return name_of(base, *logs, rules=MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts", "no")), integers=integers)

    base = row(10, "base", no="m")
    assert both(base, data(10, "log", no="n")) == "log"
    assert both(base, data(10, "log", no="m")) == "log"
    assert both(base, data(10, "log", no="a")) == "base"
    assert both(base, data(9, "log", no="z")) == "base"
    assert both(base, data(11, "log", no="a")) == "log"
    assert both(base, delete((10, "a"))) == "base"
    assert both(base, delete((10, "z"))) is None
    assert both(base, delete()) is None
    zeros = row(0, "base", no=0)
    assert both(zeros, delete((0, 0)), data(0, "log", no=-1), integers=("ts", "no")) is None, "no commit-time delete"
    assert both(row(None, "base", no=1), delete((0, 0)), integers=("ts", "no")) == "base"
    for integers in ((), ("ts",)):
        of_another_class = both(None, data(10, "a", no=None), delete((9, "a")), integers=integers)
        assert of_another_class is None, "a delete wins over values of other classes"
    assert both(row(10, "base", no=None), data(10, "log", no=None)) == "log"
    with pytest.raises(Unsupported):
        both(base, data(10, "log", no=None))


def test_a_base_row_is_never_a_delete():
    """Hudi's reader passes a base row that says it is deleted."""
    assert name_of(row(10, "base", _hoodie_is_deleted=True)) == "base"
    assert name_of(row(10, "base", _hoodie_is_deleted=True), data(9, "a")) == "base"


def test_floats_compare_as_in_java():
    """NaN is the greatest, and -0.0 is less than 0.0."""
    assert name_of(row(math.nan, "base"), data(math.inf, "log")) == "base"
    assert name_of(row(math.nan, "base"), data(math.nan, "log")) == "log"
    assert name_of(row(0.0, "base"), data(-0.0, "log")) == "base"
    assert name_of(row(-0.0, "base"), data(0.0, "log")) == "log"


def test_strings_compare_by_their_bytes():
    """UTF-8 has a character above U+FFFF after U+FFFF; UTF-16 has it before."""
    assert name_of(row("\uffff", "base"), data("\U00010000", "log")) == "log"


@pytest.mark.parametrize("rules", [EVENT, COMMIT], ids=["event", "commit"])
@pytest.mark.parametrize("integers", [(), ("ts",)])
def test_folding_the_oldest_records_first_changes_nothing(rules, integers):
    """Whatever run of oldest records is replaced by what it folds to, the same record survives in the end: what a LOG
    compaction lives on. All histories of up to four records, three ordering values and every kind of delete."""
    values = [0, 9, 10] if integers else [5, 10, 15]
    kinds = [data(ts, str(ts)) for ts in values]
    kinds += [data(values[1], "d", _hoodie_is_deleted=True), delete(), delete(values[1]), delete(values[2])]
    for length in (2, 3, 4):
        for logs in itertools.product(kinds, repeat=length):
            for base in (None, BASE):
                expected = merge_key(base, logs, rules, integers=integers)
                for run in range(1, length + 1):
                    folded = fold_key(logs[:run], rules, integers=integers)
                    with_output = [folded, *logs[run:]]
                    assert merge_key(base, with_output, rules, integers=integers) == expected, logs


def test_a_run_from_the_middle_may_not_be_folded():
    """Under event time ordering a delete without ordering value between older records makes the difference."""
    logs = [data(12, "a"), delete(), data(5, "b")]
    assert name_of(BASE, *logs) == "base"
    assert name_of(BASE, logs[0], fold_key(logs[1:], EVENT, integers=())) == "a"


def test_what_a_key_folds_to():
    """A row as it is; a delete, of a block or by a column, with its ordering value."""
    assert fold_key([data(1), data(2, "b")], EVENT, integers=()) == data(2, "b")
    assert fold_key([data(1), delete(3)], EVENT, integers=()) == delete(3)
    assert fold_key([data(4, _hoodie_is_deleted=True)], EVENT, integers=()) == delete(4)
    assert fold_key([delete()], EVENT, integers=()) == delete()
    assert fold_key([delete()], EVENT, integers=("ts",)) == delete(0)
    assert fold_key([data(4, _hoodie_is_deleted=True)], COMMIT, integers=()) == delete()
