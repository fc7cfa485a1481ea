"""The metadata table's own services in an object store: stopped at every write, overtaken at every write, and changed
by others after an intent was stated. Readers see no difference, and in the end each instant is completed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Conflict, LakewardError, TryLater
from lakeward.format.file_name import HFILE
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.attempts import intent_fencing
from lakeward.protocol.attempts.attempt import Attempt, Publication, metadata_place
from lakeward.protocol.attempts.attempt_files import COMMIT_FILE
from lakeward.protocol.attempts.heartbeat import find_intent
from lakeward.protocol.attempts.staged_commit import named_files
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import MetadataAction
from lakeward.services.metadata.run.metadata_round import MetadataServices
from lakeward.services.metadata.run.removal import remove_metadata
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.clocks import SkippingClock
from tests.crash.compacting import everything
from tests.faults import Fault, FaultKind, Killed
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import METADATA, METADATA_TIMELINE
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.services.metadata.run.compacting_metadata import compact_metadata, serviced_table
from tests.services.metadata.run.test_compaction import compactions, metadata_leftovers, records, scan_metadata
from tests.services.metadata.run.test_metadata_clean import files, older_files
from tests.services.verification.metadata_lake import CLEAN, COMPACT, LOCK, Lake, Service, is_base_file, states_intent

GOLDEN = ("v9_metadata", "v8_metadata")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Lake]]:
    with pytest.MonkeyPatch.context() as patch:
        # One commit is retained, instead of twenty, which no golden table has.
        patch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
        yield {}


@pytest.fixture
def lake_of(
    kept: dict[tuple[str, str], Lake], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Service, str], Lake]:
    """A lake of its own for each test."""

    def get(service: Service, golden: str = GOLDEN[0]) -> Lake:
        if (service.name, golden) not in kept:
            kept[service.name, golden] = Lake(tmp_path_factory.mktemp("lake"), golden, service)
        return kept[service.name, golden].copy()

    return get


LakeOf = Callable[..., Lake]
services = pytest.mark.parametrize("service", [COMPACT, CLEAN], ids=lambda service: service.name)


@services
@pytest.mark.parametrize("golden", GOLDEN)
def test_what_stands_afterwards_is_what_stood_before(service: Service, golden: str, lake_of: LakeOf) -> None:
    """They are equal record by record. A second time there is nothing to do."""
    lake = lake_of(service, golden)
    assert lake.run() is not None
    lake.check_ended()
    there = set(lake.objects.data)
    assert lake.run() is None
    assert set(lake.objects.data) - there <= {f"{BASE}/.hoodie/.locks/table_lock.json"}


@services
def test_nothing_is_where_readers_look_before_the_intent_is_written(service: Service, lake_of: LakeOf) -> None:
    """The plan alone is. What is completed then has one name."""
    lake = lake_of(service)
    writes = lake.writes()
    intent = next(n for n, write in enumerate(writes) if states_intent(write))
    before = [write for write in writes[:intent] if f"/{METADATA}/" in write and "/.temp/" not in write]
    created = [write for write in before if not write.startswith("delete")]
    assert [write.partition(f".{service.action}.")[2] for write in created] == ["requested", "inflight"]
    assert any(map(is_base_file, writes[intent:])) == (service is COMPACT)
    assert [write for write in writes[intent:] if write.startswith(("create", "close")) and "/timeline/" in write][
        1:
    ] == []


def test_deletions_come_before_the_commit_intent(lake_of: LakeOf) -> None:
    """A process that finds the commit intent only completes the clean."""
    lake = lake_of(CLEAN)
    deletions = [n for n, write in enumerate(lake.writes()) if write.startswith("delete") and f".{HFILE}" in write]
    intent = next(n for n, write in enumerate(lake.writes()) if states_intent(write))
    assert deletions and max(deletions) < intent


class Unreadable(MemoryObjects):
    """Its n-th call fails before anything is done, and only that."""

    def __init__(self, objects: Objects, fails: int | None = None) -> None:
        super().__init__(objects)
        self.calls = 0
        self._fails = fails

    def _live(self) -> None:
        self.calls += 1
        if self.calls - 1 == self._fails:
            raise OSError("injected before a call")


@pytest.mark.wide
@services
def test_it_survives_every_failing_call(service: Service, lake_of: LakeOf) -> None:
    """A scan that fails, in a process that lives on, is no more than that."""
    first = lake_of(service)
    clean = Unreadable(first.copy().objects)
    first.run(clean)
    for fails in spread(range(clean.calls)):
        lake, processes = first.copy(), ScriptedProcesses()
        with suppress(LakewardError, OSError):
            lake.run(Unreadable(lake.objects, fails), processes)
        lake.check_read()
        processes.kill_all()
        lake.run(processes=processes)
        if service is CLEAN:
            compact_metadata(BASE, lake.store(), processes, lock=LOCK)
        lake.check_ended()


# ------------------------------------------------------------------------------------------- two that believe in it


@services
def test_who_is_overtaken_does_no_harm(service: Service, lake_of: LakeOf) -> None:
    """A process stops before whatever write, is taken for dead, its work done or ended by another, and then wakes up:
    each instant is completed once, by the process with the commit intent, and nothing else of it is left."""
    first = lake_of(service)
    writes = first.writes()
    intent = next(n for n, write in enumerate(writes) if states_intent(write))
    for number in spread(range(len(writes))):
        lake = first.copy()
        _, error = lake.overtaken(partial(is_nth, number))
        try:
            lake.check_read()
            # The process that was overtaken may have left a plan of its own, which is ended or rolled back.
            for run in (compact_metadata, service.run, compact_metadata):
                run(BASE, lake.store(), lock=LOCK)
            table = lake.check_read()
            completed = service.completed(table)
            assert len(completed) == len(set(completed))
            assert metadata_leftovers(table) == []
            if number > intent:
                lake.check_ended()
            elif service is COMPACT and number > 1:
                assert error is not None
        except BaseException as failed:
            failed.add_note(f"stopped before write {number} (intent stated at {intent}): {writes[number]}, {error!r}")
            raise


@pytest.mark.parametrize(
    ("service", "at"),
    [
        pytest.param(COMPACT, states_intent, id="compact-intent-stated"),
        pytest.param(CLEAN, states_intent, id="clean-intent-stated"),
        pytest.param(CLEAN, lambda write: write.endswith("clean.inflight"), id="clean-begun"),
        pytest.param(COMPACT, lambda write: write.endswith("compaction.inflight"), id="compact-begun"),
    ],
)
def test_who_ends_what_died_may_be_overtaken_too(service: Service, at: Callable[[str], bool], lake_of: LakeOf) -> None:
    """Stopped before whatever write of that."""
    first = lake_of(service)
    processes = first.died(at)
    trial = first.copy()
    ending = trial.store()
    trial.run(ending, processes)
    for number, write in spread(enumerate(ending.writes)):
        lake = first.copy()
        _, error = lake.overtaken(partial(is_nth, number), processes)
        try:
            processes.kill_all()
            for run in (compact_metadata, service.run, compact_metadata):
                run(BASE, lake.store(), processes, lock=LOCK)
            table = lake.check_read()
            completed = service.completed(table)
            assert len(completed) == len(set(completed)) == len(service.completed(lake.before)) + 1
            assert metadata_leftovers(table) == []
        except BaseException as failed:
            failed.add_note(f"stopped before write {number}: {write}, {error!r}")
            raise


def is_nth(number: int, store: MemoryObjects, write: str) -> bool:
    return len(store.writes) == number


@services
def test_who_completes_while_it_is_taken_over_has_completed(service: Service, lake_of: LakeOf) -> None:
    """t0 B sees that A is dead, and is about to shut it out; t1 A, who was only stopped, publishes and tidies up; t2 B
    finds no intent, for the heartbeat is gone, but must not roll back what is complete. Keeps 3 of
    protocol/attempts/attempt."""
    lake = lake_of(service)
    # The last write before the commit intent.
    processes = lake.died(lambda write: write.endswith("compaction.inflight" if service is COMPACT else "/commit"))
    instant, sleeper, late = lake.instant(), lake.store(), lake.store()
    first = Attempt(
        metadata_place(late, BASE, f"{BASE}/{METADATA_TIMELINE}"),
        instant,
        MetadataAction.COMPACTION if service is COMPACT else MetadataAction.CLEAN,
        processes.owners[0],
    )
    if service is CLEAN:
        for path in files(lake.before) & older_files(lake.before):
            late.delete(f"{BASE}/{path}")
    staged = {}
    if service is COMPACT:
        staged = named_files(late, f"{first.folder}/{COMMIT_FILE}", instant, extension=HFILE)
    minted = [format_instant_time(int(SkippingClock().now() * 1000), UTC)]
    publication = Publication(lambda number: minted, staged=staged)
    meanwhile = iter([True])

    def publish(write: str) -> None:
        if states_intent(write) and next(meanwhile, False):
            first.publish(publication, fence=lambda: None)
            first.clear()

    sleeper.before = publish
    with pytest.raises(AttemptLost, match="exists"):
        lake.run(sleeper, processes)
    assert next(meanwhile, None) is None
    processes.kill_all()
    compact_metadata(BASE, lake.store(), processes, lock=LOCK)
    lake.check_ended()


def test_what_was_prepared_stays_until_the_clean_is_complete(lake_of: LakeOf) -> None:
    """t0 B ends a clean, is about to remove what A prepared, and is stopped; t1 C ends it, states its intent and dies;
    t2 B removes what lies there: what C prepared, from which D would have had to complete it."""
    lake = lake_of(CLEAN)
    processes, store = lake.died(lambda write: write.endswith("/commit")), lake.store()
    lake.run(store, processes)
    removed = [n for n, write in enumerate(store.writes) if write.startswith("delete") and "/.temp/" in write]
    (completed,) = [n for n, write in enumerate(store.writes) if write.endswith(".clean")]
    assert len(removed) == 2 and min(removed) > completed


@services
def test_an_intent_is_rolled_forward_by_its_name(service: Service, lake_of: LakeOf) -> None:
    """The next process completes it under that name, and does not do it once more."""
    lake = lake_of(service)
    processes = lake.died(states_intent)
    instant = lake.instant()
    intent = find_intent(lake.store(), BASE, instant)
    assert intent is not None
    lake.check_read()
    lake.run(processes=processes)
    assert f"{BASE}/{METADATA_TIMELINE}/{intent.completed}" in lake.objects.data
    lake.check_ended()


@services
def test_an_intent_that_was_not_written_cannot_be_any_more(service: Service, lake_of: LakeOf) -> None:
    """t0 A is about to state its intent; t1 B fences it off; t2 A wakes: it states none and creates nothing."""
    lake = lake_of(service)
    writes, error = lake.overtaken(lambda store, write: states_intent(write))
    assert isinstance(error, AttemptLost)
    assert not [write for write in writes if f"/{METADATA}/" in write and "/.temp/" not in write]
    lake.check_ended()


# ------------------------------------------------------------------------------------- what others did in between


def test_an_intent_that_does_not_fit_any_more_waits(lake_of: LakeOf) -> None:
    """A log that was merged is gone: an operator restored the metadata table. Without one, nothing is left of it. Keeps
    2 of services/metadata/run/recovery."""
    lake = lake_of(COMPACT)
    processes = lake.died(states_intent)
    (slice_,) = scan_metadata(lake.before).slices["files"]
    lake.store().delete(f"{BASE}/{METADATA}/{slice_.log_files[-1].path}")
    before = set(lake.objects.data)
    for _ in range(2):
        with pytest.raises(Conflict, match="does not fit it any more") as caught:
            lake.run(processes=processes)
        assert "metadata disable" in str(caught.value.remedy)
        assert set(lake.objects.data) - before <= {f"{BASE}/.hoodie/.locks/table_lock.json"}
        before |= {f"{BASE}/.hoodie/.locks/table_lock.json"}
    remove_metadata(lake.store(), BASE, None, lock=LOCK, clock=SkippingClock(), processes=processes)
    assert not (lake.fetched() / METADATA).exists()


def test_an_intent_on_a_metadata_table_that_is_another_now_is_forgotten(lake_of: LakeOf) -> None:
    """It was removed and rebuilt; only the heartbeat is still there."""
    lake = lake_of(COMPACT)
    processes = lake.died(states_intent)
    heartbeat = {path: of for path, of in lake.objects.data.items() if "/.heartbeat/" in path}
    assert heartbeat
    lake = lake_of(COMPACT)
    lake.objects.data.update(heartbeat)
    lake.run(processes=processes)
    lake.check_ended()


def test_what_hudi_rolled_back_after_its_intent_was_written_is_rolled_forward(lake_of: LakeOf) -> None:
    """Its executor died between the rollback and carrying the plan out again: some files of Lakeward are gone."""
    lake = lake_of(COMPACT)
    copied = [write for write in lake.writes() if is_base_file(write)]
    processes = lake.died(
        lambda write: is_base_file(write) and write.rpartition("_")[0] != copied[0].rpartition("_")[0]
    )
    instant = lake.instant()
    for path in list(lake.objects.data):
        if path.endswith((f"_{instant}.{HFILE}", f"{instant}.compaction.inflight")) and "/.temp/" not in path:
            lake.store().delete(path)
    lake.run(processes=processes)
    lake.check_ended()


def test_an_attempt_that_lives_is_waited_for(lake_of: LakeOf) -> None:
    """Its plan is on the timeline, and its heartbeat fresh."""
    lake, processes = lake_of(COMPACT), ScriptedProcesses()
    number = next(n for n, write in enumerate(lake.writes()) if write.endswith("compaction.inflight"))
    with pytest.raises(Killed):
        lake.run(lake.store(Fault(FaultKind.KILL, number)), processes)
    lock = f"{BASE}/.hoodie/.locks/table_lock.json"
    lake.store().delete(lock)
    before = set(lake.objects.data)
    with pytest.raises(TryLater, match="Another process is publishing"):
        lake.run(processes=processes)
    assert set(lake.objects.data) - {lock} == before


# ------------------------------------------------------------------------------------------------------- the rest


def test_large_base_files_are_copied_in_parts(lake_of: LakeOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same."""
    monkeypatch.setattr(intent_fencing, "AT_ONCE_BYTES", 100)
    lake = lake_of(COMPACT)
    assert lake.run() is not None
    lake.check_ended()


