"""The metadata table, or a partition of it, is taken away in an order in which the table is sound at every moment."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LockHeld, Refused, TryLater
from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.protocol.owner import Processes
from lakeward.protocol.table_properties import update_properties
from lakeward.services.metadata.run.removal import Removal, preview_removal, remove_metadata
from lakeward.storage.local import LocalStorage
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_config import TableConfig, load_table_config
from tests.clocks import SkippingClock
from tests.crash.compacting import everything
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.memory_objects import MemoryObjects, Objects
from tests.object_tables import bring, fetch
from tests.our_reader import read_rows

PARTITIONS = "bloom_filters,column_stats,files,partition_stats,record_index"
LOCK = stopped_writers_options(wait_seconds=0.0)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_golden("v9_metadata", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return copy_of(golden, tmp_path / "table")


def copy_of(golden: Path, base: Path) -> Path:
    return Path(shutil.copytree(golden, base))


def remove(base: Path, partition: str | None = None, storage: LocalStorage | FaultyStorage | None = None) -> Removal:
    return remove_metadata(
        storage or LocalStorage(),  # type: ignore[arg-type]
        str(base),
        partition,
        lock=LOCK,
        clock=SkippingClock(),
        processes=Processes(),
    )


def config(base: Path) -> TableConfig:
    return load_table_config(LocalStorage(), str(base), clock=SkippingClock()).config


def files(base: Path) -> set[str]:
    """Below `.hoodie`, but for those of the timeline."""
    found = {str(path.relative_to(base / ".hoodie")) for path in (base / ".hoodie").rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith("timeline/")}


def check_sound(base: Path) -> None:
    """What Hudi's readers ask for: they use the property, and what it names must be whole."""
    found = config(base)
    for partition in found.built_metadata_partitions:
        assert any((base / ".hoodie" / "metadata" / partition).iterdir()), partition
    if found.built_metadata_partitions:
        assert "files" in found.built_metadata_partitions
        assert (base / ".hoodie/metadata/.hoodie/hoodie.properties").exists()
    by_storage, by_metadata = (
        take_snapshot(LocalStorage(), str(base), timezone="UTC", clock=SkippingClock(), listing=source).file_groups
        for source in (ListingSource.STORAGE, ListingSource.METADATA)
    )
    assert by_storage == by_metadata


def test_disabling_leaves_a_table_without_a_metadata_table(base: Path):
    """The property is empty, the folder gone; rows and index definitions stay."""
    rows = read_rows(base)
    there = sum(path.is_file() for path in (base / ".hoodie/metadata").rglob("*"))
    removed = remove(base)

    assert removed.named == tuple(PARTITIONS.split(","))
    assert removed.folders == (".hoodie/metadata",)
    assert removed.files == there > 0
    assert config(base).metadata_partitions == ()
    assert files(base) == {"hoodie.properties", ".index_defs/index.json"}
    assert read_rows(base) == rows
    check_sound(base)


def test_rebuilding_leaves_the_other_partitions(base: Path):
    """The definitions stay, too, by which Hudi knows the columns."""
    removed = remove(base, "column_stats")

    assert removed.named == ("column_stats",)
    assert config(base).built_metadata_partitions == ("bloom_filters", "files", "partition_stats", "record_index")
    assert not (base / ".hoodie/metadata/column_stats").exists()
    assert ".index_defs/index.json" in files(base)
    check_sound(base)


def test_a_preview_writes_nothing(base: Path):
    """It says what the removal then does."""
    before = everything(base)
    previews = {
        partition: preview_removal(LocalStorage(), str(base), partition, clock=SystemClock(), processes=Processes())
        for partition in ("column_stats", None)
    }
    assert everything(base) == before
    assert remove(base, "column_stats") == previews["column_stats"]


def test_removing_again_does_nothing(base: Path):
    """There is nothing left to remove."""
    remove(base)
    before = everything(base)
    assert remove(base).is_empty
    assert everything(base) == before


@pytest.mark.parametrize("partition", [None, "column_stats"])
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.KILL])
def test_stopped_at_every_call_the_table_is_sound(golden: Path, tmp_path: Path, partition: str | None, kind: FaultKind):
    """The same command finishes it. Keeps 2 of services/metadata/run/removal."""
    done = copy_of(golden, tmp_path / "done")
    trial = FaultyStorage()
    remove(done, partition, trial)
    writes = [n for n, call in enumerate(trial.calls) if call.split()[0] not in ("list", "stat", "read")]
    assert len(writes) > 8
    for call in writes:
        base = copy_of(golden, tmp_path / f"table{call}")
        try:
            remove(base, partition, FaultyStorage(Fault(kind, call)))
        except (OSError, Killed):
            check_sound(base)
        for lock in (base / ".hoodie" / "lock", base / ".hoodie" / "hoodie.properties.lock"):
            lock.unlink(missing_ok=True)  # its holder, this process, is not dead
        try:
            remove(base, partition)
        except Refused:
            # All of it was done but for the release of the lock: there is no such partition any more.
            assert partition is not None
            assert partition not in config(base).metadata_partitions
        assert {name for name in files(base) if "lakeward-tmp" not in name and name != "lock"} == {
            name for name in files(done) if name != "lock"
        }
        check_sound(base)


