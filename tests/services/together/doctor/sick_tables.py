"""A table for each pattern of `lakeward doctor`: golden tables with one thing changed, as the issue describes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakeward.format.timeline.clean_plan import CleanPlan, clean_plan_root, write_clean_plan
from lakeward.format.timeline.history import HistoryFile, HistoryRow, dump_manifest
from lakeward.format.timeline.history_file import encode_rows
from lakeward.format.timeline.rollback_plan import RollbackPlan, encode_rollback_plan
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.log_compacting import log_compact
from tests.metadata_golden import DATA_TIMELINE
from tests.our_reader import scan
from tests.services.bench import PENDING
from tests.services.clean.run.test_orphans import add_stray
from tests.services.clustering.run.test_clusterer import made
from tests.services.compaction.run.test_targets import replace_group
from tests.services.rollback.run.failed_tables import fail_last_write
from tests.services.rollback.run.test_releasing import dead_compaction
from tests.services.together.test_clustering_execution import request
from tests.write.writing import new_table, write

LATER = "20261121235959000"
FUTURE = "20991121043709156"
LEFT_MANIFEST = "manifest_114.a5e022a6-e5c9-4450-b9e5-9296262329b5"


@dataclass(frozen=True)
class SickTable:
    make: Callable[[Path], Path]
    subject: str
    """A part of the subject that is found."""
    evidence: str
    """A part of its evidence."""


def golden(path: Path) -> Path:
    return copy_golden("v9", path, pending=True)


def _planned_log_gone(path: Path) -> Path:
    base = golden(path)
    min((base / "p").glob(".*.log.*")).unlink()
    return base


def _clean_of_planned_log(path: Path) -> Path:
    base = golden(path)
    log = min((base / "p").glob(".*.log.*")).name
    plan = CleanPlan(None, PENDING, {"p": (log,)}, policy="KEEP_LATEST_COMMITS")
    data = write_clean_plan(plan, root=clean_plan_root(str(base)))
    (base / DATA_TIMELINE / f"{LATER}.clean.requested").write_bytes(data)
    return base


def _clustering_overwritten(path: Path) -> Path:
    base = made(path)
    write(base, [("p01", 5, "p", "new")], "insert_overwrite")
    groups = [group_id[1] for group_id in scan(base).replaced if group_id[0] == "p"]
    request(base, [groups])
    return base


def replaced_group_back(path: Path) -> Path:
    """An archiver took the insert_overwrite away, and no clean the files that it replaced."""
    base = new_table(path)
    write(base, [("k1", 1, "p", "old"), ("k2", 1, "p", "old")], "insert")
    write(base, [("k1", 2, "p", "new")], "insert_overwrite")
    write(base, [("k9", 3, "q", "x")], "insert")
    rows = []
    for file in sorted((base / DATA_TIMELINE).glob("*_*.*commit"))[:2]:
        time, _, rest = file.name.partition("_")
        completed, _, action = rest.partition(".")
        rows.append(HistoryRow(time, completed, action, file.read_bytes(), None))
        for each in (base / DATA_TIMELINE).glob(f"{time}*"):
            each.unlink()
    file_name = HistoryFile(rows[0].time, rows[-1].time, 0)
    content = encode_rows(rows)
    put_into_archive(base, file_name.name, content)
    put_into_archive(base, "manifest_1", dump_manifest({file_name: len(content)}))
    put_into_archive(base, "_version_", b"1")
    return base


def _log_cut(path: Path) -> Path:
    base = copy_golden("v9", path)
    log = max((base / "p").glob(".*.log.*"))
    log.write_bytes(log.read_bytes()[:-7])
    return base


def _anchor_gone(path: Path) -> Path:
    """A clean that retires merged logs has left one of them, and that is gone."""
    base = copy_golden("v9", path)
    for file in (base / DATA_TIMELINE).glob("*logcompaction*"):
        file.unlink()  # what released Hudi left pending
    log_compact(base)
    (group,) = scan(base).file_groups
    *sources, _ = group.slices[0].log_files
    for source in sources:
        (base / source.path).unlink()
    return base


def _partition_gone(path: Path) -> Path:
    base = copy_golden("v9", path)
    (base / "p" / ".hoodie_partition_metadata").unlink()
    return base


def _two_base_files(path: Path) -> Path:
    """A task was tried again, and what its first try wrote has stayed."""
    base = new_table(path, has_metadata_table=False)
    other = new_table(path.with_name(f"{path.name}-other"), has_metadata_table=False)
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "p", "a")], "bulk_insert")
    write(other, [("k1", 1, "p", "a"), ("k3", 1, "p", "a")], "bulk_insert")
    (kept,), (tried_first,) = (list((table / "p").glob("*.parquet")) for table in (base, other))
    file_id, _, instant = kept.name.split("_")
    (base / "p" / f"{file_id}_9-9-9_{instant}").write_bytes(tried_first.read_bytes())
    return base


def _unexplained_log(path: Path) -> Path:
    base = copy_golden("v9", path)
    (base / "p" / ".old-0_20250101000000000.log.1_0-0-0").write_bytes(b"x")
    return base


def _pending_restore(path: Path) -> Path:
    base = copy_golden("v9", path)
    data = (GOLDEN / "timeline" / "20261122212602913.restore.requested").read_bytes()
    (base / DATA_TIMELINE / "20261122212602913.restore.requested").write_bytes(data)
    return base


def _commit_half_rolled_back(path: Path) -> Path:
    base = copy_golden("v9", path)
    last = max((base / DATA_TIMELINE).glob("*_*.deltacommit")).name.partition("_")[0]
    _begin_rollback(base, last)
    return base


def _begin_rollback(base: Path, target: str) -> None:
    names = tuple(sorted(file.name for file in (base / "p").glob(f"*{target}*")))
    plan = encode_rollback_plan(RollbackPlan(target, "deltacommit", {"p": names}), base_path=str(base))
    (base / DATA_TIMELINE / f"{LATER}.rollback.requested").write_bytes(plan)


def _metadata_out_of_step(path: Path) -> Path:
    base = made(path)
    min((base / "p").glob("*.parquet")).unlink()
    return base


def _future(path: Path) -> Path:
    base = copy_golden("v9", path)
    (base / DATA_TIMELINE / f"{FUTURE}.deltacommit.requested").touch()
    return base


def _two_zones(path: Path) -> Path:
    """The newest commit is of a writer two hours to the east, by the time of its file."""
    base = copy_golden("v9", path)
    newest = max((base / DATA_TIMELINE).glob("*_*.deltacommit"), key=lambda file: file.name.partition("_")[2])
    at = newest.stat().st_mtime - 2 * 3600
    os.utime(newest, (at, at))
    return base


def _empty_commit(path: Path) -> Path:
    base = copy_golden("v9", path)
    max((base / DATA_TIMELINE).glob("*_*.deltacommit")).write_bytes(b"")
    return base


def _interrupted_properties(path: Path) -> Path:
    base = copy_golden("v9", path)
    (base / ".hoodie" / "hoodie.properties.backup").touch()
    return base


def _compaction_overwritten(path: Path) -> Path:
    base = golden(path)
    replace_group(base)
    return base


def _failed_write(path: Path) -> Path:
    base = copy_golden("v9", path)
    fail_last_write(base)
    return base


def _rollback_not_ended(path: Path) -> Path:
    base = copy_golden("v9", path)
    _begin_rollback(base, fail_last_write(base))
    return base


def _doubled_key(path: Path) -> Path:
    base = new_table(path)
    for value in ("a", "b"):
        write(
            base, [("k1", 1, "p", value), (f"only{value}", 1, "p", value), ("k1", 1, f"q{value}", value)], "bulk_insert"
        )
    return base


def _orphan(path: Path) -> Path:
    base = copy_golden("v9", path)
    add_stray(base)
    return base


def _index_of_no_column(path: Path) -> Path:
    base = copy_golden("v9_metadata", path)
    file = base / ".hoodie" / ".index_defs" / "index.json"
    definitions = json.loads(file.read_bytes())
    definitions["indexDefinitions"]["column_stats"]["sourceFields"].append("dropped")
    file.write_text(json.dumps(definitions))
    return base


def _archive_broken(path: Path) -> Path:
    base = _unexplained_log(path)
    put_into_archive(base, "manifest_1", b"torn")
    put_into_archive(base, "_version_", b"1")
    return base


def _manifest_left(path: Path) -> Path:
    base = copy_golden("v9", path)
    put_into_archive(base, LEFT_MANIFEST, b"")
    return base


def put_into_archive(base: Path, name: str, data: bytes) -> None:
    folder = base / DATA_TIMELINE / "history"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)


def without_pending_write(base: Path) -> None:
    """What holds the archiver of `archiving-held` has gone."""
    folder = base / DATA_TIMELINE
    completed = {file.name.partition("_")[0] for file in folder.glob("*_*.deltacommit")}
    for file in folder.glob("*.deltacommit.*"):
        if file.name.partition(".")[0] not in completed:
            file.unlink()


def _archiving_held(path: Path) -> Path:
    """Forty commits more, and a write before them that never ended."""
    base = made(path)
    folder = base / DATA_TIMELINE
    first, *_, last = sorted(folder.glob("*_*.deltacommit"))
    time = last.name.partition("_")[0]
    for number in range(1, 40):
        later = str(int(time) + number)
        (folder / f"{later}_{later}.deltacommit").write_bytes(last.read_bytes())
        for state in ("requested", "inflight"):
            (folder / f"{later}.deltacommit.{state}").touch()
    oldest = first.name.partition("_")[0]
    for state in ("requested", "inflight"):
        (folder / f"{int(oldest) + 1}.deltacommit.{state}").touch()
    return base


def _dead_markers(path: Path) -> Path:
    base = copy_golden("v9", path)
    marker = base / ".hoodie" / ".temp" / "20200101000000000" / "p" / "x.parquet.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    return base


def _small_files(path: Path) -> Path:
    base = new_table(path)
    for number in range(6):
        write(base, [(f"k{number}", 1, "p", "a")], "bulk_insert")
    return base


SICK: Mapping[str, SickTable] = {
    "plan-over-gone-files": SickTable(_planned_log_gone, f"compaction {PENDING}", "which is not there"),
    "clean-of-planned-files": SickTable(_clean_of_planned_log, f"clean {LATER}", f"compaction {PENDING} is to read"),
    "clustering-overwritten": SickTable(_clustering_overwritten, "clustering ", "has replaced"),
    "replaced-group-back": SickTable(replaced_group_back, "replacecommit ", "whose files readers read again"),
    "damaged-files": SickTable(_log_cut, ".log.", "bytes long and not"),
    "anchor-gone": SickTable(_anchor_gone, ".log.", "put its rows into another log"),
    "partition-gone": SickTable(_partition_gone, "partition 'p'", "completed commits name"),
    "unexplained-file-group": SickTable(_two_base_files, "file group ", "base files"),
    "restore-interrupted": SickTable(_pending_restore, "restore 20261122212602913", "no heartbeat beats"),
    "commit-half-rolled-back": SickTable(_commit_half_rolled_back, f"rollback {LATER}", "no heartbeat beats"),
    "metadata-out-of-step": SickTable(_metadata_out_of_step, "partition files", "it is not there: readers fail on it"),
    "doubled-keys": SickTable(_doubled_key, "record keys", "1 key with several rows, in 6 rows"),
    "orphan-files": SickTable(_orphan, "files of instant", "neither timeline has its instant"),
    "wrong-index-definitions": SickTable(_index_of_no_column, "index column_stats", "it is of column dropped"),
    "instant-in-future": SickTable(_future, "in the future", f"{FUTURE}.deltacommit.requested"),
    "mixed-zones": SickTable(_two_zones, "timezone", "in two time zones"),
    "timeline-broken": SickTable(_empty_commit, ".deltacommit", "The file is empty."),
    "archive-broken": SickTable(_archive_broken, "archived timeline", "manifest_1"),
    "version-change-interrupted": SickTable(_interrupted_properties, "hoodie.properties.backup", "interrupted"),
    "compaction-overwritten": SickTable(_compaction_overwritten, f"compaction {PENDING}", "has replaced"),
    "failed-write-left": SickTable(_failed_write, "deltacommit ", "no writer is at work"),
    "rollback-not-ended": SickTable(_rollback_not_ended, f"rollback {LATER}", "it rolls back "),
    "service-stuck": SickTable(dead_compaction, f"compaction {PENDING}", "it left 1 data file"),
    "archive-manifest-left": SickTable(_manifest_left, "manifest_114.a5e0", "behind the number there is more"),
    "archiving-held": SickTable(_archiving_held, "active timeline", "completed commits, where 30 are the limit"),
    "dead-markers": SickTable(_dead_markers, "20200101000000000", "has files or folders: 1"),
    "small-files": SickTable(_small_files, "partition 'p'", "6 file groups"),
}
"""Tables by the code of the pattern that each has."""
