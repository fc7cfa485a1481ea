"""A table of version 10 that is read: its native logs lie in slices, and services that do not know them refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import UsageError
from lakeward.protocol.refusals.eligibility import find_all_refusals
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.services.together.explaining.file_explanation import FileExplainer, FileFacts, explain_in_sentences
from lakeward.storage.local import LocalStorage
from lakeward.table.damaged_file import DamageKind
from lakeward.table.data_file_path import find_path
from lakeward.table.file_system_view import sort_files
from lakeward.table.live_logs import live_logs
from lakeward.table.partition import find_partitions
from lakeward.table.snapshot import SnapshotCache, TableSnapshot, take_snapshot
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.version_10 import FILE_ID, set_version, with_native_logs


def scan(base: Path, cache: SnapshotCache | None = None) -> TableSnapshot:
    return take_snapshot(LocalStorage(), str(base), clock=SkippingClock(), cache=cache)


def test_native_logs_are_read_at_version_10_and_reported_before(tmp_path: Path) -> None:
    """Slices, pending plan and sizes have them, and nothing is refused. A table of version 9 with the same files
    is damaged, and no plan of it names such a log. A scan with what an earlier one left sees the version change."""
    base = copy_golden("v9", tmp_path / "table", pending=True)
    names = with_native_logs(base)
    cache = SnapshotCache()
    old = scan(base, cache)
    set_version(base, 10)
    new = scan(base, cache)

    (group,) = new.file_groups
    assert [log.file_name for log in group.slices[1].log_files] == names
    assert (new.frozen, new.unrecognised_files, new.timeline.broken) == ((), (), ())
    (plan,) = new.plans.values()
    assert list(plan.operations[0].log_files) == names
    assert {size for files in new.files for _, size in files.sizes} >= {log.size for log in group.slices[1].log_files}
    assert find_all_refusals(new) == ()

    assert not old.plans and old.unrecognised_files == (f"p/{names[-1]}",)
    refused = {refusal.id for refusal in find_all_refusals(old)}
    assert {"native-log-name", "broken-pending-plan"} <= refused

    set_version(base, 9)
    assert not scan(base, cache).plans, "what was taken apart for version 10 is no plan of version 9"


def test_damage_of_native_logs_is_found(tmp_path: Path) -> None:
    """Gone or of another size than its commit says: the group is frozen, as for an inline log."""
    base = copy_golden("v9", tmp_path / "table")
    names = with_native_logs(base)
    set_version(base, 10)
    log = base / "p" / names[-1]
    content = log.read_bytes()
    for kind in (DamageKind.OTHER_SIZE, DamageKind.MISSING):
        log.write_bytes(content[:-1]) if kind is DamageKind.OTHER_SIZE else log.unlink()
        (frozen,) = scan(base).frozen
        (damaged,) = frozen.damage
        assert (damaged.kind, damaged.path, damaged.is_log) == (kind, f"p/{names[-1]}", True)
    log.write_bytes(content)
    extra = log.with_name(names[-1].replace(".log.", ".deletes."))
    extra.write_bytes(content)
    (frozen,) = scan(base).frozen
    assert [file.kind for file in frozen.damage] == [DamageKind.ORPHAN]


def test_an_output_of_rows_and_one_of_deletes_stand_for_the_same_logs(tmp_path: Path) -> None:
    """A log compaction may write two native files. Both are live at the place of the newest source, rows first; where
    every source is gone, neither is. Keeps 1 and 2 of table/live_logs."""
    base = copy_golden("v9", tmp_path / "table")
    set_version(base, 10)
    (group,) = scan(base).file_groups
    (slice_,) = group.slices
    first, second, third = slice_.log_files
    outputs = [f"{FILE_ID}_0-0-0_20261121043800000_1.{kind}.parquet" for kind in ("deletes", "log")]
    for name in outputs:
        (base / "p" / name).write_bytes(b"x")
    files = LocalStorage().list(str(base / "p"))
    logs = {log.file_name: log for log in sort_files("p", files, native=True).log_files}
    with_outputs = type(slice_)(
        slice_.partition_path,
        slice_.file_id,
        slice_.base_instant,
        slice_.base_file,
        (*slice_.log_files, *(logs[name] for name in reversed(outputs))),
    )
    sources = frozenset({first.file_name, second.file_name})
    found = live_logs(with_outputs, [LogCompaction("20261121043800000", sources)])
    assert [log.file_name for log in found.live] == [*reversed(outputs), third.file_name]
    assert {log.file_name for log in found.superseded} == sources
    retired = live_logs(with_outputs, [LogCompaction("20261121043800000", sources | {"gone"})])
    assert retired.live == found.live
    gone = live_logs(with_outputs, [LogCompaction("20261121043800000", frozenset({"gone"}))])
    assert [log.file_name for log in gone.live] == [log.file_name for log in slice_.log_files]


def test_a_native_log_is_explained_as_a_log(tmp_path: Path) -> None:
    """One that no instant explains, too; and what holds each is reported."""
    base = copy_golden("v9", tmp_path / "table")
    names = with_native_logs(base)
    set_version(base, 10)
    stray = f"{FILE_ID}_9-9-9_20261121999999999_1.cdc.parquet"
    (base / "p" / stray).write_bytes(b"x")
    snapshot = scan(base)
    explainer = FileExplainer(snapshot, plan_clean(snapshot, CleanPolicy(), now=0.0), FileFacts())
    for name, kind in ((names[-1], "a log of file group"), (stray, "a log of changes of file group")):
        path = find_path(name, base_path=str(base), snapshot=snapshot)
        sentences = explain_in_sentences(explainer.explain(path), now=0.0, zone=None)
        assert path == f"p/{name}" and any(kind in sentence for sentence in sentences)
    set_version(base, 9)
    with pytest.raises(UsageError, match="not the name of a data file"):
        find_path(names[-1], base_path=str(base), snapshot=scan(base))


@pytest.mark.parametrize("native", [False, True])
def test_groups_of_partitions_without_a_name_are_frozen(tmp_path: Path, native: bool) -> None:
    """So is one of native logs alone, where the version has them."""
    folder = tmp_path / "p\udcff"
    folder.mkdir()
    (folder / ".hoodie_partition_metadata").touch()
    (folder / "g-0_0-0-0_20261121043800000_1.log.parquet").touch()
    found = find_partitions(LocalStorage(), str(tmp_path), Timeline(()), list_nested=tuple, native=native)
    assert [group.file_id for group in found.nameless] == (["g-0"] if native else [])
