"""Reading `hoodie.properties`, also while a writer is replacing it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, NotATable, UntrustedName
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import LoadedConfig, TableConfig, load_table_config

GOOD = {"hoodie.table.name": "t", "hoodie.table.version": "9", "hoodie.table.checksum": str(zlib.crc32(b".t"))}


class StepClock:
    """Sleeps at once, and lets something happen meanwhile."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = list(steps)
        self.slept = 0.0

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        if self.steps:
            self.steps.pop(0)()


@pytest.fixture
def hoodie(tmp_path: Path) -> Path:
    folder = tmp_path / ".hoodie"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, properties: dict[str, str]) -> None:
    (folder / name).write_text("#comment\n" + "".join(f"{key}={value}\n" for key, value in properties.items()))


def load(folder: Path, clock: StepClock | None = None) -> LoadedConfig:
    return load_table_config(LocalStorage(), str(folder.parent), clock=clock or StepClock())


def test_good_properties_are_taken_at_once(hoodie: Path) -> None:
    """The usual case costs no waiting."""
    put(hoodie, "hoodie.properties", GOOD)
    clock = StepClock()

    loaded = load(hoodie, clock)

    assert (loaded.source, loaded.backup_present, loaded.checksum_ok) == ("hoodie.properties", False, True)
    assert clock.slept == 0


@pytest.mark.parametrize("content", [None, "", "hoodie.table.name=t\nhoodie.table.checksum=1\n"])
def test_backup_stands_in_for_a_missing_empty_or_wrong_file(hoodie: Path, content: str | None) -> None:
    """In the middle of an update, the backup is the truth, and is reported."""
    put(hoodie, "hoodie.properties.backup", GOOD)
    if content is not None:
        (hoodie / "hoodie.properties").write_text(content)

    loaded = load(hoodie)

    assert (loaded.source, loaded.backup_present, loaded.checksum_ok) == ("hoodie.properties.backup", True, True)


@pytest.mark.parametrize("name", ["hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.archivelog.folder"])
@pytest.mark.parametrize(
    "value",
    [
        *(
            "../../other/.hoodie/timeline",
            "/other/.hoodie/timeline",
            "s3://o/t",
            "x/../../y",
            ".",
            "..",
            ".temp",
            "a//b",
        ),
        *("metadata/.hoodie/timeline", "metadata"),
    ],
)
def test_a_property_that_leads_out_of_the_table(hoodie: Path, name: str, value: str) -> None:
    """It is refused by name and value, whatever the layout; the metadata table is another table, too."""
    put(hoodie, "hoodie.properties", GOOD | {name: value})
    with pytest.raises(UntrustedName) as caught:
        load(hoodie)
    assert name in caught.value.what
    assert value in caught.value.what
    assert str(hoodie / "hoodie.properties") in caught.value.what


def test_folders_of_other_names(hoodie: Path) -> None:
    """A writer may have chosen its own below `.hoodie`."""
    put(hoodie, "hoodie.properties", GOOD | {"hoodie.timeline.path": "a/b", "hoodie.timeline.history.path": "old"})
    assert load(hoodie).config.timeline_folder == "a/b"
    assert load(hoodie).config.archive_folder == "a/b/old"


def test_folders_without_a_name(hoodie: Path) -> None:
    """A property that is there and empty, is as good as none."""
    put(hoodie, "hoodie.properties", GOOD | {"hoodie.timeline.path": "", "hoodie.archivelog.folder": ""})
    assert load(hoodie).config.timeline_folder == "timeline"


def test_an_update_that_ends_while_we_scan_is_seen(hoodie: Path) -> None:
    """An empty file without a backup is read again."""
    (hoodie / "hoodie.properties").write_text("")
    clock = StepClock(lambda: None, lambda: put(hoodie, "hoodie.properties", GOOD))

    assert load(hoodie, clock).source == "hoodie.properties"
    assert clock.slept == 2


def test_a_wrong_checksum_is_used_but_said(hoodie: Path) -> None:
    """After all rounds the doubtful file is better than none for reading the table; services refuse it."""
    put(hoodie, "hoodie.properties", GOOD | {"hoodie.table.checksum": "1"})
    clock = StepClock()

    assert not load(hoodie, clock).checksum_ok
    assert clock.slept == 4


def test_a_missing_checksum_is_doubtful(hoodie: Path) -> None:
    """A file torn before its checksum must not pass for a whole one."""
    put(hoodie, "hoodie.properties", {"hoodie.table.name": "t", "hoodie.table.version": "9"})
    assert not load(hoodie).checksum_ok


def test_an_empty_file_for_good_is_broken(hoodie: Path) -> None:
    """There is a table, but nothing says what it is."""
    (hoodie / "hoodie.properties").write_text("")
    with pytest.raises(BrokenFile):
        load(hoodie)


def test_properties_of_endless_size_are_not_read(hoodie: Path) -> None:
    """A terabyte of properties is an error, and not a byte of it is read."""
    with (hoodie / "hoodie.properties").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BrokenFile, match=r"more than 4\.0 MiB"):
        load(hoodie)