def test_a_plan_to_clean_names_no_scheme(lake_of: LakeOf) -> None:
    """A writer that reaches the table by another one, s3a, must be able to end it."""
    lake = lake_of(CLEAN)
    lake.died(lambda write: write.endswith("clean.requested"))
    content, _, _ = lake.objects.data[f"{BASE}/{METADATA_TIMELINE}/{lake.instant()}.clean.requested"]
    assert b"://" not in content and f"/orders/{METADATA}/files/".encode() in content


def test_both_by_one_command(lake_of: LakeOf) -> None:
    """First what is old is deleted, then compacted, like everywhere; and what a dead process left is no obstacle."""
    lake = lake_of(COMPACT)
    processes = lake.died(lambda write: write.endswith("compaction.inflight"))
    table: ServicedTable = serviced_table(BASE, lake.store(), processes, lock=LOCK)
    services = MetadataServices(table)
    done = services.run()
    assert done.compaction is not None
    assert len(compactions(lake.check_read())) == len(compactions(lake.before)) + 1


@pytest.mark.wide
@pytest.mark.services
@services
def test_in_s3(service: Service, bucket: str, tmp_path: Path, kept: object) -> None:
    """Requests do everything from the golden table on."""
    base = f"{bucket}/a b/orders"
    store = ObjectStore(parse_object_url(bucket))
    before = service.bring_golden(GOLDEN[0], tmp_path / "golden")
    bring(before, store, base)
    assert service.run(base, store, lock=LOCK) is not None
    table = fetch(store, base, tmp_path / "fetched")
    assert records(table) == records(before)
    service.check_ended(table, before)
    assert [path for path in everything(table) if "lakeward-tmp" in path] == []
