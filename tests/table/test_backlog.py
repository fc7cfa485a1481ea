"""The numbers of a backlog, of tables small enough to count by hand."""

from __future__ import annotations

from datetime import UTC, datetime

from lakeward.format.timeline.instant import parse_instant
from lakeward.table.backlog import PendingPlan, backlog_of, backlog_of_group
from lakeward.table.file_group import FileGroup, FileSlice
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timeline_reader import LogCompaction
from lakeward.table.timeline.timezone import TimelineZone, ZoneSource
from tests.synthetic_table import completed, file_group, minute, pending, snapshot_of


def test_sums_of_what_readers_read() -> None:
    """Latest slices count; bytes of older ones only take space."""
    old = file_group("p", "a-0", base=(minute(1), 50), logs=[]).slices
    new = file_group("p", "a-0", base=(minute(5), 100), logs=[(minute(6), 10), (minute(7), 20)]).slices
    snapshot = snapshot_of(
        [FileGroup("p", "a-0", new + old), file_group("p", "b-0", base=(minute(1), 100), logs=[])],
        [
            *completed(minute(1), "commit"),
            *completed(minute(5), "commit"),
            *completed(minute(6), "deltacommit", minute(8)),
            *completed(minute(7), "deltacommit"),
        ],
    )

    backlog = backlog_of(snapshot)

    assert (backlog.file_groups, backlog.slices) == (2, 3)
    assert (backlog.log_files, backlog.log_bytes, backlog.base_bytes) == (2, 30, 200)
    assert backlog.read_amplification == 230 / 200
    assert backlog.space_amplification == 280 / 230
    assert backlog.oldest_unmerged_at == datetime(2026, 1, 1, 0, 7, tzinfo=UTC).timestamp()
    assert backlog.timeline_length == 4


def test_under_a_pending_compaction_the_slice_below_counts_too() -> None:
    """Readers read both, and its logs are not merged before it completes."""
    below = file_group("p", "a-0", base=(minute(1), 100), logs=[(minute(2), 10)]).slices
    opened = FileSlice(
        "p", "a-0", minute(3), None, file_group("p", "a-0", base=None, logs=[(minute(4), 5)]).slices[0].log_files
    )
    instants = [
        *completed(minute(1), "commit"),
        *completed(minute(2), "deltacommit"),
        *pending(minute(3), "compaction"),
        *completed(minute(4), "deltacommit"),
    ]
    snapshot = snapshot_of([FileGroup("p", "a-0", (opened, *below))], instants)
    modified = {f"{minute(3)}.compaction.requested": 17.0}
    snapshot = snapshot_of(snapshot.file_groups, [], timeline=Timeline(snapshot.timeline.instants, modified=modified))

    backlog = backlog_of(snapshot)

    assert (backlog.log_files, backlog.log_bytes, backlog.base_bytes) == (2, 15, 100)
    assert backlog.oldest_unmerged_at == datetime(2026, 1, 1, 0, 2, tzinfo=UTC).timestamp()
    assert backlog.pending_plans == (PendingPlan(minute(3), "compaction", 17.0),)


def test_what_a_log_compaction_superseded_is_a_figure_of_its_own() -> None:
    """Readers merge the output. Keeps 1 of table/backlog: a table's figures are the sums of its groups'. The oldest
    unmerged record is still the one in the superseded log: no base file has taken it in."""
    logs = [(minute(time), size) for time, size in ((2, 10), (3, 20), (4, 5), (5, 28))]
    merged = file_group("p", "a-0", base=(minute(1), 100), logs=logs)
    sources = frozenset(log.name.text for log in merged.slices[0].log_files[:2])
    written = [instant for time in (2, 3, 4, 5) for instant in completed(minute(time), "deltacommit")]
    groups = [merged, file_group("p", "b-0", base=(minute(1), 50), logs=[(minute(2), 7)])]
    compactions = {("p", "a-0"): (LogCompaction(minute(5), sources),)}
    snapshot = snapshot_of(groups, [*completed(minute(1), "commit"), *written], log_compactions=compactions)

    backlog = backlog_of(snapshot)

    assert (backlog.log_files, backlog.log_bytes) == (3, 5 + 28 + 7)
    assert (backlog.superseded_log_files, backlog.superseded_log_bytes) == (2, 30)
    assert (backlog.most_log_files, backlog.most_opened_log_files) == (2, 4), "of the group with most"
    assert (backlog.opened_log_files, backlog.anchors, backlog.retirable_log_bytes) == (5, 1, 10)
    each = [backlog_of_group(group, compactions.get((group.partition_path, group.file_id), ())) for group in groups]
    for name in each[0].numbers:
        assert getattr(backlog, name) == sum(getattr(group, name) for group in each)
    assert backlog.read_amplification == (150 + 40) / 150
    assert backlog.space_amplification == (150 + 70) / (150 + 40)
    assert backlog.oldest_unmerged_at == datetime(2026, 1, 1, 0, 2, tzinfo=UTC).timestamp()


