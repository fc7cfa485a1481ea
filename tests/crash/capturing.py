"""One compaction of the golden table that captures changes, and what must be true of its logs of changes."""

from __future__ import annotations

from pathlib import Path

from lakeward.format.file_name import is_change_log, parse_any_data_file
from lakeward.format.log.change_log import read_changes
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import State, instant_file_name
from lakeward.table.listing_source import ListingSource
from tests import native_log_judge as judge
from tests.crash.compacting import everything, is_leftover
from tests.crash.metadata_compacting import check_readable, snapshot_of
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA, METADATA_TIMELINE, set_property, timeline
from tests.version_10 import set_version

PARTITION = "p"


def capture_changes(base: Path) -> None:
    set_property(base, "hoodie.table.cdc.enabled", "true")


def copy_capturing(target: Path, *, native: bool = False) -> Path:
    """A copy of the golden table with a metadata table, whose next compaction captures changes.

    Args:
        native: it is of version 10, and its logs of changes are native.
    """
    base = copy_golden(GOLDEN, target)
    capture_changes(base)
    if native:
        set_version(base, 10)
        set_version(base / METADATA, 10)
    return base


def check_capturing(base: Path) -> None:
    """True at every moment: the rows are there; a log of changes is in a slice, and in the metadata table, where a
    completed commit names it, and no other is."""
    check_readable(base)
    check_listed(base)


def check_listed(base: Path) -> None:
    """The metadata table lists the logs of changes that completed commits name."""
    seen = {
        log.path
        for group in snapshot_of(base, ListingSource.METADATA).file_groups
        for slice_ in group.slices
        for log in slice_.log_files
        if log.name.is_cdc
    }
    assert seen == named_change_logs(base).keys()


def check_captured(base: Path) -> None:
    """True in the end: one compaction, whose commit names one base file and one log of changes, which stand alone."""
    check_capturing(base)
    ((path, size),) = named_change_logs(base).items()
    (instant,) = {i.time for i in timeline(base, DATA_TIMELINE) if i.action == "compaction"}
    assert [i.time for i in timeline(base, METADATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED]
    outputs = {name for name in data_files(base) if f"_{instant}" in name}
    assert path.rpartition("/")[2] in outputs and len(outputs) == 2, outputs
    if path.endswith(".cdc.parquet"):
        changes = judge.rows((base / path).read_bytes())
    else:
        with open(base / path, "rb") as file:
            changes = [row for batch in read_changes(file, size, name=path) for row in batch.to_pylist()]
    assert [(row["op"], row["ts_ms"]) for row in changes] == [(op, instant) for op in "uudd"]
    assert [left for left in everything(base) if is_leftover(left)] == []


def named_change_logs(base: Path) -> dict[str, int]:
    """Sizes of those that completed commits name, by path."""
    named: dict[str, int] = {}
    for instant in timeline(base, DATA_TIMELINE):
        if instant.state is not State.COMPLETED or instant.action != "commit":
            continue
        name = instant_file_name(instant.time, instant.action, instant.state, 2, instant.completion_time)
        commit = read_commit_metadata((base / DATA_TIMELINE / name).read_bytes(), file=name, layout=2)
        for stats in commit.partition_to_write_stats.values():
            for stat in stats:
                named |= stat.cdc_stats or {}
    return named


def change_logs(base: Path) -> list[str]:
    """All that stand in the partition, by name."""
    return [name for name in data_files(base) if is_change_log(name)]


def data_files(base: Path) -> list[str]:
    names = sorted(path.name for path in (base / PARTITION).iterdir())
    return [name for name in names if parse_any_data_file(name, native=True) is not None]
