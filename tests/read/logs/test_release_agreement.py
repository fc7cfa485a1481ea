"""Logs of version 6 that Hudi 0.15 and 1.x merge to different rows, by blocks made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.log.delete_block import encode_deletes
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.ordering_type import is_ordered_by_text
from lakeward.read.logs.committed_writes import CommittedWrites
from lakeward.read.logs.log_scan import NEWEST, scan_slice_heads
from lakeward.read.logs.release_agreement import check_agreement, check_deletes_by_text
from lakeward.storage.local import LocalStorage
from tests.faults import FaultyStorage
from tests.read.log_files import TABLE_SCHEMA, data_block, delete_block, row
from tests.read.log_files import block as log_block

LOG = ".f_100.log.1_0-0-0"
LATEST = MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",))
EVENT = replace(LATEST, mode=MergeMode.EVENT_TIME_ORDERING)

STORIES: dict[str, tuple[list[tuple[str, Any]], bool, bool]] = {
    # writes in one log, whether the releases agree: by the latest, by event time
    "newer rows": ([("1", 5), ("2", 6)], True, True),
    "equal rows": ([("1", 5), ("2", 5)], True, True),
    "a late row": ([("1", 6), ("2", 5)], False, True),
    "a late row, and a newer one": ([("1", 6), ("2", 5), ("3", 7)], True, True),
    "a late row of a write that did not complete": ([("1", 6), ("dead", 5)], True, True),
    "a delete without a value": ([("1", 6), ("2", "delete")], True, True),
    "a late row behind such a delete": ([("1", 6), ("2", "delete"), ("3", 5)], True, True),
    "a late delete": ([("1", 6), ("2", ("delete", 5))], False, False),
    "a newer delete": ([("1", 6), ("2", ("delete", 7))], True, False),
    "a late delete behind a newer one, and a row between": (
        [("1", ("delete", 9)), ("2", 6), ("3", ("delete", 5))],
        False,
        False,
    ),
    "deletes one after the other": ([("1", ("delete", 5)), ("2", 6), ("3", ("delete", 7))], True, False),
}


def block(instant: str, what: Any) -> bytes:
    if isinstance(what, int):
        return data_block(instant, [row("k", what, "", instant=instant)])
    return delete_block(instant, [("k", None if what == "delete" else what[1])])


@pytest.mark.parametrize(("writes", "by_latest", "by_event_time"), STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("rules", [LATEST, EVENT, replace(LATEST, ordering_fields=())], ids=["latest", "event", "none"])
def test_where_releases_agree(
    tmp_path: Path, writes: list[tuple[str, Any]], by_latest: bool, by_event_time: bool, rules: MergeRules
) -> None:
    """Keeps of read/logs/release_agreement: what passes gives the same record of each key by either rule. Each log
    is read once for both, and deletes again where several blocks have them."""
    (tmp_path / LOG).write_bytes(b"".join(block(instant, what) for instant, what in writes))
    committed = CommittedWrites(frozenset({"1", "2", "3"}), frozenset(), "1")
    scan = scan_slice_heads(LocalStorage(), str(tmp_path), [LOG], instant=NEWEST, committed=committed)
    storage = FaultyStorage()

    def check() -> None:
        schema = table_schema(json.dumps(TABLE_SCHEMA))
        check_agreement(storage, str(tmp_path), [LOG], scan, rules=rules, schema=schema)

    if not rules.ordering_fields or (by_latest if rules is LATEST else by_event_time):
        check()
    else:
        with pytest.raises(Unsupported, match=r"ordering values|came later|deleted twice"):
            check()
    if rules is LATEST:
        deletes = sum(not isinstance(what, int) for _, what in writes)
        assert len(storage.calls) == 1 + (deletes if deletes > 1 else 0)


@pytest.mark.parametrize("value", [None, "5"])
def test_deletes_ordered_by_text(tmp_path: Path, value: str | None) -> None:
    """Hudi 1.0 compares no texts of deletes, so on version 8 none may have one."""
    (content,) = encode_deletes(pa.array(["k"]), pa.array([value], pa.string()), partition_path="", bytes_max=1_000)
    headers = {HeaderKey.INSTANT_TIME: "2"}
    (tmp_path / LOG).write_bytes(block("1", 6) + log_block(BlockType.DELETE, headers, content))
    storage, rules = LocalStorage(), replace(EVENT, ordering_fields=("v",))
    scan = scan_slice_heads(storage, str(tmp_path), [LOG], instant=NEWEST)
    schema = table_schema(json.dumps(TABLE_SCHEMA))
    assert is_ordered_by_text(rules, schema) and not is_ordered_by_text(EVENT, schema)
    if value is None:
        check_deletes_by_text(storage, str(tmp_path), scan, rules=rules, schema=schema)
    else:
        with pytest.raises(Unsupported, match="texts as ordering values"):
            check_deletes_by_text(storage, str(tmp_path), scan, rules=rules, schema=schema)