def test_a_log_of_changes_waits_for_nothing() -> None:
    """No reader merges it, and no record in it is unmerged; it takes space."""
    group = file_group("p", "a-0", base=(minute(5), 100), logs=[(minute(7), 20)], changes=[(minute(5), 30)])
    instants = [*completed(minute(5), "commit"), *completed(minute(7), "deltacommit")]

    backlog = backlog_of(snapshot_of([group], instants))

    assert (backlog.log_files, backlog.log_bytes, backlog.superseded_log_files) == (1, 20, 0)
    assert backlog.oldest_unmerged_at == datetime(2026, 1, 1, 0, 7, tzinfo=UTC).timestamp()
    assert backlog.space_amplification == 150 / 120


def test_groups_of_logs_only_and_empty_tables() -> None:
    """Without a base file the logs are what a reader must read at least; nothing divides by zero."""
    only_logs = backlog_of(snapshot_of([file_group("p", "a-0", base=None, logs=[(minute(1), 10)])], []))
    assert (only_logs.read_amplification, only_logs.space_amplification) == (1.0, 1.0)
    empty = backlog_of(snapshot_of([], []))
    assert (empty.read_amplification, empty.space_amplification, empty.oldest_unmerged_at) == (1.0, 1.0, None)


def test_an_unknown_zone_and_reserved_instants_report_no_age() -> None:
    """What is no moment, or in an unknown zone, is not guessed."""
    group = file_group("p", "a-0", base=None, logs=[("00000000000001", 10)])
    assert backlog_of(snapshot_of([group], [])).oldest_unmerged_at is None
    zone = TimelineZone(ZoneSource.UNKNOWN, None, "no evidence")
    group = file_group("p", "a-0", base=None, logs=[(minute(1), 10)])
    assert backlog_of(snapshot_of([group], [], zone=zone)).oldest_unmerged_at is None


def test_what_savepoints_keep() -> None:
    """Older and replaced slices of which one names a file count, whole and once; what readers read would be there."""
    old = file_group("p", "a-0", base=(minute(1), 50), logs=[(minute(2), 7)]).slices
    new = file_group("p", "a-0", base=(minute(5), 100), logs=[]).slices
    gone = file_group("p", "b-0", base=(minute(1), 1000), logs=[(minute(2), 1)])
    names = {"old": old[0].base_file, "new": new[0].base_file, "gone": gone.slices[0].base_file}
    paths = {each: file.path for each, file in names.items() if file is not None}
    log = old[0].log_files[0].path
    made = {f"{minute(2)}_{minute(9)}.savepoint": 900.0, f"{minute(4)}_{minute(8)}.savepoint": 800.0}
    saved = [instant for name in made if (instant := parse_instant(name, 2)) is not None]
    snapshot = snapshot_of(
        [FileGroup("p", "a-0", new + old)],
        [],
        timeline=Timeline((*completed(minute(1), "commit"), *saved), modified=made),
        replaced_groups=(gone,),
        savepointed={
            minute(2): frozenset({paths["old"], paths["new"], log}),
            minute(4): frozenset({paths["old"], paths["gone"]}),
        },
    )

    backlog = backlog_of(snapshot)

    assert backlog.pinned_bytes == 50 + 7 + 1000 + 1
    assert backlog.oldest_savepoint_at == 800.0
