"""What `lakeward read` says of rows on stderr: keys and partitions that are not there, where a window goes on, and
which parts of the table were read.

Touches: nothing.
"""

from __future__ import annotations

from lakeward.base.did_you_mean import nearest
from lakeward.base.quantities import format_count, format_size
from lakeward.scan.commit_window import EARLIEST
from lakeward.scan.partition_values import absent_values
from lakeward.scan.scan_plan import known_schema
from lakeward.scan.table_scan import TableScan

SHOWN_KEYS = 10


def row_notes(scan: TableScan, *, explain: bool) -> list[str]:
    return [
        *_of_partitions(scan),
        *_of_keys(scan),
        *_of_window(scan),
        *(_explained(scan) if explain else ()),
    ]


def _of_partitions(scan: TableScan) -> list[str]:
    """A value of a partition column that no partition has is likely a slip: no row is found."""
    plan, where = scan.plan, scan.query.where
    if where is None or plan.partitions == 0 or plan.partitions_passed < plan.partitions:
        return []
    snapshot = scan.snapshot
    paths = {group.partition_path for group in snapshot.file_groups}
    absent = absent_values(snapshot.config, known_schema(snapshot), where, paths)
    return [
        f"No partition has {name} = {value!r}. {nearest(value, known, what='values')}" for name, value, known in absent
    ]


def _of_window(scan: TableScan) -> list[str]:
    commits = scan.query.commits
    if commits is None:
        return []
    return [f"{format_count(len(commits.requested), 'commit')}; go on with --since {commits.end or EARLIEST}"]


def _of_keys(scan: TableScan) -> list[str]:
    missing = scan.missing_keys
    if scan.query.keys is None or not missing:
        return []
    shown = ", ".join(missing[:SHOWN_KEYS])
    more = f" and {len(missing) - SHOWN_KEYS:,} more" if len(missing) > SHOWN_KEYS else ""
    asked = format_count(len(dict.fromkeys(scan.query.keys)), "key")
    return [f"{len(missing):,} of {asked} {'has' if len(missing) == 1 else 'have'} no row: {shown}{more}"]


def _explained(scan: TableScan) -> list[str]:
    plan, meter = scan.plan, scan.meter
    groups = meter.row_groups + meter.row_groups_skipped
    passed = plan.groups_passed + plan.groups_by_statistics + plan.groups_without_keys
    by_paths = f"of {plan.partitions:,} read; the paths of the others contradict the filter"
    return [
        f"partitions: {plan.partitions - plan.partitions_passed:,} {by_paths}"
        if scan.snapshot.is_whole
        else f"partitions: {plan.partitions:,} listed, the first of the table, which have the rows that are asked for",
        *(f"keys by {note}" for note in plan.key_notes),
        *([f"file groups without the keys: {plan.groups_without_keys:,} passed over"] if plan.key_notes else ()),
        f"file groups: {len(plan.slices):,} of {len(plan.slices) + passed:,} read, "
        f"{sum(bool(each.log_files) for each in plan.slices):,} of them with logs to merge; "
        f"column statistics contradict the filter in {plan.groups_by_statistics:,}",
        f"row groups: {meter.row_groups:,} of {groups:,} read; the statistics of the others contradict the filter",
        f"bytes: {format_size(meter.bytes_read)} of {format_size(meter.bytes_stored)} in the files that were opened",
    ]
