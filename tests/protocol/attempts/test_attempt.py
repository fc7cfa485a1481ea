"""An attempt that another process fenced off, or that meets what others made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, LockLost
from lakeward.format.timeline.commit_metadata import CommitMetadata, write_commit_metadata
from lakeward.protocol.attempts.attempt import Attempt, AttemptPlace, Publication, metadata_place, write_place
from lakeward.protocol.attempts.attempt_files import Winner
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat import Life, read_liveness
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.transition import MetadataAction, ServiceAction, WriteAction
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.clocks import SkippingClock
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import METADATA_TIMELINE
from tests.processes import ScriptedProcesses

INSTANT, DONE, LATER = "20260101000000000", "20260101000000500", "20260101000000900"
COMMIT = write_commit_metadata(CommitMetadata(partition_to_write_stats={}, operation_type="COMPACT"))


class Bench:
    """One instant, and processes that believe in it."""

    def __init__(self, storage: Storage, base: str) -> None:
        self.storage, self.base = storage, base
        self.folder = f"{base}/{METADATA_TIMELINE}"
        self.processes = ScriptedProcesses()
        storage.make_folder(self.folder)

    def attempt(self, action: MetadataAction = MetadataAction.COMPACTION) -> Attempt:
        place = metadata_place(self.storage, self.base, self.folder)
        return Attempt(place, INSTANT, action, self.processes.new_owner())

    def write(self) -> Attempt:
        self.storage.make_folder(f"{self.base}/p")
        place = write_place(self.storage, self.base, self.folder)
        return Attempt(place, INSTANT, WriteAction.DELTA_COMMIT, self.processes.new_owner())

    def begun(self, action: MetadataAction = MetadataAction.COMPACTION) -> Attempt:
        attempt = self.attempt(action)
        attempt.claim()
        attempt.request(b"plan")
        attempt.stage(COMMIT)
        return attempt

    def fence_off(self) -> None:
        """Another process fences it off, and removes what it finds."""
        judged = read_liveness(self.storage, self.base, INSTANT, clock=SkippingClock(), processes=self.processes)
        other = self.attempt()
        assert other.fence_off()
        other.forget(judged.owner)

    def timeline(self) -> list[str]:
        return [status.name for status in self.storage.list(self.folder)]

    def life(self) -> Life:
        return read_liveness(self.storage, self.base, INSTANT, clock=SkippingClock(), processes=self.processes).life


@pytest.fixture(params=["files", "objects"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    if request.param == "files":
        return Bench(LocalStorage(), str(tmp_path))
    return Bench(MemoryObjects(Objects()), "s3://lake/orders")


@pytest.fixture
def objects() -> Bench:
    return Bench(MemoryObjects(Objects()), "s3://lake/orders")


def unfenced() -> None:
    """The lock is this process's."""


