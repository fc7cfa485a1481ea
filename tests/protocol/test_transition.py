"""Timeline files are created once; an unknown outcome is read before anything else happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import AlreadyExists, AttemptLost, BrokenFile, OutcomeUnknown
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.transition import ServiceAction, TimelineFiles
from lakeward.storage.storage import Storage
from tests.faults import Fault, FaultKind, FaultyStorage
from tests.memory_objects import MemoryObjects, Objects

INSTANT = "20261121050000000"
COMPLETION = "20261121050001000"


def files(folder: Path, storage: FaultyStorage | None = None) -> TimelineFiles:
    return TimelineFiles(storage or FaultyStorage(), str(folder), INSTANT, ServiceAction.COMPACTION)


def complete(steps: TimelineFiles, storage: Storage, staged: Path | str) -> None:
    fencing_of(storage).complete(steps, str(staged), COMPLETION)


def test_the_states_in_their_order(tmp_path: Path) -> None:
    """They are requested, inflight and completed: three files that all stay, with Hudi's names."""
    timeline = tmp_path / "timeline"
    timeline.mkdir()
    (tmp_path / "staged").write_bytes(b"metadata")
    steps = files(timeline)
    steps.request(b"plan")
    steps.begin()
    assert steps.find_completed() is None
    complete(steps, FaultyStorage(), tmp_path / "staged")
    assert steps.find_completed() == f"{timeline}/{INSTANT}_{COMPLETION}.commit"
    assert {item.name: item.read_bytes() for item in timeline.iterdir()} == {
        f"{INSTANT}.compaction.requested": b"plan",
        f"{INSTANT}.compaction.inflight": b"",
        f"{INSTANT}_{COMPLETION}.commit": b"metadata",
    }


def test_no_state_without_the_one_before(tmp_path: Path) -> None:
    """An attempt whose files another process took away stops. Keeps 1 of protocol/transition."""
    steps = files(tmp_path)
    with pytest.raises(AttemptLost):
        steps.begin()
    (tmp_path / "staged").write_bytes(b"metadata")
    with pytest.raises(AttemptLost):
        complete(steps, FaultyStorage(), tmp_path / "staged")
    steps.request(b"plan")
    steps.begin()
    with pytest.raises(AttemptLost):
        complete(steps, FaultyStorage(), tmp_path / "gone")


def test_nothing_is_created_twice(tmp_path: Path) -> None:
    """Equal content is no excuse: it could be another process's. Keeps 2 of protocol/transition."""
    steps = files(tmp_path)
    steps.request(b"plan")
    with pytest.raises(AlreadyExists):
        steps.request(b"plan")
    steps.begin()
    with pytest.raises(AlreadyExists):
        steps.begin()


def test_a_lost_reply_is_followed_by_a_read(tmp_path: Path) -> None:
    """The file is there with our content: done. Keeps 1 of protocol/creation."""
    files(tmp_path, FaultyStorage(Fault(FaultKind.LOST_REPLY, 0))).request(b"plan")
    assert (tmp_path / f"{INSTANT}.compaction.requested").read_bytes() == b"plan"


def test_a_call_that_did_nothing_fails(tmp_path: Path) -> None:
    """The file is not there: the error is raised."""
    with pytest.raises(OSError, match="injected"):
        files(tmp_path, FaultyStorage(Fault(FaultKind.BEFORE, 0))).request(b"plan")


def test_when_the_outcome_is_unknown_nothing_is_assumed(tmp_path: Path) -> None:
    """The reply is lost and the read afterwards fails: the outcome is unknown, and the error says what to do."""

    class Blind(FaultyStorage):
        def read(self, path: str) -> bytes:
            raise OSError("the network is down")

    with pytest.raises(OutcomeUnknown) as error:
        files(tmp_path, Blind(Fault(FaultKind.LOST_REPLY, 0))).request(b"plan")
    assert error.value.exit_code == 75
    assert (tmp_path / f"{INSTANT}.compaction.requested").exists()


