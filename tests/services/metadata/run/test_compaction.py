"""The metadata table is compacted into what its readers merged before, and nothing half-done is ever seen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Conflict, LockHeld, Refused, TryLater, VerificationFailed
from lakeward.format.file_name import HFILE, parse_base_file
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.metadata.record import MetadataRecord
from lakeward.format.timeline.compaction_plan import CompactionPlan, read_compaction_plan, write_compaction_plan
from lakeward.format.timeline.instant import State, format_instant_time
from lakeward.protocol.attempts.heartbeat import EXPIRY_SECONDS
from lakeward.services.metadata.run.metadata_commit import changed_operation, metadata_compaction_plan
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import MetadataTable, load_metadata_table
from lakeward.table.snapshot import take_snapshot
from tests.clocks import SkippingClock
from tests.crash.compacting import everything, is_leftover
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.metadata_golden import (
    DATA_TIMELINE,
    METADATA,
    METADATA_TIMELINE,
    PARTITION_PROPERTY,
    set_property,
    timeline,
    write_rollback_plan,
)
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import (
    compact_metadata,
    metadata_compactor,
    preview_compaction,
)

GOLDEN = ("v9_metadata", "v8_metadata")


@pytest.fixture(scope="module", params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_golden(request.param, tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return copy_of(golden, tmp_path / "table")


def copy_of(golden: Path, base: Path) -> Path:
    return Path(shutil.copytree(golden, base))


def scan_metadata(base: Path) -> MetadataTable:
    storage, clock = LocalStorage(), SkippingClock()
    snapshot = take_snapshot(storage, str(base), timezone="UTC", clock=clock)
    return load_metadata_table(storage, str(base), snapshot.config, snapshot.timeline, clock=clock)


def records(base: Path) -> dict[str, list[tuple[str, MetadataRecord]]]:
    """What a reader finds in each partition."""
    table = scan_metadata(base)
    reader = MetadataReader(LocalStorage(), table)
    return {partition: list(reader.scan(partition)) for partition in table.slices}


def slices_of(base: Path) -> dict[GroupId, FileSlice]:
    """The newest one of each file group."""
    return {slice_.group_id: slice_ for slices in scan_metadata(base).slices.values() for slice_ in slices}


def compactions(base: Path, state: State = State.COMPLETED) -> list[str]:
    action = "commit" if state is State.COMPLETED else "compaction"
    return [i.time for i in timeline(base, METADATA_TIMELINE) if i.action == action and i.state is state]


def metadata_leftovers(base: Path) -> list[str]:
    return [path for path in everything(base) if is_leftover(path.removeprefix(f"{METADATA}/")) or is_leftover(path)]


def test_what_stands_afterwards_is_what_stood_before(base: Path):
    """They are equal record by record: of what had logs in base files of one instant, with what readers expect there; a
    group that never held a record stays as it was, and so does one without logs. Keeps 1 of
    services/metadata/run/compaction."""
    before, slices = records(base), slices_of(base)
    done = compact_metadata(base, LocalStorage())

    assert done is not None
    assert records(base) == before
    entries = 0
    for group_id, slice_ in slices_of(base).items():
        if not slices[group_id].log_files or slice_.base_file is None:
            assert slice_ == slices[group_id]
            continue
        assert (slice_.base_file.instant, slice_.log_files) == (done.instant, ())
        with (base / METADATA / slice_.base_file.path).open("rb") as file:
            reader = HFileReader(file, length=slice_.base_file.size, name=slice_.base_file.name)
            keys = [key for key, _ in reader.entries()]
            assert (keys[0], keys[-1]) == (reader.info["minRecordKey"], reader.info["maxRecordKey"])
            assert reader.info["bloomFilterTypeCode"] == b"DYNAMIC_V0"
            assert reader.meta_block("bloomFilter")
            assert json.loads(reader.info["schema"])["name"] == "HoodieMetadataRecord"
        entries += len(keys)
    assert entries == done.entries > 5
    assert compactions(base)[-1] == done.instant
    assert metadata_leftovers(base) == []


def test_compacting_again_does_nothing(base: Path):
    """No log came since; and what is due only after more delta commits waits for them."""
    assert metadata_compactor(base, LocalStorage(), ScriptedProcesses()).compact(delta_commits_min=100) is None
    assert compact_metadata(base, LocalStorage()) is not None
    before = everything(base)
    assert compact_metadata(base, LocalStorage()) is None
    assert everything(base) == before


def test_a_preview_writes_nothing(base: Path):
    """It says what is compacted then."""
    before = everything(base)
    backlog = preview_compaction(base, LocalStorage(), ScriptedProcesses())
    assert everything(base) == before
    done = compact_metadata(base, LocalStorage())
    assert done is not None
    assert (backlog.log_files, backlog.delta_commits) == (done.log_files, done.delta_commits)
    assert backlog.input_bytes == done.input_bytes


def base_files(base: Path) -> set[tuple[str, str]]:
    """File id and instant of each; one for each of both."""
    names = [parse_base_file(path.name, extension=HFILE) for path in (base / METADATA).rglob(f"*.{HFILE}")]
    found = [(name.file_id, name.instant) for name in names if name is not None]
    assert len(found) == len(set(found)), "two base files of one slice"
    return set(found)


class Meanwhile(LocalStorage):
    """Another process acts while we merge: between our two snapshots under the lock."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act: Callable[[], None] | None = act

    def create(self, path: str, data: bytes) -> None:
        if path.endswith("/commit") and (act := self._act) is not None:
            self._act = None
            act()
        super().create(path, data)


