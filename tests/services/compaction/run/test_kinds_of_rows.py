"""Compactions of tables that Hudi wrote with rows of other kinds: without keys, in part, with their kind of change.

tests/golden/README.md says what is in them; tests/interop/test_kinds_of_rows.py, test_partial_blocks.py and
test_operation_column.py ask Hudi about more of the kind, and what it makes of our files.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.timeline.commit_metadata import read_commit_metadata, write_commit_metadata
from lakeward.protocol.transition import ServiceAction
from lakeward.read.heeded_operations import heeds_operations
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.compaction.plan.planner import Planner
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import FULL, LOG
from tests.golden_tables import GOLDEN, copy_golden
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.services.bench import Bench

MARKED, UNMARKED, MARKED_AGAIN = "marked", "unmarked", "marked again"


def operations(target: Path, until: str) -> Path:
    """The table of changes as it was after this write: the later ones are taken out."""
    base = copy_golden("operations", target)
    timeline = base / ".hoodie" / "timeline"
    writes = sorted({file.name.partition("_")[0] for file in timeline.glob("*_*")})[-3:]
    for instant in writes[[MARKED, UNMARKED, MARKED_AGAIN].index(until) + 1 :]:
        for file in (*timeline.glob(f"{instant}*"), *base.glob(f"*/.*_{instant}.log.*")):
            file.unlink()
    return base


def expected(name: str) -> Any:
    return json.loads((GOLDEN / name / "expected.json").read_text())


def rows(base: Path) -> list[dict[str, Any]]:
    return comparable(read_rows(base))


def comparable(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the kind of change where it is null: file groups without the column do not have it at all."""
    kept = [{k: v for k, v in row.items() if k != "_hoodie_operation" or v is not None} for row in found]
    return sorted(kept, key=lambda row: row["id"])


@pytest.mark.parametrize("name", ["keyless", "in_part", "operations"])
def test_full_keeps_the_rows_of_hudis_query(name: str, tmp_path: Path):
    """Hudi's snapshot query, our reader before FULL and after it."""
    partitions = ["p", "q"] if name == "operations" else [""]
    if name == "operations":
        base, found = operations(tmp_path / "table", MARKED), comparable(expected(name)[MARKED])
    else:
        base, found = copy_golden(name, tmp_path / "table"), expected(name)

    def shown() -> list[dict[str, Any]]:
        return [{k: row[k] for k in row if name != "keyless" or not k.startswith("_hoodie")} for row in rows(base)]

    assert shown() == found
    (plan,) = Bench(base).compactor(FULL).compact().plans
    assert len(plan.operations) == len(partitions)
    assert shown() == found


def test_log_of_rows_without_keys(tmp_path: Path):
    """LOG takes them, and the rows are those of Hudi's query."""
    base = copy_golden("keyless", tmp_path / "table")

    (plan,) = Bench(base).compactor(LOG).compact().plans

    assert plan.action is ServiceAction.LOG_COMPACTION
    assert [{k: row[k] for k in ("id", "ts", "v")} for row in rows(base)] == expected("keyless")


REFUSED: dict[str, tuple[str, str, Planner, dict[str, str]]] = {
    # golden table, until which write, what is asked for; why, by the partition of the file group
    "LOG of rows in part": ("in_part", "", LOG, {"": "holds partial updates"}),
    "LOG of marked rows": ("operations", MARKED_AGAIN, LOG, {"p": "Compact the file group with --type full"}),
    "marks that queries do not heed": (
        "operations",
        UNMARKED,
        FULL,
        dict.fromkeys("pq", "the newest file of the table has not"),
    ),
    "rows without marks where queries heed them": (
        "operations",
        MARKED_AGAIN,
        FULL,
        {"r": "has not the column _hoodie_operation, and the newest file of the table has"},
    ),
}


@pytest.mark.parametrize(("name", "until", "planner", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path: Path, name: str, until: str, planner: Planner, why: dict[str, str]):
    """Keeps 1, 2 of read/heeded_operations: no plan names such a file group, the others are compacted."""
    base = operations(tmp_path / "table", until) if until else copy_golden(name, tmp_path / "table")
    bench = Bench(base)

    preview = bench.compactor(planner).preview()

    assert {partition for partition, _ in preview.checked.excluded} == set(why)
    assert set(preview.checked.excluded.values()) == {Reason.UNSUPPORTED_LOGS}
    for partition, words in why.items():
        assert any(words in step and (f"{partition}/." in step or not partition) for step in bench.watcher.steps), (
            bench.watcher.steps
        )


def test_what_readers_heed(tmp_path: Path):
    """Keeps 1 of read/heeded_operations: what Hudi's queries did after each write and after FULL of
    Lakeward's what they did before it."""
    for until, answer in expected("operations").items():
        heeds = answer is None or "_hoodie_operation" in answer[0]
        assert heeds is (until != UNMARKED)
        base = operations(tmp_path / until, until)
        assert heeds_operations(LocalStorage(), scan(base)) is heeds
        Bench(base).compactor(FULL).compact()
        assert heeds_operations(LocalStorage(), scan(base)) is heeds
    for file in (tmp_path / MARKED_AGAIN).glob("p/*.parquet"):
        file.unlink()
    assert not heeds_operations(LocalStorage(), scan(tmp_path / MARKED_AGAIN)), "the newest file is gone"


def test_floats_in_avro_logs_of_version_8(tmp_path: Path):
    """Releases that read the version make different doubles of them, so no plan names the file group."""
    base = copy_golden("evolved", tmp_path / "table")
    assert not Bench(base).compactor(FULL).preview().checked.excluded
    set_property(base, "hoodie.table.version", "8")
    bench = Bench(base)

    excluded = bench.compactor(FULL).preview().checked.excluded

    assert {(partition, reason) for (partition, _), reason in excluded.items()} == {("p0", Reason.UNSUPPORTED_LOGS)}
    assert any("which are doubles now" in step for step in bench.watcher.steps), bench.watcher.steps


def test_a_write_without_rows_is_not_asked(tmp_path: Path):
    """Keeps 1 of read/heeded_operations: after a write that only deleted, the one that began before it says it."""
    base = operations(tmp_path / "table", MARKED_AGAIN)
    last = max((base / ".hoodie" / "timeline").glob("*_*"))
    commit = read_commit_metadata(last.read_bytes(), file=last.name, layout=2)
    stats = {
        partition: tuple(replace(stat, num_inserts=0, num_update_writes=0, num_deletes=1) for stat in of_partition)
        for partition, of_partition in commit.partition_to_write_stats.items()
    }
    last.write_bytes(write_commit_metadata(replace(commit, partition_to_write_stats=stats)))

    assert not heeds_operations(LocalStorage(), scan(base))


def test_what_older_releases_read_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Outputs of log compaction that overtook a write, and deletes ordered by text, leave file groups of version 8 out
    of a plan."""
    base = copy_golden("v8", tmp_path / "table")
    set_property(base, "hoodie.table.precombine.field", "v")

    def excluded() -> set[Reason]:
        return set(Bench(base).compactor(FULL).preview().checked.excluded.values())

    def refuse(*_: object, **__: object) -> None:
        raise Unsupported("", why="", remedy="")

    assert excluded() == set()
    with monkeypatch.context() as patch:
        patch.setattr("lakeward.read.logs.log_scan.find_overtaken", lambda *_: "1")
        assert excluded() == {Reason.UNSUPPORTED_LOGS}
    monkeypatch.setattr("lakeward.services.compaction.run.log_checks.check_deletes_by_text", refuse)
    assert excluded() == {Reason.UNSUPPORTED_LOGS}
