"""Whether a run of logs may be folded without the logs before it, on real blocks and against the slow merge."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, MergeMode, MergeRules
from lakeward.merge.rules.reference import LogRecord, fold_key
from lakeward.read.logs.log_deletes import Deletes, find_deletes, folds_by_itself
from lakeward.storage.local import LocalStorage
from tests.read.log_files import TABLE_SCHEMA, block, data_block, delete_block, row

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
COMMIT = MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",))
SCHEMA = table_schema(json.dumps(TABLE_SCHEMA))

PUTS = [("put", 1), ("put", 2), ("put", 3)]
ORDERED = [("delete", 1), ("delete", 2), ("delete", 3)]
UNCONDITIONAL = [("delete", None)]

Records = Sequence[tuple[str, str, int | None]]
"""The records of one log: key, what is done to it, ordering value."""


def make(folder: Path, logs: Sequence[Records]) -> list[str]:
    """Logs of these records, oldest first."""
    paths = []
    for number, records in enumerate(logs):
        instant = str(100 + number)
        content = b""
        for key, kind, ts in records:
            if kind == "put":
                content += data_block(instant, [row(key, ts, instant, instant=instant)])
            else:
                content += delete_block(instant, [(key, ts)])
        paths.append(f".fg_{instant}.log.1_0-0-0")
        (folder / paths[-1]).write_bytes(content)
    return paths


def is_allowed(folder: Path, paths: Sequence[str], first: int, rules: MergeRules = EVENT) -> bool:
    return folds_by_itself(
        LocalStorage(), str(folder), run=paths[first:], ahead=paths[:first], rules=rules, schema=SCHEMA
    )


def folded(logs: Sequence[Records], first: int, key: str, rules: MergeRules) -> list[LogRecord]:
    """What is left of one key: all records in order, and those from log `first` on folded before the others."""

    def records(some: Sequence[Records]) -> list[LogRecord]:
        return [
            LogRecord({"ts": ts, "log": number} if kind == "put" else None, None if kind == "put" else ts)
            for number, log in enumerate(some, start=len(logs) - len(some))
            for of, kind, ts in log
            if of == key
        ]

    every, run = records(logs), records(logs[first:])
    ahead = every[: len(every) - len(run)]
    apart = [*ahead, fold_key(run, rules, integers=())] if run else ahead
    # A later row tells apart what looks alike now: a delete that always wins, and one that does not.
    later = [LogRecord({"ts": ts, "log": 99}) for ts in (0, 1, 2, 3)]
    return [
        fold_key([*all_of, *more], rules, integers=())
        for more in ([], *([each] for each in later))
        for all_of in (every, apart)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("rules", [EVENT, COMMIT], ids=lambda rules: rules.mode.value)
def test_a_run_that_is_allowed_changes_no_record(tmp_path: Path, rules: MergeRules) -> None:
    """Keeps 1 of read/logs/log_deletes: random logs of two keys on storage, every start of a run. LAKEWARD_SEED
    repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    allowed = refused = 0
    for _ in range(250):
        kinds = chance.choice([PUTS, PUTS + ORDERED, PUTS + ORDERED + UNCONDITIONAL, PUTS + UNCONDITIONAL])
        logs = [
            [(chance.choice("ab"), *chance.choice(kinds)) for _ in range(chance.randint(1, 2))]
            for _ in range(chance.randint(2, 5))
        ]
        paths = make(tmp_path, logs)
        for first in range(1, len(logs)):
            if not is_allowed(tmp_path, paths, first, rules):
                refused += 1
                continue
            allowed += 1
            for key in "ab":
                if any(of == key for log in logs for of, _, _ in log):
                    left = folded(logs, first, key, rules)
                    assert left[0::2] == left[1::2], (logs, first, key)
    assert allowed > 150 and (refused > 50) is (rules is EVENT)


def test_what_is_refused_would_change_records(tmp_path: Path) -> None:
    """The two examples at the head of the module: a delete that always wins, in the run, or before one with deletes."""
    in_run: list[Records] = [[("a", "put", 5)], [("a", "delete", None), ("a", "put", 3)]]
    before: list[Records] = [[("a", "delete", None)], [("a", "delete", 5), ("a", "put", 3)]]
    for logs in (in_run, before):
        assert not is_allowed(tmp_path, make(tmp_path, logs), 1)
        left = folded(logs, 1, "a", EVENT)
        assert left[0] != left[1]


def test_a_run_without_deletes_may_lie_behind_any(tmp_path: Path) -> None:
    """Nothing before it is read then."""
    logs: list[Records] = [[("a", "delete", None)], [("a", "put", 3), ("a", "put", 2)]]
    left = folded(logs, 1, "a", EVENT)
    assert left[0::2] == left[1::2]
    paths = make(tmp_path, logs)
    (tmp_path / paths[0]).unlink()
    assert is_allowed(tmp_path, paths, 1)


def test_what_heads_do_not_report_is_the_worst(tmp_path: Path) -> None:
    """Keeps 2 of read/logs/log_deletes: a column that may delete rows without an ordering value, and a damaged
    block."""

    def found(data: bytes, rules: MergeRules = EVENT) -> Deletes:
        (tmp_path / ".fg_100.log.1_0-0-0").write_bytes(data)
        return find_deletes(LocalStorage(), str(tmp_path), [".fg_100.log.1_0-0-0"], rules, SCHEMA)

    plain = data_block("100", [row("a", 1, "")])
    assert found(plain) is Deletes.NONE
    assert found(plain + delete_block("100", [("b", 4), ("c", 5)])) is Deletes.ORDERED
    assert found(plain + delete_block("100", [("b", 4), ("c", None)])) is Deletes.UNCONDITIONAL
    assert found(plain[:-9] + plain) is Deletes.UNCONDITIONAL
    schema = json.dumps(TABLE_SCHEMA).replace('"v"', '"_hoodie_is_deleted"')
    assert found(data_block("100", [row("a", 1, "")], SCHEMA=schema)) is Deletes.UNCONDITIONAL


def test_blocks_of_changes_delete_nothing(tmp_path: Path) -> None:
    """No reader merges them, whatever columns they speak of."""
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": IS_DELETED_FIELD, "type": "boolean"}]})
    changes = block(BlockType.CDC_DATA, {HeaderKey.INSTANT_TIME: "100", HeaderKey.SCHEMA: schema}, b"changes")
    (tmp_path / ".fg_100.log.1_0-0-0").write_bytes(changes)

    assert find_deletes(LocalStorage(), str(tmp_path), [".fg_100.log.1_0-0-0"], EVENT, SCHEMA) is Deletes.NONE
