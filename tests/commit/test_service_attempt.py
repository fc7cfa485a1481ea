"""An attempt at a service of the metadata table that another process shut out, or that meets what others made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.commit.heartbeat import Life, look
from lakeward.commit.service_attempt import ServiceAttempt
from lakeward.commit.transition import MetadataAction
from lakeward.errors import AttemptLost, LockLost
from lakeward.format.commit_metadata import CommitMetadata, write_commit_metadata
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

    def attempt(self, action: MetadataAction = MetadataAction.COMPACTION) -> ServiceAttempt:
        return ServiceAttempt(self.storage, self.base, self.folder, INSTANT, action, self.processes.new_owner())

    def begun(self, action: MetadataAction = MetadataAction.COMPACTION) -> ServiceAttempt:
        attempt = self.attempt(action)
        attempt.start()
        attempt.request(b"plan")
        attempt.stage(COMMIT)
        return attempt

    def shut_out(self) -> None:
        """By another process, which removes what it finds."""
        judged = look(self.storage, self.base, INSTANT, clock=SkippingClock(), processes=self.processes)
        other = self.attempt()
        assert other.shut_out()
        other.remove(judged)

    def timeline(self) -> list[str]:
        return [status.name for status in self.storage.list(self.folder)]

    def life(self) -> Life:
        return look(self.storage, self.base, INSTANT, clock=SkippingClock(), processes=self.processes).life


@pytest.fixture(params=["files", "objects"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    if request.param == "files":
        return Bench(LocalStorage(), str(tmp_path))
    return Bench(MemoryObjects(Objects()), "s3://lake/orders")


@pytest.fixture
def objects() -> Bench:
    return Bench(MemoryObjects(Objects()), "s3://lake/orders")


def unfenced() -> None:
    """The lock is ours."""


def test_it_is_published_and_leaves_nothing(bench: Bench) -> None:
    """One completed file, by the time that was given."""
    attempt = bench.begun()
    attempt.publish((), DONE, fence=unfenced)
    attempt.clear()
    assert bench.timeline() == [
        f"{INSTANT}.compaction.inflight",
        f"{INSTANT}.compaction.requested",
        f"{INSTANT}_{DONE}.commit",
    ]
    assert bench.life() is Life.ABSENT
    assert bench.storage.stat(attempt.folder) is None


def test_who_was_shut_out_publishes_nothing(bench: Bench) -> None:
    """Whatever it does."""
    attempt = bench.begun()
    bench.shut_out()
    assert not attempt.is_ours()
    with pytest.raises(AttemptLost):
        attempt.publish((), DONE, fence=unfenced)
    assert not [name for name in bench.timeline() if name.endswith(".commit")]


@pytest.mark.parametrize(
    ("action", "left"), [(MetadataAction.COMPACTION, []), (MetadataAction.CLEAN, ["inflight", "requested"])]
)
def test_who_was_shut_out_before_its_plan_is_there(bench: Bench, action: MetadataAction, left: list[str]) -> None:
    """A compaction of somebody who is gone would be carried out by a writer; a clean is ended by whoever comes."""
    attempt = bench.attempt(action)
    attempt.start()
    bench.shut_out()
    with pytest.raises(AttemptLost):
        attempt.request(b"plan")
    assert [name.rpartition(".")[2] for name in bench.timeline()] == left


def test_a_plan_that_a_writer_carried_out_is_left_alone(bench: Bench) -> None:
    """With what stands for it on the timeline."""
    attempt = bench.attempt()
    attempt.start()
    bench.shut_out()
    bench.storage.create(f"{bench.folder}/{INSTANT}_{LATER}.commit", b"theirs")
    with pytest.raises(AttemptLost):
        attempt.request(b"plan")
    assert len(bench.timeline()) == 3


def test_an_announced_one_is_finished_and_not_shut_out(objects: Bench) -> None:
    """By its name, also a second time; and the lock is proved before."""
    attempt = objects.begun()
    proofs: list[int] = []

    def stop() -> None:
        proofs.append(1)
        if len(proofs) == 2:
            raise LockLost("after the announcement")

    with pytest.raises(LockLost):
        attempt.publish((), DONE, fence=stop)
    assert not [name for name in objects.timeline() if name.endswith(".commit")]
    other = objects.attempt()
    assert not other.shut_out()
    attempt.files.undo()  # as a rollback of Hudi does
    with pytest.raises(LockLost):
        other.finish_announced(fence=stop_at_once)
    assert objects.timeline() == [f"{INSTANT}.compaction.requested"]
    for _ in range(2):
        assert other.finish_announced(fence=unfenced) == DONE
        assert objects.timeline()[-1] == f"{INSTANT}_{DONE}.commit"


def stop_at_once() -> None:
    raise LockLost("at once")


def test_there_is_no_second_completed_file(objects: Bench) -> None:
    """A Hudi writer knows no announcements: it carried the plan out meanwhile."""
    attempt = objects.begun()
    proofs: list[int] = []

    def meanwhile() -> None:
        proofs.append(1)
        if len(proofs) == 2:
            objects.storage.create(f"{objects.folder}/{INSTANT}_{LATER}.commit", b"theirs")

    with pytest.raises(AttemptLost, match="exists"):
        attempt.publish((), DONE, fence=meanwhile)
    assert objects.attempt().finish_announced(fence=unfenced) == LATER
    assert [name for name in objects.timeline() if name.endswith(".commit")] == [f"{INSTANT}_{LATER}.commit"]


def test_nothing_announced_is_nothing_to_finish(objects: Bench) -> None:
    """And nothing is created."""
    objects.begun()
    assert objects.attempt().finish_announced(fence=unfenced) is None
    assert len(objects.timeline()) == 2
