"""When the metadata table is to be compacted, of what, and what prevents it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.format.metadata.partition import FILES
from lakeward.services.metadata.plan.metadata_due import MetadataBacklog, find_backlog, find_obstacles
from lakeward.table.metadata.metadata_table import MetadataTable
from tests.table.metadata.metadata_files import MetadataFiles, files, location, time


@pytest.fixture
def table(tmp_path: Path) -> MetadataFiles:
    return MetadataFiles(tmp_path, files=1, record_index=2)


def load(table: MetadataFiles) -> MetadataTable:
    return table.load(partitions=tuple(table.groups))


def backlog(table: MetadataFiles) -> MetadataBacklog:
    return find_backlog(load(table))


def obstacles(table: MetadataFiles) -> list[str]:
    return [obstacle.id for obstacle in find_obstacles(table.timeline(), load(table))]


def everywhere(table: MetadataFiles, number: str, completed: str | None) -> None:
    """A delta commit with a log in each file group."""
    table.delta(number, completed, files={"p": files(a=1)}, record_index={f"k{n}": location("f") for n in range(20)})


def test_all_groups_with_logs_are_compacted_together(table: MetadataFiles):
    """Since the metadata table was built, where it was never compacted."""
    everywhere(table, "01", "02")
    table.delta("03", "04", files={"p": files(b=2)})

    found = backlog(table)

    assert (found.compacted_at, found.delta_commits, found.log_files) == (None, 2, 4)
    assert [slice_.partition_path for slice_ in found.slices] == ["files", "record_index", "record_index"]
    assert found.input_bytes == sum(slice_.log_bytes for slice_ in found.slices) > 0


def test_delta_commits_are_counted_from_the_last_compaction(table: MetadataFiles):
    """Commits count from when they completed, not when they began; what is pending does not count."""
    everywhere(table, "01", "02")
    table.compaction("05", "06", files={"p": files(a=1)}, record_index={"k": location("f")})
    table.delta("04", "07", files={"p": files(b=1)})
    table.delta("08", "09", files={"p": files(c=1)})
    table.delta("10", None, files={"p": files(d=1)})

    found = backlog(table)

    assert (found.compacted_at, found.delta_commits) == (time("05"), 2)
    assert found.is_due
    assert [log.instant for log in found.slices[0].log_files] == [time("04"), time("08")]


def test_nothing_is_due_where_no_log_came_since(table: MetadataFiles):
    """Keeps 1 of services/metadata/plan/metadata_due: not even where logs are left: of a group that was empty, and so
    got no base file."""
    everywhere(table, "01", "02")
    table.base_file("files", "files-0000-0", "03", {"p": files(a=1)})
    table.commit("03", "commit", "04")
    assert any(slice_.log_files for slice_ in load(table).slices["record_index"])

    found = backlog(table)

    assert (found.is_due, found.slices, found.delta_commits) == (False, (), 0)


def test_a_commit_that_is_undecided_prevents_it(table: MetadataFiles):
    """It is complete in the metadata table and pending on the table; once it is complete there, no more."""
    everywhere(table, "01", "02")
    table.data("01.deltacommit.requested", "01.deltacommit.inflight")
    assert obstacles(table) == ["undecided-commit"]

    table.data("01_03.deltacommit")
    assert obstacles(table) == []


def test_a_commit_that_is_under_way_does_not(table: MetadataFiles):
    """It completes after the compaction's instant, and lies on top."""
    everywhere(table, "01", "02")
    everywhere(table, "03", None)
    table.data("03.deltacommit.requested", "05.compaction.requested")
    assert obstacles(table) == []


@pytest.mark.parametrize("action", ["compaction", "logcompaction"])
def test_a_service_of_the_metadata_table_that_is_pending(table: MetadataFiles, action: str):
    """Keeps 2 of services/metadata/plan/metadata_due: the process that carries it out changes what a slice is."""
    everywhere(table, "01", "02")
    if action == "compaction":
        table.plan("03")
    else:
        table.compact_logs("03", None)
    assert obstacles(table) == [f"pending-metadata-{action}"]


def test_what_is_pending_is_shown_by_its_file(table: MetadataFiles):
    """The name is for an operator who has to find it."""
    everywhere(table, "01", "02")
    table.plan("03")
    (obstacle,) = find_obstacles(table.timeline(), load(table))
    assert obstacle.instant == f".hoodie/metadata: {time('03')}.compaction.requested"
    assert load(table).slices[FILES]