def a_delta_commit(base: Path, *, seconds: float) -> str:
    """A writer's delta commit, complete on both timelines so many seconds from now: the golden one's newest, with
    another instant. Returns the path of its log of `files`."""
    millis = int((SkippingClock().now() + seconds) * 1000)
    time, done = (format_instant_time(millis + more, UTC) for more in (0, 5))
    newest = [i for i in timeline(base, METADATA_TIMELINE) if i.action == "deltacommit" and i.completion_time][-1]
    for folder in (METADATA_TIMELINE, DATA_TIMELINE):
        for path in list((base / folder).glob(f"{newest.time}*")):
            name = path.name.replace(f"{newest.time}_{path.name.partition('_')[2].partition('.')[0]}", f"{time}_{done}")
            shutil.copy2(path, base / folder / name.replace(newest.time, time))
    (log,) = (base / METADATA / "files").glob(f".files-0000-0_{newest.time}.log.*")
    content = log.read_bytes().replace(newest.time.encode(), time.encode())
    copied = log.with_name(log.name.replace(newest.time, time))
    copied.write_bytes(content)
    return str(copied)


def test_a_commit_beside_us_lies_on_top(base: Path):
    """It completes after our instant, and before we publish: its log stays a log, on our base file."""
    compactor = metadata_compactor(
        base, Meanwhile(lambda: a_delta_commit(base, seconds=1.0)), ScriptedProcesses(), writers_stopped=False
    )
    done = compactor.compact()

    assert done is not None
    (slice_,) = scan_metadata(base).slices["files"]
    assert slice_.base_file is not None and slice_.base_file.instant == done.instant
    assert len(slice_.log_files) == 1


def begin_write(base: Path) -> str:
    """A write of Hudi's that is at work on the table, with a heartbeat that it started just now; its instant."""
    instant = format_instant_time(int((SkippingClock().now() + 2.0) * 1000), UTC)
    for state in ("requested", "inflight"):
        (base / DATA_TIMELINE / f"{instant}.deltacommit.{state}").touch()
    heartbeats = base / ".hoodie" / ".heartbeat"
    heartbeats.mkdir(exist_ok=True)
    (heartbeats / instant).touch()
    return instant


def test_a_write_that_would_miss_a_commit_holds_it_back(base: Path):
    """Its timeline may be older than our instant, and its listing younger: then the commit that completed in between is
    in no slice that it reads. Nothing is published, and nothing of Lakeward stays. Keeps 2 of
    services/metadata/run/compaction."""
    began: list[str] = []

    def commit_and_begin() -> None:
        a_delta_commit(base, seconds=1.0)
        began.append(begin_write(base))

    compactor = metadata_compactor(base, Meanwhile(commit_and_begin), ScriptedProcesses(), writers_stopped=False)
    with pytest.raises(TryLater, match="held back by write"):
        compactor.compact()
    assert compactions(base, State.REQUESTED) == compactions(base)
    assert metadata_leftovers(base) == [f".hoodie/.heartbeat/{began[0]}"]


