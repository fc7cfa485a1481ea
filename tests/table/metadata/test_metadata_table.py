"""The metadata table at one moment: which log blocks count, what its slices are, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, Unsupported, UntrustedName
from lakeward.format.avro.container import write_record
from lakeward.format.metadata.partition import FILES
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_table import has_metadata_table, valid_instants
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.timeline import Timeline
from tests.table.metadata.metadata_files import MetadataFiles, all_partitions, files, time
from tests.table.timeline.test_timeline import timeline

LOG = {FILES: {"p": files(a=1)}}


@pytest.fixture
def table(tmp_path: Path) -> MetadataFiles:
    return MetadataFiles(tmp_path)


def formatted(*names: str) -> Timeline:
    """A timeline of names such as `05_06.commit`."""
    parts = [name.partition(".") for name in names]
    return timeline(*("_".join(map(time, numbers.split("_"))) + dot + rest for numbers, dot, rest in parts))


def numbers(instants: frozenset[str]) -> set[str]:
    return {instant[-5:-3] for instant in instants}


@pytest.mark.parametrize(
    ("rule", "data", "metadata", "valid"),
    [
        ("completed on both", ["05_07.deltacommit"], ["05_06.deltacommit"], {"05"}),
        ("complete there, pending here", ["05.deltacommit.inflight"], ["05_06.deltacommit"], set()),
        ("complete there, a plan here", ["05.compaction.requested"], ["05_06.deltacommit"], set()),
        ("archived here, or never here", ["05_07.deltacommit"], ["03_04.deltacommit"], {"03", "05"}),
        ("completed here, pending there", ["05_07.commit"], ["05.deltacommit.inflight"], {"05"}),
        ("any action here", ["05_07.clean", "08_09.rollback"], ["05_06.deltacommit"], {"05", "08"}),
        ("rollback and restore there", ["05_07.commit"], ["08_09.rollback", "10_11.restore"], {"05", "08", "10"}),
        ("compaction there", ["05_07.commit"], ["06_08.commit"], {"05"}),
        ("pending there", ["05_07.commit"], ["08.rollback.inflight", "09.deltacommit.requested"], {"05"}),
    ],
)
def test_which_instants_count(rule: str, data: list[str], metadata: list[str], valid: set[str]):
    """A block counts by the state of its instant on the two timelines."""
    assert numbers(valid_instants(formatted(*data), formatted(*metadata))) == valid, rule


def test_an_initial_build_counts_whatever_the_table_says():
    """Its instant is made of zeros, on every table."""
    build = "00000000000000001"
    pending = timeline(f"{build}.deltacommit.inflight")
    assert valid_instants(pending, timeline(f"{build}_{time('05')}.deltacommit")) == {build}


def test_a_plan_that_was_rolled_back_and_stays_counts_at_once(table: MetadataFiles):
    """Its instant is pending, and what its next attempt completes in the metadata table is read by Hudi right away."""
    table.data("01_02.deltacommit", "05.compaction.requested", "05.compaction.inflight")
    table.delta("05", "06", **LOG)
    assert "05" not in numbers(table.load().valid_instants)

    table.data_rollback("07_08.rollback", of="05")
    assert "05" in numbers(table.load().valid_instants)


def test_an_empty_rollback_says_by_its_plan_what_it_rolled_back(table: MetadataFiles):
    """Some releases left the completed file empty."""
    table.delta("05", "06", **LOG)
    instant = {"type": "record", "name": "I", "fields": [{"name": "commitTime", "type": "string"}]}
    plan = {"type": "record", "name": "P", "fields": [{"name": "instantToRollback", "type": instant}]}
    content = write_record(plan, {"instantToRollback": {"commitTime": time("05")}})
    table.data("01_02.deltacommit", "05.deltacommit.inflight")
    table.data("07.rollback.requested", content=content)
    table.data("07_08.rollback", content=b"")

    assert "05" in numbers(table.load().valid_instants)


def test_a_restore_is_many_rollbacks(table: MetadataFiles):
    """What each of them rolled back counts."""
    table.delta("05", "06", **LOG)
    texts = {"type": "array", "items": "string"}
    rollback = {"type": "record", "name": "B", "fields": [{"name": "commitsRollback", "type": texts}]}
    by_instant = {"type": "map", "values": {"type": "array", "items": rollback}}
    restore = {"type": "record", "name": "R", "fields": [{"name": "hoodieRestoreMetadata", "type": by_instant}]}
    content = {"hoodieRestoreMetadata": {time("05"): [{"commitsRollback": [time("05"), time("04")]}]}}
    table.data("01_02.deltacommit", "05.deltacommit.inflight")
    table.data("07_08.restore", content=write_record(restore, content))

    assert {"04", "05"} <= numbers(table.load().valid_instants)


def test_rollbacks_before_the_last_compaction_are_not_read(table: MetadataFiles):
    """What they rolled back is not in a log any more. Later ones must be readable."""
    table.data("04_05.rollback", content=b"no Avro")
    table.compaction("06", "07", **LOG)
    table.load()

    table.data("08_09.rollback", content=b"no Avro")
    with pytest.raises(BrokenFile, match="rollback"):
        table.load()


def test_slices_go_by_the_time_of_completion(table: MetadataFiles):
    """A delta commit that began before a compaction and completed after it lies on the new base file."""
    table.delta("01", "02", **LOG)
    table.delta("03", "07", **LOG)
    table.compaction("05", "06", **LOG)
    table.delta("04", "08", **LOG)

    (slice_,) = table.load().slices[FILES]
    assert slice_.base_file is not None and slice_.base_instant == time("05")
    assert [log.instant for log in slice_.log_files] == [time("03"), time("04")]


def test_under_a_pending_compaction_the_slices_are_one(table: MetadataFiles):
    """It has base file and logs from before the plan, then the logs from after it."""
    table.compaction("01", "02", **LOG)
    table.delta("03", "04", **LOG)
    table.plan("05")
    table.delta("06", "07", **LOG)

    (slice_,) = table.load().slices[FILES]
    assert slice_.base_file is not None and slice_.base_instant == time("01")
    assert [log.instant for log in slice_.log_files] == [time("03"), time("06")]


def test_what_is_pending_in_the_metadata_table_is_in_no_slice(table: MetadataFiles):
    """Writers may be at work on it, or have died over it."""
    table.delta("01", "02", **LOG)
    table.delta("03", **LOG)

    (slice_,) = table.load().slices[FILES]
    assert [log.instant for log in slice_.log_files] == [time("01")]


def test_slices_are_in_the_order_of_hashing(tmp_path: Path):
    """File ids are sorted as text, beyond nine groups too."""
    table = MetadataFiles(tmp_path, record_index=12)
    table.delta("01", "02", record_index={})

    ids = [slice_.file_id for slice_ in table.load().slices["record_index"]]
    assert ids == table.groups["record_index"]


def test_only_some_partitions_are_listed_when_only_they_matter(tmp_path: Path):
    """They must be named by the table's properties."""
    table = MetadataFiles(tmp_path, files=1, record_index=2)
    table.delta("01", "02", files=LOG[FILES])
    assert set(table.load(partitions=[FILES]).slices) == {FILES}

    with pytest.raises(BrokenFile, match="record_index"):
        table.load()
    with pytest.raises(Unsupported, match="column_stats"):
        table.load(partitions=["column_stats"])