def test_no_properties_is_no_table(tmp_path: Path, hoodie: Path) -> None:
    """A folder without `.hoodie/hoodie.properties` is refused as no table, at once where there is no `.hoodie`."""
    with pytest.raises(NotATable):
        load(hoodie)
    clock = StepClock()
    with pytest.raises(NotATable):
        load(tmp_path / "nothing" / ".hoodie", clock)
    assert clock.slept == 0


def test_checksum_covers_database_and_name() -> None:
    """The checksum is that of `<database>.<table>`; without a database its dot stays."""
    assert TableConfig({"hoodie.table.name": "golden"}).checksum == 2161359419
    named = TableConfig({"hoodie.table.name": "t", "hoodie.database.name": "d"})
    assert named.checksum == zlib.crc32(b"d.t")


def test_metadata_partitions_are_built_or_being_built() -> None:
    """Readers use the first kind only, writers keep both."""
    key = "hoodie.table.metadata.partitions"
    config = TableConfig({key: "files, column_stats", f"{key}.inflight": "record_index"})

    assert config.built_metadata_partitions == ("files", "column_stats")
    assert config.metadata_partitions == ("files", "column_stats", "record_index")
    assert TableConfig({}).metadata_partitions == ()


def test_base_files_end_in_the_name_of_their_format() -> None:
    """Parquet where the table does not say, and where it says what we do not read."""
    assert TableConfig({}).base_file_extension == "parquet"
    assert TableConfig({"hoodie.table.base.file.format": "ORC"}).base_file_extension == "parquet"
    assert TableConfig({"hoodie.table.base.file.format": "HFILE"}).base_file_extension == "hfile"


def test_old_names_are_understood() -> None:
    """What 0.x releases called precombine field and merger strategy is read; the new name wins."""
    old = TableConfig({"hoodie.table.precombine.field": "a", "hoodie.compaction.record.merger.strategy": "s"})
    assert (old.ordering_fields, old.strategy_id) == (("a",), "s")
    both = TableConfig({"hoodie.table.precombine.field": "a", "hoodie.table.ordering.fields": "b, c"})
    assert both.ordering_fields == ("b", "c")


@pytest.mark.parametrize(
    ("version", "properties", "folder", "archive"),
    [
        ("6", {"hoodie.timeline.path": "timeline", "hoodie.archivelog.folder": "history"}, "", "history"),
        ("6", {}, "", "archived"),
        ("9", {}, "timeline", "timeline/history"),
        ("9", {"hoodie.timeline.path": "x", "hoodie.timeline.history.path": "y"}, "x", "x/y"),
    ],
)
def test_timeline_folders(version: str, properties: dict[str, str], folder: str, archive: str) -> None:
    """Layout 1 keeps its timeline in `.hoodie` whatever the path property says."""
    config = TableConfig({"hoodie.table.version": version} | properties)
    assert (config.timeline_folder, config.archive_folder) == (folder, archive)


PAYLOAD = "hoodie.compaction.payload.class"
STRATEGY = "hoodie.record.merge.strategy.id"
EVENT_ID, COMMIT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"


@pytest.mark.parametrize(
    ("version", "properties", "mode"),
    [
        ("9", {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", "hoodie.table.ordering.fields": "ts"}, "COMMIT"),
        ("9", {"hoodie.table.ordering.fields": "ts"}, "EVENT"),
        ("9", {}, "COMMIT"),
        ("8", {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}, "EVENT"),
        ("8", {PAYLOAD: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}, "COMMIT"),
        # A 0.x table as 0.x made it: the payload decides, the event-time id beside it does not.
        ("6", {PAYLOAD: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload", STRATEGY: EVENT_ID}, "COMMIT"),
        ("6", {PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload", STRATEGY: COMMIT_ID}, "EVENT"),
        ("6", {PAYLOAD: "com.example.OurPayload"}, "CUSTOM"),
        ("6", {PAYLOAD: "com.example.DefaultHoodieRecordPayload"}, "CUSTOM"),
        ("6", {PAYLOAD: "com.uber.hoodie.common.model.OverwriteWithLatestAvroPayload"}, "COMMIT"),
        ("6", {STRATEGY: COMMIT_ID, "hoodie.table.precombine.field": "ts"}, "COMMIT"),
        ("6", {STRATEGY: "00000000-0000-0000-0000-000000000000"}, "CUSTOM"),
        ("6", {"hoodie.table.precombine.field": "ts"}, "EVENT"),
        ("6", {}, "COMMIT"),
    ],
)
def test_effective_merge_mode(version: str, properties: dict[str, str], mode: str) -> None:
    """Which rules merge a table depends on its version: from 9 on the mode, before 8 the payload class first."""
    config = TableConfig({"hoodie.table.version": version} | properties)
    assert config.merge_mode.removesuffix("_TIME_ORDERING") == mode


def test_what_index_writers_shall_have() -> None:
    """A table may say it, with the number of buckets and what is hashed; most leave it to their writers."""
    said = TableConfig(
        {
            "hoodie.index.type": "bucket",
            "hoodie.bucket.index.num.buckets": "8",
            "hoodie.bucket.index.hash.field": "a,b",
        }
    )
    assert (said.index_type, said.buckets, said.bucket_fields) == ("BUCKET", 8, ("a", "b"))
    silent = TableConfig({"hoodie.index.type": "", "hoodie.bucket.index.num.buckets": "many"})
    assert (silent.index_type, silent.buckets, silent.bucket_fields) == (None, None, ())