def test_a_write_beside_us_that_misses_nothing_holds_nothing_back(base: Path):
    """No commit completed after our instant: the slice before it is as good."""
    compactor = metadata_compactor(
        base, Meanwhile(lambda: begin_write(base)), ScriptedProcesses(), writers_stopped=False
    )
    assert compactor.compact() is not None


def test_who_was_said_to_have_stopped_and_writes(base: Path):
    """Nothing is published."""
    before = records(base)
    with pytest.raises(Conflict, match="appeared while"):
        compact_metadata(base, Meanwhile(lambda: a_delta_commit(base, seconds=1.0)))
    assert metadata_leftovers(base) == []
    assert {partition: dict(of) for partition, of in records(base).items()} == {
        partition: dict(of) for partition, of in before.items()
    }


def test_a_log_that_completed_before_our_instant(base: Path):
    """Its writer's clock goes wrong, or it does not share the lock: our base file would hide it."""
    act = Meanwhile(lambda: a_delta_commit(base, seconds=-5.0))
    with pytest.raises(Conflict, match="completed before"):
        compact_metadata(base, act, writers_stopped=False)
    assert compactions(base, State.REQUESTED) == compactions(base)
    assert metadata_leftovers(base) == []


def test_a_log_of_lakeward_that_was_taken_away(base: Path):
    """A rollback beside us removed it: what we merged must not come back."""
    (slice_,) = scan_metadata(base).slices["files"]

    def take_away() -> None:
        (base / METADATA / slice_.log_files[-1].path).unlink()

    with pytest.raises(Conflict, match="files-0000-0"):
        compact_metadata(base, Meanwhile(take_away))
    assert metadata_leftovers(base) == []


def test_a_slice_that_is_later_than_a_plan_does_not_change_it(base: Path):
    """It hides what is made of the older ones, whatever that is. One that is not there any more does."""
    before = scan_metadata(base)
    slices = [slice_ for of in before.slices.values() for slice_ in of if slice_.log_files]
    plan, instant = metadata_compaction_plan(slices, {}), before.timeline.latest_time
    assert instant is not None
    assert changed_operation(plan, f"{int(instant) + 1}", before) is None
    done = compact_metadata(base, LocalStorage())
    assert done is not None
    after = scan_metadata(base)
    assert changed_operation(plan, f"{int(instant) + 1}", after) is None
    assert changed_operation(plan, f"{int(done.instant) + 1}", after) is not None
    assert changed_operation(plan, instant, replace(after, slices={})) == plan.operations[0]