def test_the_file_of_another_process_is_not_taken_for_own(tmp_path: Path) -> None:
    """The call failed, and the file there has other content: the failure is raised. Keeps 2 of protocol/creation."""

    class Overtaken(FaultyStorage):
        def create(self, path: str, data: bytes) -> None:
            Path(path).write_bytes(b"another plan")
            raise OSError("injected")

    with pytest.raises(OSError, match="injected"):
        files(tmp_path, Overtaken()).request(b"plan")


def test_a_log_compaction_has_names_of_its_own_and_can_be_unscheduled(tmp_path: Path) -> None:
    """It is a logcompaction while it is pending, and a deltacommit when it is completed; the plan goes only after the
    attempt at it."""
    steps = TimelineFiles(FaultyStorage(), str(tmp_path), INSTANT, ServiceAction.LOG_COMPACTION)
    steps.request(b"plan")
    steps.begin()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{INSTANT}.logcompaction.inflight",
        f"{INSTANT}.logcompaction.requested",
    ]
    assert steps.completed(COMPLETION).endswith(f"{INSTANT}_{COMPLETION}.deltacommit")
    with pytest.raises(AttemptLost, match="exists again"):
        steps.unschedule()
    steps.roll_back()
    steps.unschedule()
    assert list(tmp_path.iterdir()) == []


def test_no_inflight_stays_without_its_plan(tmp_path: Path) -> None:
    """The plan was unscheduled between the scan that found it and `.inflight`, which is never rolled back without a
    plan."""

    class Overtaken(FaultyStorage):
        def create(self, path: str, data: bytes) -> None:
            if path.endswith(".inflight"):
                (tmp_path / f"{INSTANT}.compaction.requested").unlink()
            super().create(path, data)

    steps = files(tmp_path, Overtaken())
    steps.request(b"plan")
    with pytest.raises(AttemptLost):
        steps.begin()
    assert list(tmp_path.iterdir()) == []


def in_store(store: MemoryObjects) -> TimelineFiles:
    steps = TimelineFiles(store, "s3://lake/timeline", INSTANT, ServiceAction.COMPACTION)
    steps.request(b"plan")
    steps.begin()
    store.create("s3://lake/staged", b"metadata")
    return steps


def test_in_an_object_store_the_file_is_created_where_there_is_none() -> None:
    """It may be there by then, made by a process that found the intent; and in the end it reads as it was staged."""
    store = MemoryObjects(Objects())
    steps = in_store(store)
    name = f"{INSTANT}_{COMPLETION}.commit"
    for _ in range(2):
        complete(steps, store, "s3://lake/staged")
        assert steps.find_completed() == f"s3://lake/timeline/{name}"
    assert store.read(f"s3://lake/timeline/{name}") == b"metadata"
    steps.finish("s3://lake/staged", name)


def test_a_completed_file_of_another_engine_is_the_only_one() -> None:
    """It knows no intents, and carried the plan out meanwhile."""
    store = MemoryObjects(Objects())
    steps = in_store(store)
    store.create(f"s3://lake/timeline/{INSTANT}_20261121050002000.commit", b"others")
    with pytest.raises(AttemptLost, match="exists"):
        complete(steps, store, "s3://lake/staged")


def test_what_an_intent_names_is_finished_as_it_was_staged_or_not_at_all() -> None:
    """Another content under the same name is not to be explained; nor is one that is gone."""
    store = MemoryObjects(Objects())
    steps = in_store(store)
    name = f"{INSTANT}_{COMPLETION}.commit"
    store.create(f"s3://lake/timeline/{name}", b"other")
    with pytest.raises(AlreadyExists):
        steps.finish("s3://lake/staged", name)
    with pytest.raises(OutcomeUnknown, match="gone"):
        steps.finish("s3://lake/nothing", name.replace("commit", "deltacommit"))


@pytest.mark.parametrize(
    "name",
    [
        "../hoodie.properties",
        f"{INSTANT}.compaction.inflight",
        f"20261121050000001_{COMPLETION}.commit",
        f"x/{INSTANT}_{COMPLETION}.commit",
        "",
    ],
)
def test_a_heartbeat_names_no_other_file(name: str) -> None:
    """A program that can write one must not have us create what it wants."""
    store = MemoryObjects(Objects())
    steps = in_store(store)
    before = len(store.writes)
    with pytest.raises(BrokenFile):
        steps.finish("s3://lake/staged", name)
    assert len(store.writes) == before
