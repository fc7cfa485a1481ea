"""Rows of a window of commits, in this process."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

import lakeward
from lakeward.api.table import Rows
from lakeward.base.errors import BrokenFile, Refused, UsageError
from lakeward.cli.main import run
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.scan.commit_window import commits_between
from lakeward.table.new_table import COPY_ON_WRITE
from tests.golden_tables import copy_golden
from tests.synthetic_table import completed, minute, snapshot_of
from tests.table.timeline.test_archived import put_file, put_manifest
from tests.write.writing import Row, new_table, write

FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 5, "q", "b")]
SECOND: list[Row] = [("k1", 2, "p", "new"), ("k9", 2, "r", "z")]
LATE: list[Row] = [("k2", 3, "q", "late")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t")
    for rows in (FIRST, SECOND, LATE):
        write(table, rows)
    write(table, [("k9", 4, "r", None)], "delete")
    return table


def ends(base: Path) -> list[str]:
    """When each commit completed."""
    return sorted(file.name.split("_")[1][:17] for file in (base / ".hoodie" / "timeline").glob("*_*.*commit"))


def found(rows: Rows) -> dict[str, str]:
    return {row["id"]: row["v"] for row in rows.to_arrow().to_pylist()}


def test_rows_of_a_window(base: Path) -> None:
    """The beginning is not in the window, the end is; rows that lost against older ones come, deleted ones do not; with
    meta columns. Keeps 1 of scan/commit_window."""
    table = lakeward.Table(str(base))
    first, second, third, fourth = ends(base)
    assert found(table.scan(since=first, until=second)) == {"k1": "new", "k9": "z"}
    assert found(table.scan(since=first)) == {"k1": "new", "k2": "late"}
    assert found(table.scan(since="earliest", until=third)) == {"k1": "new", "k2": "b", "k9": "z"}
    assert found(table.scan(since=second, until=third)) == {"k2": "late"}
    assert found(table.scan(since=first, where="v = 'late'", columns=["id", "v"])) == {"k2": "late"}
    assert table.scan(since=first).count() == 2
    assert "_hoodie_commit_time" in table.scan(since=first).schema.names
    assert "_hoodie_commit_time" not in table.scan(since=first, columns=["id", "v"]).schema.names
    assert table.scan(since=third, until=fourth).count() == 0


def test_windows_go_on_at_the_end(base: Path) -> None:
    """Keeps 3 of scan/commit_window: one that has no commit ends where it began."""
    table = lakeward.Table(str(base))
    first, _, third, fourth = ends(base)
    assert table.scan(since=first, until=third).end == third
    assert table.scan(since="earliest").end == fourth
    rest = table.scan(since=fourth)
    assert (rest.count(), rest.end) == (0, fourth)
    write(base, [("k5", 9, "p", "e")])
    assert found(table.refresh().scan(since=rest.end)) == {"k5": "e"}


def test_a_commit_counts_when_it_completed() -> None:
    """One that was requested before the window and completed in it is in it, once. Keeps 3 of scan/commit_window."""
    instants = [*completed(minute(1), "deltacommit", minute(9)), *completed(minute(2), "deltacommit", minute(3))]
    timeline = snapshot_of([], instants).timeline
    assert [each.time for each in commits_between(timeline, minute(0), minute(3))] == [minute(2)]
    assert [each.time for each in commits_between(timeline, minute(3), minute(9))] == [minute(1)]


def test_rows_of_replaced_files_in_a_copy_on_write_table(tmp_path: Path) -> None:
    """Rows that were only carried over to a new file are not of the window."""
    base = new_table(tmp_path / "t", table_type=COPY_ON_WRITE)
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "p", "b")])
    write(base, [("k1", 2, "p", "new")])
    table = lakeward.Table(str(base))
    first, second = ends(base)
    assert found(table.scan(since=first, until=second)) == {"k1": "new"}
    assert found(table.scan(since="earliest", until=first)) == {"k1": "a", "k2": "b"}


def test_a_window_whose_files_are_gone_is_refused(tmp_path: Path) -> None:
    """Keeps 2 of scan/commit_window: but one with a newer file of the group is read."""
    base = new_table(tmp_path / "t", table_type=COPY_ON_WRITE)
    for number in (1, 2, 3):
        write(base, [(f"k{number}", 1, "p", "a")])
    first, second, third = ends(base)
    instant = sorted(file.name[:17] for file in (base / ".hoodie" / "timeline").glob("*_*.*commit"))[1]
    file = next((base / "p").glob(f"*{instant}.parquet"))
    file.unlink()
    table = lakeward.Table(str(base))
    assert found(table.scan(since=first, until=third)) == {"k2": "a", "k3": "a"}
    with pytest.raises(Refused) as caught:
        table.scan(since=first, until=second)
    assert str(caught.value).startswith(f"The commits since {first} cannot be read: p/{file.name} is gone.")


def test_what_was_archived_is_refused(base: Path) -> None:
    """Keeps 2 of scan/commit_window."""
    (base / ".hoodie" / "timeline" / "history" / "manifest_1").write_bytes(b"no manifest")
    with pytest.raises(BrokenFile, match="The history of the table cannot be read"):
        lakeward.Table(str(base)).scan(since="earliest")


def test_windows_that_make_no_sense(base: Path) -> None:
    table = lakeward.Table(str(base))
    first, second, *_ = ends(base)
    with pytest.raises(UsageError, match=f"The window ends before it begins: {first} is before {second}"):
        table.scan(since=second, until=first)
    with pytest.raises(UsageError, match="2999-01-01 is yet to come"):
        table.scan(since="2999-01-01")
    with pytest.raises(UsageError, match="A window has no beginning"):
        table.scan(until=first)
    with pytest.raises(UsageError, match="takes base files and logs"):
        table.scan(since=first, read_optimized=True)
    with pytest.raises(UsageError, match="not read as of a moment"):
        table.scan(since=first, as_of=second)


def test_a_commit_that_took_long_is_not_lost_behind_younger_ones_in_the_history(base: Path) -> None:
    """It was requested first, so it is in an older file of the history, and completed last. Keeps 2 of
    scan/commit_window."""
    first, *_ = ends(base)
    history = base / ".hoodie" / "timeline" / "history"
    long, short = (format_instant_time(parse_instant_time(first, UTC) - ms, UTC) for ms in (9000, 8000))
    took = format_instant_time(parse_instant_time(first, UTC) - 10, UTC)
    soon = format_instant_time(parse_instant_time(first, UTC) - 7000, UTC)
    put_manifest(
        history,
        1,
        put_file(history, f"{long}_{long}_0.parquet", [(long, took, "deltacommit")]),
        put_file(history, f"{short}_{short}_0.parquet", [(short, soon, "deltacommit")]),
        version=1,
    )
    table = lakeward.Table(str(base))
    with pytest.raises(Refused, match=f"the earliest beginning is {took}"):
        table.scan(since=soon)
    assert table.scan(since=took).count() == 2


def test_a_window_of_version_6_behind_a_pending_write_is_refused(tmp_path: Path) -> None:
    """Its rows would come before what was read, and who goes on from the end would never see them. Keeps 2 of
    scan/commit_window."""
    table = copy_golden("v6", tmp_path / "t")
    (table / ".hoodie" / "20261121043714000.deltacommit.requested").touch()
    (table / ".hoodie" / "20261121043714000.deltacommit.inflight").touch()
    opened = lakeward.Table(str(table), timezone="UTC")
    with pytest.raises(Refused, match="Commits after 20261121043714000 cannot be read incrementally yet") as caught:
        opened.scan(since="earliest")
    assert caught.value.remedy == "Read until 20261121043713105, or wait."
    assert opened.scan(since="earliest", until="20261121043713105").end == "20261121043713105"


def test_a_window_before_a_downgrade_is_refused(tmp_path: Path) -> None:
    """The logs of version 10, which the downgrade took, hold the rows of its commits: they were missing in silence,
    since their names are no logs of version 9."""
    base = new_table(tmp_path / "t", version=10)
    write(base, FIRST)
    write(base, SECOND)
    first, second = ends(base)
    assert run(["table", "downgrade", str(base), "--to", "9", "--writers", "stopped"]) == 0
    table = lakeward.Table(str(base))
    with pytest.raises(Refused, match=r"The commits since \d+ cannot be read: p/.* is gone"):
        table.scan(since=first, until=second)
    with pytest.raises(Refused, match="cannot be read as of"):
        table.scan(as_of=second)
    assert found(table.scan()) == {"k1": "new", "k2": "b", "k9": "z"}