def test_an_attempt_that_is_rolled_back_before_it_begins_leaves_nothing(tmp_path: Path) -> None:
    """It was stopped right before it creates `.inflight`, past its lock and heartbeat. Awake it takes the file back,
    which would belong to no process, and the plan stays for the next attempt. Keeps 1 of protocol/attempts/attempt."""
    stopped: list[Attempt] = []

    class StopsBeforeItBegins(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            if path.endswith(".compaction.inflight") and stopped:
                stopped.clear()
                judged = read_liveness(self, base, INSTANT, clock=SkippingClock(), processes=processes)
                other = attempt_at()
                assert other.fence_off()
                other.forget(judged.owner)
            super().create(path, data)

    def attempt_at() -> Attempt:
        place = AttemptPlace(storage, base, base, folder, keeps_plans=True)
        return Attempt(place, INSTANT, ServiceAction.COMPACTION, processes.new_owner())

    storage, base, processes = StopsBeforeItBegins(), str(tmp_path), ScriptedProcesses()
    folder = f"{base}/.hoodie/timeline"
    storage.make_folder(folder)
    attempt = attempt_at()
    attempt.files.request(b"plan")
    stopped.append(attempt)
    with pytest.raises(AttemptLost, match="was taken over"):
        attempt.claim()
    assert [status.name for status in storage.list(folder)] == [f"{INSTANT}.compaction.requested"]
    attempt_at().claim()


def publish(attempt: Attempt, fence: Fence) -> str:
    """Publish for a service that staged nothing but its commit."""
    return attempt.publish(Publication(lambda number: [DONE]), fence=fence)


def test_it_is_published_and_leaves_nothing(bench: Bench) -> None:
    """One completed file, by the time that was given."""
    attempt = bench.begun()
    publish(attempt, unfenced)
    attempt.clear()
    assert bench.timeline() == [
        f"{INSTANT}.compaction.inflight",
        f"{INSTANT}.compaction.requested",
        f"{INSTANT}_{DONE}.commit",
    ]
    assert bench.life() is Life.ABSENT
    assert bench.storage.stat(attempt.folder) is None


def test_of_two_runs_of_a_task_one_is_published(bench: Bench) -> None:
    """What the other run wrote in its file group goes before the instant is complete; files of other instants and
    groups stay."""
    place = AttemptPlace(bench.storage, bench.base, bench.base, bench.folder, keeps_plans=True)
    owner = bench.processes.new_owner()
    attempt = Attempt(place, INSTANT, ServiceAction.COMPACTION, owner)
    attempt.files.request(b"plan")
    attempt.claim()
    winner = Winner("p", f"g-0_0-2-2_{INSTANT}.parquet", replaces_base_file=True)
    bench.storage.make_folder(f"{bench.base}/p")
    fencing = fencing_of(bench.storage)
    with fencing.open_output(bench.base, INSTANT, owner.attempt, attempt.folder, winner) as sink:
        sink.write(b"rows")
    others = [f"g-0_0-1-1_{DONE}.parquet", f"g-1_0-1-1_{INSTANT}.parquet"]
    for name in (f"g-0_0-1-1_{INSTANT}.parquet", *others):
        bench.storage.create(f"{bench.base}/p/{name}", b"rows")
    attempt.stage(COMMIT)
    attempt.publish(Publication(lambda number: [DONE], winners=[winner], groups=[("p", "g-0")]), fence=unfenced)
    assert sorted(each.name for each in bench.storage.list(f"{bench.base}/p")) == sorted([winner.file_name, *others])


def test_an_attempt_that_was_fenced_off_publishes_nothing(bench: Bench) -> None:
    """Whatever it does. Keeps 1 of protocol/attempts/attempt."""
    attempt = bench.begun()
    bench.fence_off()
    assert not attempt.is_own()
    with pytest.raises(AttemptLost):
        publish(attempt, unfenced)
    assert not [name for name in bench.timeline() if name.endswith(".commit")]


@pytest.mark.parametrize(
    ("action", "left"), [(MetadataAction.COMPACTION, []), (MetadataAction.CLEAN, ["inflight", "requested"])]
)
def test_an_attempt_that_was_fenced_off_before_its_plan_is_there(
    bench: Bench, action: MetadataAction, left: list[str]
) -> None:
    """A compaction without its attempt would be carried out by a writer; a clean is ended by the next process."""
    attempt = bench.attempt(action)
    attempt.claim()
    bench.fence_off()
    with pytest.raises(AttemptLost):
        attempt.request(b"plan")
    assert [name.rpartition(".")[2] for name in bench.timeline()] == left


def test_a_write_that_was_fenced_off_before_it_is_announced(bench: Bench) -> None:
    """It takes its instant off the timeline again: without a heartbeat nothing would say that it is dead."""
    attempt = bench.write()
    attempt.claim()
    bench.fence_off()
    with pytest.raises(AttemptLost):
        attempt.announce(b"")
    assert bench.timeline() == []


def test_a_write_that_is_rolled_back_leaves_nothing(bench: Bench) -> None:
    """Neither its instant nor files in groups that it opened; those of other writes stay."""
    attempt = bench.write()
    attempt.claim()
    attempt.announce(b"")
    attempt.files.begin(b"profile")
    names = [f"new-1_0-1-1_{INSTANT}.parquet", f".old-0_{INSTANT}.log.1_0-1-1"]
    for name in names:
        bench.storage.create(f"{bench.base}/p/{name}", b"rows")
    bench.storage.create(f"{bench.base}/p/new-0_0-1-1_{LATER}.parquet", b"rows")
    assert attempt.fence_off()
    attempt.roll_back([("p", "new-0")], fence=unfenced)
    attempt.end()
    assert bench.timeline() == []
    assert [each.name for each in bench.storage.list(f"{bench.base}/p")] == [f"new-0_0-1-1_{LATER}.parquet"]
    assert bench.life() is Life.ABSENT


def test_a_plan_that_a_writer_carried_out_stays(bench: Bench) -> None:
    """What is there for such a plan on the timeline stays."""
    attempt = bench.attempt()
    attempt.claim()
    bench.fence_off()
    bench.storage.create(f"{bench.folder}/{INSTANT}_{LATER}.commit", b"others")
    with pytest.raises(AttemptLost):
        attempt.request(b"plan")
    assert len(bench.timeline()) == 3


def test_a_written_intent_is_rolled_forward_and_not_fenced_off(objects: Bench) -> None:
    """Its name is the one that was stated, also a second time; and the lock is proved before. Keeps 2 of
    protocol/attempts/attempt."""
    attempt = objects.begun()
    proofs: list[int] = []

    def stop() -> None:
        proofs.append(1)
        if len(proofs) == 2:
            raise LockLost("after the intent")

    with pytest.raises(LockLost):
        publish(attempt, stop)
    assert not [name for name in objects.timeline() if name.endswith(".commit")]
    other = objects.attempt()
    assert not other.fence_off()
    attempt.files.roll_back()  # as a rollback of Hudi does
    with pytest.raises(LockLost):
        other.roll_forward(fence=stop_at_once)
    assert objects.timeline() == [f"{INSTANT}.compaction.requested"]
    for _ in range(2):
        assert other.roll_forward(fence=unfenced) == DONE
        assert objects.timeline()[-1] == f"{INSTANT}_{DONE}.commit"


def test_an_intent_outlives_an_attempt_that_failed(objects: Bench) -> None:
    """Its process does not know what happened to it; the next one completes it. Keeps 2 of
    protocol/attempts/attempt."""
    attempt = objects.write()
    attempt.claim()
    attempt.announce(b"")
    attempt.files.begin()
    attempt.stage(COMMIT)
    proofs: list[int] = []

    def stop() -> None:
        proofs.append(1)
        if len(proofs) == 2:
            raise LockLost("after the intent")

    with pytest.raises(LockLost):
        publish(attempt, stop)
    attempt.end()
    assert not objects.write().fence_off()


def stop_at_once() -> None:
    raise LockLost("at once")


def test_there_is_no_second_completed_file(objects: Bench) -> None:
    """A Hudi writer knows no intents: it carried the plan out meanwhile."""
    attempt = objects.begun()
    proofs: list[int] = []

    def meanwhile() -> None:
        proofs.append(1)
        if len(proofs) == 2:
            objects.storage.create(f"{objects.folder}/{INSTANT}_{LATER}.commit", b"others")

    with pytest.raises(AttemptLost, match="exists"):
        publish(attempt, meanwhile)
    assert objects.attempt().roll_forward(fence=unfenced) == LATER
    assert [name for name in objects.timeline() if name.endswith(".commit")] == [f"{INSTANT}_{LATER}.commit"]


def test_without_an_intent_nothing_is_rolled_forward(objects: Bench) -> None:
    """Nothing is created where no intent was stated."""
    objects.begun()
    assert objects.attempt().roll_forward(fence=unfenced) is None
    assert len(objects.timeline()) == 2
