"""Dead slices of the metadata table: no reader that began within the last commits reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.timeline.instant import Instant, State, parse_instant
from lakeward.services.metadata.plan.dead_slices import (
    DeadSlices,
    archived_wanted,
    file_names,
    find_dead_slices,
    find_pending_clean,
    still_dead,
)
from tests.table.metadata.metadata_files import MetadataFiles, files, location, time
from tests.table.timeline.test_archived import put_file, put_manifest

OLD = "00"
"""Second of the compaction that everything else lies after."""


@pytest.fixture
def table(tmp_path: Path) -> MetadataFiles:
    """Three slices of `files` at 00, 03 and 06, the last two with a log; one slice of the record index; six commits."""
    made = MetadataFiles(tmp_path, files=1, record_index=1)
    made.compaction(OLD, "01", files={"p": files(a=1)}, record_index={"k": location("f")})
    made.delta("02", "02", files={"p": files(b=1)})
    made.base_file("files", "files-0000-0", "03", {"p": files(a=1, b=1)})
    made.commit("03", "commit", "03")
    made.delta("04", "04", files={"p": files(c=1)})
    made.delta("05", "05", record_index={"l": location("f")})
    made.base_file("files", "files-0000-0", "06", {"p": files(a=1, b=1, c=1)})
    made.commit("06", "commit", "06")
    return made


def delta_commits(table: MetadataFiles, first: int, count: int) -> None:
    for number in range(first, first + count):
        table.delta(f"{number:02}", f"{number:02}", files={"p": files(d=number)})


def find(table: MetadataFiles, archived: Sequence[Instant] = ()) -> DeadSlices:
    return find_dead_slices(table.timeline(), table.load(partitions=tuple(table.groups)), archived)


def archive(table: MetadataFiles, until: int) -> list[Instant]:
    """Commits before second `until` leave the timeline of the metadata table for its archive."""
    timeline, gone = table.metadata / ".hoodie" / "timeline", []
    for path in sorted(timeline.iterdir()):
        if (instant := parse_instant(path.name, 2)) is not None and instant.time < time(f"{until:02}"):
            path.unlink()
            gone.append(instant)
    completed = [each for each in gone if each.state is State.COMPLETED]
    (timeline / "history").mkdir()
    rows = [(each.time, str(each.completion_time), each.action) for each in completed]
    name = put_file(timeline / "history", f"{completed[0].time}_{completed[-1].time}_0.parquet", rows)
    put_manifest(timeline / "history", 1, name, version=1)
    return [replace(each, file_name="") for each in completed]


def dead(table: MetadataFiles) -> list[tuple[str, str]]:
    return [(slice_.partition_path, slice_.base_instant) for slice_ in find(table).slices]


def test_nothing_is_dead_while_commits_are_few(table: MetadataFiles):
    """Twenty are kept, and there are twenty."""
    delta_commits(table, 10, 14)
    assert find(table) == DeadSlices(None, time("23"))


def test_the_newest_slice_before_the_earliest_commit_stays(table: MetadataFiles):
    """With 21 commits the second is the earliest that stays readable: as of it readers need the slice at 00."""
    delta_commits(table, 10, 15)
    found = find(table)
    assert found.earliest_retained is not None
    assert (found.earliest_retained.time, found.slices) == (time("02"), ())


def test_slices_die_one_by_one(table: MetadataFiles):
    """Each goes with its logs. The only slice of a file group never does, however old."""
    delta_commits(table, 10, 17)  # the earliest is the one at 04: the slice at 03 is what was read as of it
    assert dead(table) == [("files", time("00"))]

    delta_commits(table, 27, 3)  # the earliest is the one at 10
    assert dead(table) == [("files", time("03")), ("files", time("00"))]
    found = find(table)
    assert found.files == 4
    assert found.bytes == sum(
        (table.metadata / "files" / name).stat().st_size for slice_ in found.slices for name in file_names(slice_)
    )
    plan = found.plan({"by": "us"})
    assert plan.earliest_retained is not None
    assert (plan.earliest_retained.time, plan.earliest_retained.action) == (time("10"), "deltacommit")
    assert (plan.last_completed, plan.extra_metadata) == (time("29"), {"by": "us"})
    assert sorted(plan.files["files"]) == sorted(name for slice_ in found.slices for name in file_names(slice_))


def test_archived_commits_count(table: MetadataFiles):
    """Writers that keep four commits leave the same slices dead as those that keep all. One that is in the archive and
    on the timeline, too, is one."""
    delta_commits(table, 10, 20)
    whole = find(table)
    archived = archive(table, 26)
    assert len(table.load().timeline.completed_writes) == 4
    assert (find(table).earliest_retained, archived_wanted(table.load())) == (None, 17)

    found = find(table, archived)
    assert found.slices == whole.slices and len(found.slices) == 2
    assert found.earliest_retained is not None and whole.earliest_retained is not None
    assert (found.earliest_retained.time, found.last_completed) == (whole.earliest_retained.time, whole.last_completed)

    twice = [*archived, *table.load().timeline.completed_writes]
    assert find(table, twice).earliest_retained == found.earliest_retained
    assert find(table, archived[-16:]).earliest_retained is None


def test_what_may_still_be_rolled_back_keeps_its_slices(table: MetadataFiles):
    """This is a commit pending in the metadata table, one pending on the table, or a savepoint of the table."""
    delta_commits(table, 10, 20)
    assert len(dead(table)) == 2

    pending = table.base / ".hoodie" / "timeline" / f"{time('05')}.commit.requested"
    pending.write_bytes(b"")
    assert dead(table) == [("files", time("00"))]
    pending.unlink()

    pending = table.metadata / ".hoodie" / "timeline" / f"{time('05')[:-3]}001.deltacommit.requested"
    pending.write_bytes(b"")
    assert dead(table) == [("files", time("00"))]
    pending.unlink()

    savepoint = table.base / ".hoodie" / "timeline" / f"{time('02')}_{time('40')}.savepoint"
    savepoint.write_bytes(b"x")
    assert dead(table) == []
    savepoint.unlink()
    assert len(dead(table)) == 2


def test_what_no_commit_explains_is_never_named(table: MetadataFiles):
    """Keeps of services/metadata/plan/dead_slices: a base file of an attempt that died, whatever it would make older by
    standing there."""
    delta_commits(table, 10, 20)
    before = find(table)
    table.base_file("record_index", "record-index-0000-0", "08", {"k": location("f")})
    table.base_file("files", "files-0000-0", "40", {"p": files(z=1)})
    assert find(table) == before


def test_a_plan_is_still_right_unless_readers_read_its_files(table: MetadataFiles):
    """A restore, for one, makes an older slice the newest again."""
    delta_commits(table, 10, 20)
    names = [name for slice_ in find(table).slices for name in file_names(slice_)]
    loaded = table.load(partitions=tuple(table.groups))
    assert still_dead(names, loaded)
    assert not still_dead([*names, *file_names(loaded.slices["record_index"][0])], loaded)


def test_the_oldest_clean_that_was_begun(table: MetadataFiles):
    """A completed one is none."""
    assert find_pending_clean(table.load()) is None
    timeline = table.metadata / ".hoodie" / "timeline"
    for number, names in (("40", ("clean.requested", "clean.inflight")), ("41", ("clean.requested",))):
        for name in names:
            (timeline / f"{time(number)}.{name}").write_bytes(b"x")
    assert find_pending_clean(table.load()) == time("40")
    (timeline / f"{time('40')}_{time('42')}.clean").write_bytes(b"x")
    assert find_pending_clean(table.load()) == time("41")