def test_a_table_has_a_metadata_table_when_its_files_are_in_it():
    """A partition that is being built does not count, nor does a folder."""
    key = "hoodie.table.metadata.partitions"
    assert has_metadata_table(TableConfig({key: "column_stats, files"}))
    assert not has_metadata_table(TableConfig({f"{key}.inflight": "files", key: "column_stats"}))


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("hoodie.table.version", "11", "version 11"),
        ("hoodie.table.version", "6", "version 6"),
        ("hoodie.table.base.file.format", "PARQUET", "PARQUET"),
        ("hoodie.compaction.payload.class", "org.example.Payload", "merged by Payload"),
        ("hoodie.compaction.payload.class", "", "no payload class"),
    ],
)
def test_a_metadata_table_of_another_kind_is_refused(table: MetadataFiles, key: str, value: str, error: str):
    """What merges or writes records otherwise would be misread."""
    table.delta("01", "02", **LOG)
    table.change_metadata_property(key, value)

    with pytest.raises(Unsupported, match=error):
        table.load()


def test_a_table_of_another_version_is_refused(table: MetadataFiles):
    """Version 6 names the instants of its metadata table otherwise."""
    table.delta("01", "02", **LOG)
    with pytest.raises(Unsupported, match="version 6"):
        table.load(config=TableConfig({**table.config.properties, "hoodie.table.version": "6"}))


def test_a_metadata_table_that_is_gone_is_broken(table: MetadataFiles):
    """The properties say that it is there, and other readers would fail or fall back."""
    LocalStorage().delete_folder(str(table.metadata))
    with pytest.raises(BrokenFile, match="it is not"):
        table.load()


