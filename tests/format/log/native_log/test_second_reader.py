"""Slices of native logs, written at random, read by the second reader: files are in order, and no row is lost."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakeward.format.file_name import NativeLogKind
from tests import native_log_judge as judge
from tests.format.log.native_log.native_files import FOOTER, data_file, delete_file, native_name, row
from tests.runs import runs

KEYS = [f"k{number}" for number in range(12)] + ["ü", "\uffff", "\U0001f600"]
SEED = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**31)))


def flush(at: int, chance: random.Random, fields: list[str]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """(the files of one flush, what happens to each key): rows and deletes share no key."""
    instant = f"2026112200{at:07}"
    touched = sorted(chance.sample(KEYS, chance.randint(1, 8)), key=str.encode)
    changes = {key: (chance.choice(["row", "row", "delete"]), chance.randint(1, 9)) for key in touched}
    footer = replace(FOOTER, instant=instant)
    name = {"instant": instant, "version": chance.randint(1, 12)}
    rows = [row(key, ts, f"{at}") for key, (kind, ts) in changes.items() if kind == "row"]
    deletes = {key: ts for key, (kind, ts) in changes.items() if kind == "delete"}
    files = {}
    if rows:
        files[native_name(**name).text] = data_file(rows, footer)
    if deletes:
        ordering = pa.array(deletes.values(), pa.int64()) if fields else None
        files[native_name(NativeLogKind.DELETES, **name).text] = delete_file(list(deletes), ordering, fields, footer)
    return files, {key: (ts, None if kind == "delete" else f"{at}") for key, (kind, ts) in changes.items()}


@pytest.mark.parametrize("fields", [[], ["ts"]])
@pytest.mark.parametrize("lsm", [False, True])
def test_the_second_reader_finds_the_rows_that_were_written(fields: list[str], lsm: bool) -> None:
    """Whatever was written last, or has the greatest value; both folds agree, as all deletes have values here."""
    print(f"LAKEWARD_SEED={SEED}")
    chance = random.Random(f"{SEED} {fields} {lsm}")
    for _ in range(runs(6)):
        base = [{judge.KEY: key, "ts": chance.randint(1, 9), "v": "base"} for key in chance.sample(KEYS, 6)]
        due = {each[judge.KEY]: (each["ts"], "base") for each in base}
        logs: dict[str, bytes] = {}
        for at in range(chance.randint(1, 6)):
            files, changes = flush(at, chance, fields)
            logs |= files
            for key, (ts, v) in changes.items():
                if not fields or key not in due or ts >= due[key][0]:
                    due[key] = (ts, v)
        found = judge.merged(base, logs, fields, lsm=lsm)
        assert {key: each["v"] for key, each in found.items()} == {
            key: v for key, (_, v) in due.items() if v is not None
        }


def test_the_folds_differ_where_a_delete_has_no_value() -> None:
    """Base 10, an unconditional delete, a row of 5: the fold that begins with the base keeps the row, the other the
    base. It is the one case that is known, and upstream's."""
    base = [{judge.KEY: "a", "ts": 10, "v": "base"}]
    logs = {
        native_name(NativeLogKind.DELETES, instant="1").text: delete_file(["a"], pa.nulls(1, pa.int64()), ["ts"]),
        native_name(instant="2").text: data_file([row("a", 5, "log")]),
    }
    assert judge.merged(base, logs, ["ts"], lsm=True)["a"]["v"] == "log"
    assert judge.merged(base, logs, ["ts"])["a"]["v"] == "base"


def test_what_an_output_stands_for_is_not_read_again() -> None:
    """The classic fold leaves the sources out; that of `lsm_tree` reads them, too."""
    output = data_file([row("a", 1, "output")], replace(FOOTER, instant="3", compacted_instants=("1",)))
    logs = {native_name(instant="1").text: data_file([row("b", 1, "source")]), native_name(instant="3").text: output}
    assert set(judge.merged([], logs, [])) == {"a"}
    assert set(judge.merged([], logs, [], lsm=True)) == {"a", "b"}