def test_who_is_faster_wins(base: Path):
    """Two of us compact at once: one compaction is published, by the process that holds the lock first."""
    processes = ScriptedProcesses()
    first = Meanwhile(lambda: done.append(compact_metadata(base, LocalStorage(), processes)))
    done: list[object] = []
    with pytest.raises(AttemptLost, match="was compacted at"):
        compact_metadata(base, first, processes, writers_stopped=False)
    (hudis,) = done
    assert compactions(base)[-1] == hudis.instant  # type: ignore[attr-defined]
    assert metadata_leftovers(base) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.table.type", "COPY_ON_WRITE"),
        ("hoodie.record.merge.mode", "CUSTOM"),
        ("hoodie.table.cdc.enabled", "true"),
    ],
)
def test_what_stops_a_compaction_of_the_table_does_not_stop_this_one(base: Path, name: str, value: str):
    """The records of the metadata table are merged by rules of their own, whatever the table's rows are."""
    before = records(base)
    with (base / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write(f"{name}={value}\n")

    assert compact_metadata(base, LocalStorage()) is not None
    assert records(base) == before


def test_an_attempt_that_lives_goes_on(base: Path):
    """An attempt of another process stays before it says anything on the timeline, until its heartbeat is too old."""
    processes = ScriptedProcesses()
    folder = base / METADATA / ".hoodie" / ".temp" / "20260101000000000" / "attempt-77"
    heartbeat = base / ".hoodie" / ".heartbeat" / "20260101000000000"
    folder.mkdir(parents=True)
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.write_bytes(processes.new_owner().to_line())
    compact_metadata(base, LocalStorage(), processes)
    assert folder.exists() and heartbeat.exists()

    old = SkippingClock().now() - EXPIRY_SECONDS - 60
    os.utime(heartbeat, (old, old))
    compact_metadata(base, LocalStorage(), processes)
    assert not folder.parent.exists() and not heartbeat.exists()


def killed_while_publishing(base: Path, processes: ScriptedProcesses) -> str:
    """Returns the instant of the plan that was left."""
    trial = FaultyStorage()
    compact_metadata(copy_of(base, base.with_name("trial")), trial)
    moves = [n for n, call in enumerate(trial.calls) if call.startswith(("move", "rename")) and call.endswith(HFILE)]
    with pytest.raises(Killed):
        compact_metadata(base, FaultyStorage(Fault(FaultKind.KILL, moves[1])), processes)
    (base / ".hoodie" / "lock").unlink()
    (instant,) = set(compactions(base, State.INFLIGHT)) - set(compactions(base))
    return instant


def test_a_plan_of_lakeward_that_is_being_published_is_waited_for(base: Path):
    """The process waits as long as the heartbeat lives."""
    processes = ScriptedProcesses()
    killed_while_publishing(base, processes)
    before = everything(base)
    with pytest.raises(TryLater, match="Another process is publishing"):
        compact_metadata(base, LocalStorage(), processes)
    assert everything(base) == before


def test_a_plan_of_another_engine_is_hudis(base: Path):
    """It is neither rolled back nor compacted beside, also when its process is gone. Keeps 1 of
    services/metadata/run/recovery."""
    processes = ScriptedProcesses()
    instant = killed_while_publishing(base, processes)
    processes.kill_all()
    path = base / METADATA_TIMELINE / f"{instant}.compaction.requested"
    plan = read_compaction_plan(path.read_bytes(), file=path.name, extension=HFILE)
    path.write_bytes(write_compaction_plan(CompactionPlan(plan.operations), extension=HFILE))
    before = everything(base)

    for wanted in (compact_metadata, preview_compaction):
        with pytest.raises(TryLater, match="pending-metadata-compaction"):
            wanted(base, LocalStorage(), processes)
    assert everything(base) == before


def test_a_rollback_that_was_interrupted_is_left_to_hudi(base: Path):
    """It deletes files there that we would merge."""
    newest = timeline(base, METADATA_TIMELINE)[-1]
    write_rollback_plan(base, "20991231235959999", newest.time)
    before = everything(base)
    with pytest.raises(TryLater, match="rollback 20991231235959999"):
        compact_metadata(base, LocalStorage())
    assert everything(base) == before


def test_a_commit_that_may_still_be_rolled_back_forbids_it(base: Path):
    """It is complete in the metadata table and pending on the table: compacted, it could not be rolled back."""
    newest = [i for i in timeline(base, DATA_TIMELINE) if i.state is State.COMPLETED][-1]
    (base / DATA_TIMELINE / newest.file_name).unlink()
    before = everything(base)
    with pytest.raises(TryLater, match="undecided-commit"):
        compact_metadata(base, LocalStorage())
    assert everything(base) == before


def test_a_table_without_one_is_refused(base: Path):
    """Nothing is written. Keeps of services/metadata/run/serviced_metadata."""
    set_property(base, PARTITION_PROPERTY, "")
    before = everything(base)
    with pytest.raises(Refused, match="has no metadata table"):
        compact_metadata(base, LocalStorage())
    assert everything(base) == before


def test_a_held_lock_is_not_taken(base: Path):
    """A writer holds the lock for a write that is under way."""
    (base / ".hoodie" / "lock").touch()
    with pytest.raises(LockHeld):
        compact_metadata(base, LocalStorage())


def test_what_does_not_read_back_is_not_published(base: Path, monkeypatch: pytest.MonkeyPatch):
    """A file whose records are others than those that were written."""
    before = everything(base)
    monkeypatch.setattr("lakeward.format.metadata.base_file.read_digest", lambda *given: 0)
    with pytest.raises(VerificationFailed, match="does not hold what was written"):
        compact_metadata(base, LocalStorage())
    assert everything(base) == before