@pytest.mark.parametrize(
    "name",
    [
        ".files-0000-0_x.log.1_0-0-0",
        ".files.1-0000-0_20260101000001000.log.1_0-0-0",
        "files_1.hfile",
        "files.hfile.tmp",
    ],
)
def test_a_file_name_that_is_not_understood_is_refused(table: MetadataFiles, name: str):
    """Its records may be what a caller asks for."""
    table.delta("01", "02", **LOG)
    (table.metadata / FILES / name).write_bytes(b"x")

    with pytest.raises(Unsupported, match="not understood"):
        table.load()


@pytest.mark.parametrize("end", ["01.log.hfile", "1.cdc.hfile", "1.log.hfile"])
def test_which_native_names_are_understood(tmp_path: Path, table: MetadataFiles, end: str):
    """Native logs are of version 10; no metadata table has logs of changes, nor names that are not Hudi's."""
    of_version_10 = MetadataFiles(tmp_path / "10", native=lambda: True)
    for each in (table, of_version_10):
        each.delta("01", "02", **LOG)
        (each.metadata / FILES / f"files-0000-0_0-0-0_{time('03')}_{end}").write_bytes(b"x")
        if each is table or end != "1.log.hfile":
            with pytest.raises(Unsupported, match="not understood"):
                each.load()
        else:
            each.load()


def test_what_file_systems_leave_behind_is_no_file_of_it(table: MetadataFiles):
    """Hadoop's checksums are none, nor is the metadata of the partition."""
    table.delta("01", "02", **LOG)
    (table.metadata / FILES / ".hoodie_partition_metadata").write_bytes(b"x")
    (table.metadata / FILES / f"..files-0000-0_{time('01')}.log.1_0-1-0.crc").write_bytes(b"x")

    assert len(table.load().slices[FILES]) == 1


def test_an_action_that_is_not_known_is_refused(table: MetadataFiles):
    """It may have changed what the files mean."""
    table.delta("01", "02", **LOG)
    table.commit("03", "somethingnew", "04")

    with pytest.raises(Unsupported, match="somethingnew"):
        table.load()


def test_log_compaction_is_refused_until_a_compaction_followed(table: MetadataFiles):
    """Its output stands for other blocks of the slice; the next compaction leaves neither."""
    table.delta("01", "02", **LOG)
    table.compact_logs("03", "04")
    with pytest.raises(Unsupported, match="compacted among themselves"):
        table.load()

    table.compaction("05", "06", **LOG)
    table.load()


def test_a_plan_for_log_compaction_is_no_matter(table: MetadataFiles):
    """It opens no slice."""
    table.delta("01", "02", **LOG)
    table.compact_logs("03", None)
    table.delta("05", "06", **LOG)

    (slice_,) = table.load().slices[FILES]
    assert len(slice_.log_files) == 2


def test_a_broken_plan_is_an_error(table: MetadataFiles):
    """The slices that it opened are unknown."""
    table.delta("01", "02", **LOG)
    table.metadata_instant("03.compaction.requested", b"")
    with pytest.raises(BrokenFile, match="compaction"):
        table.load()
    table.metadata_instant("03.compaction.requested", b"no Avro")
    with pytest.raises(BrokenFile, match="compaction"):
        table.load()


def test_two_base_files_of_one_slice_are_an_error(table: MetadataFiles):
    """One of them is of an attempt that failed, and nothing says which."""
    table.compaction("01", "02", **LOG)
    table.base_file(FILES, "files-0000-0", "01", {})

    with pytest.raises(BrokenFile, match="two base files"):
        table.load()


def test_a_log_that_completed_at_an_unknown_time_is_an_error(table: MetadataFiles):
    """Its slice would be a guess."""
    table.log(FILES, "files-0000-0", "01", LOG[FILES])
    table.delta("05", "06", **LOG)

    with pytest.raises(BrokenFile, match="neither timeline"):
        table.load()


def test_a_partition_outside_of_the_metadata_table_is_not_opened(table: MetadataFiles):
    """The property is text that anybody may have written."""
    config = TableConfig({**table.config.properties, "hoodie.table.metadata.partitions": "files,../../x"})
    with pytest.raises(UntrustedName):
        table.load(config=config)


def test_partitions_are_listed(table: MetadataFiles):
    """That is what an initial build leaves of an empty table, too: a file group without records."""
    table.delta("01", "02", files={"__all_partitions__": all_partitions()})
    assert set(table.load().slices) == {FILES}
