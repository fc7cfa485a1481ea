"""Completion times out of the layout-2 history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import (
    ArchivedPlan,
    ArchivedTimes,
    ArchivedWrites,
    load_archived_times,
    load_newest_writes,
)

A, B, C, D, E = (f"2026010100000{n}000" for n in range(5))
CONFIG = TableConfig({"hoodie.table.version": "9"})


@pytest.fixture
def history(tmp_path: Path) -> Path:
    folder = tmp_path / ".hoodie" / "timeline" / "history"
    folder.mkdir(parents=True)
    return folder


def put_file(folder: Path, name: str, rows: Sequence[tuple[str, str, str]]) -> str:
    columns = list(zip(*rows, strict=True))
    names = ["instantTime", "completionTime", "action"]
    texts = [pa.array(column, pa.string()) for column in columns]
    pq.write_table(pa.table([*texts, pa.nulls(len(rows), pa.binary())], names=[*names, "plan"]), folder / name)
    return name


def put_manifest(folder: Path, number: int, *files: str, version: int | None = None) -> None:
    content = {"files": [{"fileName": name, "fileLen": 1} for name in files]}
    (folder / f"manifest_{number}").write_text(json.dumps(content))
    if version is not None:
        (folder / "_version_").write_text(str(version))


def load(folder: Path, *instants: str) -> ArchivedTimes:
    return load_archived_times(LocalStorage(), str(folder.parents[2]), CONFIG, instants)


def test_completion_times_of_writes_are_found(history: Path) -> None:
    """Only what was asked for and completed as a write is answered: a clean of that time is no write."""
    rows = [(A, B, "deltacommit"), (B, C, "commit"), (C, D, "clean"), (D, E, "replacecommit")]
    put_manifest(history, 1, put_file(history, f"{A}_{D}_0.parquet", rows), version=1)

    assert load(history, A, C, D, E) == ArchivedTimes({A: B, D: E})


def test_plans_of_log_compactions_are_found(history: Path) -> None:
    """A row of a compaction has what it planned, and one of a clean is not asked for."""
    rows = [(A, B, "deltacommit"), (B, C, "commit"), (C, D, "clean"), (D, E, "deltacommit")]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    plans = pa.array([b"log", b"full", b"clean", None], pa.binary())
    names = ["instantTime", "completionTime", "action", "plan"]
    pq.write_table(pa.table([*columns, plans], names=names), history / f"{A}_{D}_0.parquet")
    put_manifest(history, 1, f"{A}_{D}_0.parquet", version=1)

    found = load(history, A, B, C, D)
    assert found.completion_times == {A: B, B: C, D: E}
    assert found.plans == {A: ArchivedPlan(True, b"log"), B: ArchivedPlan(False, b"full")}
    assert load(history, D).plans == {}


def test_the_manifest_says_which_files_live(history: Path) -> None:
    """A file outside the newest manifest is garbage of an interrupted merge."""
    live = put_file(history, f"{A}_{A}_0.parquet", [(A, B, "commit")])
    put_file(history, f"{A}_{B}_1.parquet", [(A, E, "commit"), (B, C, "commit")])
    put_manifest(history, 1, live, version=1)

    assert load(history, A, B).completion_times == {A: B}


def test_without_a_version_the_highest_manifest_counts(history: Path) -> None:
    """An update deletes the version file before it writes the new one."""
    put_manifest(history, 9)
    put_manifest(history, 10, put_file(history, f"{A}_{A}_0.parquet", [(A, B, "commit")]))

    assert load(history, A).completion_times == {A: B}


def test_a_manifest_newer_than_the_version_does_not_count_yet(history: Path) -> None:
    """An update writes the manifest first; until the version names it, the one before is the truth."""
    put_manifest(history, 1, put_file(history, f"{A}_{A}_0.parquet", [(A, B, "commit")]), version=1)
    put_manifest(history, 2, put_file(history, f"{B}_{B}_0.parquet", [(B, C, "commit")]))

    assert load(history, A, B).completion_times == {A: B}


def test_only_files_whose_range_covers_an_instant_are_opened(history: Path) -> None:
    """A file of other times costs nothing; here it is not even Parquet."""
    (history / f"{A}_{B}_0.parquet").write_text("no parquet")
    put_manifest(
        history, 1, f"{A}_{B}_0.parquet", put_file(history, f"{C}_{D}_0.parquet", [(C, D, "commit")]), version=1
    )

    assert load(history, C) == ArchivedTimes({C: D})


@pytest.mark.parametrize("problem", ["no parquet", "missing", "bad manifest", "bad name"])
def test_what_cannot_be_read_is_reported(history: Path, problem: str) -> None:
    """A broken history answers nothing and says which file it is; it never answers wrong."""
    name = f"{A}_{B}_0.parquet" if problem != "bad name" else f"../{A}_{B}_0.parquet"
    put_manifest(history, 1, name, version=1)
    if problem == "no parquet":
        (history / name).write_text("no parquet")
    if problem == "bad manifest":
        (history / "manifest_1").write_text("{")

    found = load(history, A)

    assert not found.completion_times
    assert len(found.problems) == 1
    assert ("manifest" if problem.startswith("bad") else name) in found.problems[0]


def newest(folder: Path, number: int) -> ArchivedWrites:
    return load_newest_writes(LocalStorage(), str(folder.parents[2]), CONFIG, number)


def test_the_newest_writes_are_those_of_the_newest_files(history: Path) -> None:
    """Older files are not opened once there are enough; a clean is no write; what is in two files counts once."""
    old = put_file(history, f"{A}_{A}_0.parquet", [(A, B, "deltacommit")])
    first = put_file(history, f"{B}_{C}_1.parquet", [(B, C, "commit"), (C, D, "deltacommit")])
    second = put_file(history, f"{C}_{D}_0.parquet", [(C, D, "deltacommit"), (D, E, "clean")])
    put_manifest(history, 1, old, first, second, version=1)

    def found(number: int) -> list[tuple[str, str]]:
        return [(each.time, each.action) for each in newest(history, number).writes]

    assert found(1) == [(C, "deltacommit")]
    assert found(2) == [(B, "commit"), (C, "deltacommit")]
    assert found(9) == [(A, "deltacommit"), (B, "commit"), (C, "deltacommit")]
    (history / old).write_text("no parquet")
    assert len(found(2)) == 2
    broken = newest(history, 3)
    assert (broken.writes, old in broken.problem) == ((), True)


def test_no_history_is_no_problem(history: Path) -> None:
    """A young table has archived nothing."""
    assert load(history, A) == ArchivedTimes({})
    assert newest(history, 3) == ArchivedWrites()