def test_what_a_writer_works_on_stays(base: Path):
    """A writer that lives began with the metadata table as it is. Once it is dead, its instant is no obstacle. Keeps
    1 of services/metadata/run/removal."""
    (base / ".hoodie/timeline/20270101000000000.deltacommit.requested").write_bytes(b"")
    heartbeat = base / ".hoodie/.heartbeat/20270101000000000"
    heartbeat.parent.mkdir()
    heartbeat.write_bytes(b"")
    before = everything(base)
    with pytest.raises(TryLater, match="20270101000000000"):
        remove(base)
    assert everything(base) == before
    os.utime(heartbeat, (time.time() - 121, time.time() - 121))
    assert not remove(base).is_empty


def test_a_write_to_the_metadata_table_alone_counts_too(base: Path):
    """Hudi's writers stream into it, outside of the lock."""
    metadata = base / ".hoodie/metadata/.hoodie"
    (metadata / "timeline/20270101000000000.deltacommit.requested").write_bytes(b"")
    (metadata / ".heartbeat").mkdir()
    (metadata / ".heartbeat/20270101000000000").write_bytes(b"")
    with pytest.raises(TryLater):
        remove(base, "column_stats")


@pytest.mark.parametrize(
    ("file", "partition", "shown"),
    [
        ("timeline/20270101000000000.indexing.requested", None, "pending-indexing"),
        ("timeline/20270101000000000.restore.inflight", "column_stats", "pending-restore"),
        ("metadata/.hoodie/timeline/20270101000000000.compaction.requested", "column_stats", "metadata-compaction"),
    ],
)
def test_what_would_fail_without_it_is_a_refusal(base: Path, file: str, partition: str | None, shown: str):
    """An instant that is pending and names its files."""
    (base / ".hoodie" / file).write_bytes(b"x")
    before = everything(base)
    with pytest.raises(Refused, match=shown):
        remove(base, partition)
    assert everything(base) == before


def test_a_pending_compaction_of_it_does_not_keep_all_of_it(base: Path):
    """It goes as well."""
    (base / ".hoodie/metadata/.hoodie/timeline/20270101000000000.compaction.requested").write_bytes(b"x")
    assert not remove(base).is_empty


@pytest.mark.parametrize("partition", ["files", "no such", "../x", ".hoodie", ""])
def test_only_a_partition_that_can_be_rebuilt_alone(base: Path, partition: str):
    """All others are built from `files`; and a name does not lead anywhere else."""
    before = everything(base)
    with pytest.raises(Refused):
        remove(base, partition)
    assert everything(base) == before


def test_secondary_indexes_go_before_the_record_index(base: Path):
    """They lead to rows through it."""
    (base / ".hoodie/metadata/secondary_index_name").mkdir()
    changed = {"hoodie.table.metadata.partitions": f"{PARTITIONS},secondary_index_name"}
    update_properties(LocalStorage(), str(base), changed, fence=lambda: None)

    with pytest.raises(Refused, match="secondary_index_name"):
        remove(base, "record_index")
    remove(base, "secondary_index_name")
    remove(base, "record_index")
    assert config(base).built_metadata_partitions == ("bloom_filters", "column_stats", "files", "partition_stats")


def test_a_dead_indexers_partition_goes_too(base: Path):
    """Its build is announced by another property."""
    changed = {"hoodie.table.metadata.partitions.inflight": "expr_index_x"}
    update_properties(LocalStorage(), str(base), changed, fence=lambda: None)
    remove(base)
    assert config(base).metadata_partitions == ()


def test_other_versions_are_left_to_hudi(tmp_path: Path):
    """Their timelines lie elsewhere."""
    with pytest.raises(Refused, match="version 6"):
        remove(copy_golden("v6", tmp_path / "table"))


def test_in_an_object_store(golden: Path, tmp_path: Path):
    """Nothing can be moved aside there, and the same is left in the end."""
    storage = MemoryObjects(Objects())
    location = bring(copy_of(golden, tmp_path / "local"), storage, "s3://lake/orders")
    for partition in ("column_stats", None):
        remove_metadata(storage, location, partition, lock=LOCK, clock=SystemClock(), processes=Processes())
    base = fetch(storage, location, tmp_path / "fetched")

    assert {"hoodie.properties", ".index_defs/index.json"} == {
        name for name in files(base) if not name.startswith(".locks/")
    }
    check_sound(base)


def test_in_an_object_store_it_is_deleted_under_the_lock(golden: Path, tmp_path: Path):
    """A writer that rebuilds it as soon as the lock is free loses nothing."""
    objects = Objects()
    storage = MemoryObjects(objects)
    location = bring(copy_of(golden, tmp_path / "local"), storage, "s3://lake/orders")
    again = f"{location}/.hoodie/metadata/files/again"

    def build(write: str) -> None:
        if write.startswith("replace") and not storage.list(f"{location}/.hoodie/metadata"):
            objects.put(again, b"x")

    storage.before = build
    remove_metadata(storage, location, None, lock=LOCK, clock=SystemClock(), processes=Processes())
    assert storage.read(again) == b"x"


def test_nothing_is_removed_without_the_lock(base: Path):
    """Another process holds the lock."""
    (base / ".hoodie" / "lock").write_bytes(b"")
    before = everything(base)
    with pytest.raises(LockHeld):
        remove(base)
    assert everything(base) == before
