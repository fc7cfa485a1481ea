"""What `lakeward inspect` reports: a table's snapshot and the refusals against it, as plain JSON-able data.

The shape is part of the command line's contract: `docs/formats/inspect.schema.json` describes it and a test holds
both together. Lists are complete; it is the view on the terminal that shortens them.

Touches: storage, reading only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from lakeward.base.clock import Clock
from lakeward.format.file_name import parse_any_log
from lakeward.format.timeline.instant import comparable_time, format_instant_time
from lakeward.protocol.refusals.eligibility import Refusal, TableService, find_all_refusals
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS, CleanPolicy
from lakeward.services.clean.plan.storage_states import storage_states
from lakeward.storage.storage import Storage
from lakeward.table.backlog import backlog_of
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.file_group import FileGroup, FrozenGroup
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.timeline.new_time import MAX_WAIT_SECONDS
from lakeward.table.timeline.timezone import EASTERNMOST

REPORT_VERSION = 1
"""Rises when a reader of the old shape would misread the new one; new keys alone do not raise it."""


def inspect_table(storage: Storage, base_path: str, *, timezone: str | None, clock: Clock) -> dict[str, Any]:
    snapshot = take_snapshot(storage, base_path, timezone=timezone, clock=clock)
    return report(snapshot, load_quarantine(storage, base_path), now=clock.now())


def report(snapshot: TableSnapshot, quarantine: Quarantine, *, now: float) -> dict[str, Any]:
    refusals = find_all_refusals(snapshot)
    return {
        "report_version": REPORT_VERSION,
        "table": _table(snapshot),
        "timezone": {
            "setting": snapshot.config.timezone,
            "source": snapshot.zone.source.value,
            "zone": snapshot.zone.name,
            "why": snapshot.zone.why,
            "evidence": [
                {"kind": each.kind.value, "offset": each.offset, "says": each.says} for each in snapshot.zone.evidence
            ],
        },
        "totals": _totals(snapshot),
        "backlog": _backlog(snapshot),
        "storage": _storage(snapshot, quarantine, now),
        "timeline": _timeline(snapshot, now),
        "pending": _pending(snapshot),
        "partitions": list(snapshot.partitions),
        "file_groups": [_group(group, snapshot) for group in snapshot.file_groups],
        "frozen_groups": [_frozen(group) for group in snapshot.frozen],
        "replaced_groups": [
            {"partition_path": partition_path, "file_id": file_id, "instant": instant}
            for (partition_path, file_id), instant in sorted(snapshot.replaced.items())
        ],
        "uncommitted_files": list(snapshot.uncommitted_files),
        "unrecognised_files": list(snapshot.unrecognised_files),
        "links": [asdict(link) for link in snapshot.links],
        "unlisted_folders": [asdict(folder) for folder in snapshot.unlisted],
        "archive_problems": list(snapshot.archive_problems),
        "services": {
            service.value: {"refused_by": list(dict.fromkeys(each.id for each in refusals if service in each.services))}
            for service in TableService
        },
        "refusals": [_refusal(refusal) for refusal in refusals],
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "id": refusal.id,
        "subject": refusal.subject,
        "why": refusal.why,
        "remedy": refusal.remedy,
        "services": [service.value for service in TableService if service in refusal.services],
    }


def _frozen(group: FrozenGroup) -> dict[str, Any]:
    return {
        "partition_path": group.partition_path,
        "file_id": group.file_id,
        "instant": group.instant,
        "why": group.why,
        "damage": [damaged_as_json(file) for file in group.damage],
    }


def damaged_as_json(file: DamagedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "instant": file.instant,
        "kind": file.kind.value,
        "expected_size": file.expected_size,
        "size": file.size,
        "remedy": file.remedy,
    }


def _table(snapshot: TableSnapshot) -> dict[str, Any]:
    config = snapshot.config
    return {
        "base_path": snapshot.base_path,
        "name": config.name,
        "type": config.table_type,
        "version": config.version.number,
        "timeline_layout": config.layout,
        "merge_mode": config.merge_mode,
        "ordering_fields": list(config.ordering_fields),
        "record_key_fields": list(config.record_key_fields),
        "partition_fields": list(config.partition_fields),
        "base_file_format": config.base_file_format,
        "index_type": config.index_type,
        "buckets": config.buckets,
        "metadata_partitions": list(config.metadata_partitions),
        "properties_source": snapshot.loaded_config.source,
    }


def _totals(snapshot: TableSnapshot) -> dict[str, int]:
    slices = [slice_ for group in snapshot.file_groups for slice_ in group.slices]
    change_logs = [log.size for slice_ in slices for log in slice_.log_files if log.name.is_cdc]
    return {
        "partitions": len(snapshot.partitions),
        "file_groups": len(snapshot.file_groups),
        "file_slices": len(slices),
        "base_files": sum(slice_.base_file is not None for slice_ in slices),
        "base_bytes": sum(slice_.base_bytes for slice_ in slices),
        "log_files": sum(len(slice_.log_files) for slice_ in slices),
        "log_bytes": sum(slice_.log_bytes for slice_ in slices),
        "change_logs": len(change_logs),
        "change_log_bytes": sum(change_logs),
    }


def _storage(snapshot: TableSnapshot, quarantine: Quarantine, now: float) -> dict[str, Any]:
    """All data files by what holds them, under the policy by which a clean goes where nothing else is said."""
    outcome = plan_clean(snapshot, CleanPolicy(), now=now, reader_window=READER_WINDOW_SECONDS)
    states = storage_states(snapshot, outcome, quarantine)
    return {state.value: {"files": total.files, "bytes": total.bytes} for state, total in states.items()}


def _backlog(snapshot: TableSnapshot) -> dict[str, Any]:
    """What readers of the newest slices merge, and what is superseded; `totals` counts all files of all slices."""
    backlog = backlog_of(snapshot)
    return {
        "base_bytes": backlog.base_bytes,
        "log_files": backlog.log_files,
        "log_bytes": backlog.log_bytes,
        "superseded_log_files": backlog.superseded_log_files,
        "superseded_log_bytes": backlog.superseded_log_bytes,
        "most_log_files": backlog.most_log_files,
        "most_opened_log_files": backlog.most_opened_log_files,
        "opened_log_files": backlog.opened_log_files,
        "anchors": backlog.anchors,
        "retirable_log_bytes": backlog.retirable_log_bytes,
        "read_amplification": round(backlog.read_amplification, 4),
    }


def _timeline(snapshot: TableSnapshot, now: float) -> dict[str, Any]:
    timeline = snapshot.timeline
    furthest = sorted((*timeline.completed, *timeline.pending), key=lambda i: (i.time, i.comparable_action))
    return {
        "latest_time": timeline.latest_time,
        "instants": [
            {"time": i.time, "action": i.action, "state": i.state.value, "completion_time": i.completion_time}
            for i in furthest
        ],
        "in_future": instants_in_future(snapshot, now),
        "broken": [{"file": b.file, "state": b.instant.state.value, "why": b.why} for b in timeline.broken],
        "unknown": list(timeline.unknown),
    }


def instants_in_future(snapshot: TableSnapshot, now: float) -> list[str]:
    """Timeline files with a time that no clock of the writers can have shown yet; until it has passed nothing can be
    published."""
    zone = snapshot.zone.zone or EASTERNMOST
    limit = format_instant_time(int((now + MAX_WAIT_SECONDS) * 1000), zone)
    timed = ((max(comparable_time(i.time), i.completion_time or ""), i.file_name) for i in snapshot.timeline.instants)
    return [file_name for time, file_name in sorted(timed) if time > limit]


def _pending(snapshot: TableSnapshot) -> list[dict[str, Any]]:
    """Pending instants with the number of file groups that their plans hold; None where no plan says."""
    planned = Counter(snapshot.pending_compactions.values())
    planned.update(snapshot.pending_log_compactions.values())
    planned.update(snapshot.pending_clusterings.values())
    return [
        {"time": i.time, "action": i.action, "state": i.state.value, "file_groups": planned.get(i.time)}
        for i in snapshot.timeline.pending
    ]


def _group(group: FileGroup, snapshot: TableSnapshot) -> dict[str, Any]:
    group_id = (group.partition_path, group.file_id)
    pending = {
        "compaction": snapshot.pending_compactions.get(group_id),
        "log_compaction": snapshot.pending_log_compactions.get(group_id),
        "clustering": snapshot.pending_clusterings.get(group_id),
    }
    return {
        "partition_path": group.partition_path,
        "file_id": group.file_id,
        "pending": {action: instant for action, instant in pending.items() if instant is not None},
        "slices": [
            {
                "base_instant": slice_.base_instant,
                "base_file": slice_.base_file and {"name": slice_.base_file.name, "size": slice_.base_file.size},
                "log_files": [{"name": log.name.text, "size": log.size} for log in slice_.log_files],
            }
            for slice_ in group.slices
        ],
    }


def is_change_log(name: str) -> bool:
    parsed = parse_any_log(name, native=True)
    return parsed is not None and parsed.is_cdc
