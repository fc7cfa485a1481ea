"""Commit metadata, against what Hudi itself wrote."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.container import read_record
from lakeward.format.timeline import commit_metadata
from lakeward.format.timeline.commit_metadata import (
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    read_commit_metadata,
    read_without_stats,
    read_written_files,
    write_commit_metadata,
    write_replace_metadata,
)
from tests.format.avro.avro_files import avro_schema, semantics

GOLDEN = Path(__file__).parents[2] / "golden"
V9_COMMITS = sorted((GOLDEN / "v9/table/.hoodie/timeline").glob("*_*commit"))
V6_COMMITS = sorted(
    [*(GOLDEN / "v6/table/.hoodie").glob("*.commit"), *(GOLDEN / "v6/table/.hoodie").glob("*.deltacommit")]
)
COMPACTION = GOLDEN / "timeline/20261121072035248_20261121072036926.commit"
CLUSTERING = GOLDEN / "timeline/20261121072052461_20261121072053084.replacecommit"
OVERWRITE_V6 = GOLDEN / "timeline/20261121072043347.replacecommit"

T = "20261121043703223"
FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"

longs = st.none() | st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=10)
plain = st.text("abc=% ü1-", min_size=1, max_size=8)
FIELD_STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "str | None": st.none() | texts,
    "int | None": longs,
    "tuple[str, ...] | None": st.none() | st.lists(texts, max_size=3).map(tuple),
    "Mapping[str, int] | None": st.none() | st.dictionaries(texts, st.integers(0, 2**60), max_size=3),
    "RuntimeStats | None": st.none() | st.builds(RuntimeStats, longs, longs, longs),
}
stats = st.builds(
    WriteStat,
    **{field.name: FIELD_STRATEGIES[str(field.type)] for field in dataclasses.fields(WriteStat)}
    | {
        "file_id": st.none() | plain,
        "path": st.none() | plain,
        "partition_path": st.none() | plain,
        "log_version": st.none() | st.integers(0, 2**31 - 1),
    },
)
commits = st.builds(
    CommitMetadata,
    st.dictionaries(st.just("") | plain, st.lists(stats, max_size=3).map(tuple), max_size=3),
    st.none() | st.booleans(),
    st.dictionaries(texts, texts, max_size=3),
    st.none() | texts,
)


def raw(path: Path) -> dict[str, Any]:
    return read_record(path.read_bytes(), file=path.name)


def test_schema_is_hudis() -> None:
    """Field for field, with names, defaults and the order of unions, the schema is the one that Hudi writes."""
    own = avro_schema(write_commit_metadata(CommitMetadata()))

    assert len(V9_COMMITS) == 4
    for path in (*V9_COMMITS, COMPACTION):
        assert semantics(own) == semantics(avro_schema(path.read_bytes()))


@pytest.mark.parametrize("path", [*V9_COMMITS, COMPACTION], ids=lambda path: path.name)
def test_hudis_commits_survive_being_read_and_written(path: Path) -> None:
    """Decoded without our model, what we write of a Hudi commit equals what Hudi wrote."""
    metadata = read_commit_metadata(path.read_bytes(), file=path.name, layout=2)

    assert read_record(write_commit_metadata(metadata), file="own") == raw(path)


@given(commits)
def test_every_value_survives_being_written(metadata: CommitMetadata) -> None:
    """What is written is read back."""
    assert read_commit_metadata(write_commit_metadata(metadata), file="x", layout=2) == metadata


@given(commits)
def test_kernels_read_the_same(metadata: CommitMetadata) -> None:
    """Keeps 4: the files of some partitions, too."""
    check_by_kernels(write_commit_metadata(metadata))


@pytest.mark.parametrize("path", [*V9_COMMITS, COMPACTION, CLUSTERING], ids=lambda path: path.name)
def test_kernels_read_what_hudi_wrote(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else takes the record apart then."""
    slow = check_by_kernels(path.read_bytes())
    monkeypatch.setattr(commit_metadata, "_read_fields", None)
    assert read_by_kernels(path.read_bytes()) == slow


def check_by_kernels(data: bytes) -> tuple[object, ...]:
    slow = read_by_kernels(data, by_kernels=False)
    assert read_by_kernels(data) == slow
    whole = read_commit_metadata(data, file="x", layout=2)
    assert slow[0] == dataclasses.replace(whole, partition_to_write_stats={})
    return slow


def read_by_kernels(data: bytes, *, by_kernels: bool = True) -> tuple[object, ...]:
    files = read_written_files(data, file="x", layout=2, by_kernels=by_kernels)
    some = read_written_files(data, file="x", layout=2, by_kernels=by_kernels, partitions=[*files][:1])
    assert some == dict([*files.items()][:1])
    return read_without_stats(data, file="x", layout=2, by_kernels=by_kernels), files


@pytest.mark.parametrize("cut", [1, 17, 200])
def test_what_kernels_cannot_read_has_the_same_error(cut: int) -> None:
    data = COMPACTION.read_bytes()[:-cut]
    with pytest.raises(BrokenFile) as slow:
        read_written_files(data, file="x", layout=2)
    with pytest.raises(BrokenFile) as fast:
        read_written_files(data, file="x", layout=2, by_kernels=True)
    assert str(fast.value) == str(slow.value)


def test_names_by_kernels_are_refused_too() -> None:
    out = CommitMetadata({"p": (WriteStat(path="p/../../x", file_size_in_bytes=1),)})
    with pytest.raises(UntrustedName):
        read_written_files(write_commit_metadata(out), file="x", layout=2, by_kernels=True)
    for names in (WriteStat(path="p/x", file_id="a/b"), WriteStat(path="p/x", partition_path="../p")):
        for by_kernels in (False, True):
            with pytest.raises(UntrustedName):
                data = write_commit_metadata(CommitMetadata({"p": (names,)}))
                read_without_stats(data, file="x", layout=2, by_kernels=by_kernels)


def test_fields_of_a_compaction_have_hudis_meaning() -> None:
    """Names in snake case carry the values of Hudi's fields."""
    metadata = read_commit_metadata(COMPACTION.read_bytes(), file=COMPACTION.name, layout=2)
    stat = metadata.partition_to_write_stats["part=a b%2Fü"][0]

    assert metadata.compacted is True
    assert metadata.operation_type == "COMPACT"
    assert metadata.schema is not None and json.loads(metadata.schema)["type"] == "record"
    assert stat.path == "part=a b%2Fü/c4fec972-d7a4-4ce6-9f91-3334619e454b-0_0-25-52_20261121072035248.parquet"
    assert stat.prev_base_file == "c4fec972-d7a4-4ce6-9f91-3334619e454b-0_1-3-7_20261121072027821.parquet"
    assert (stat.prev_commit, stat.num_writes, stat.total_updated_records_compacted) == ("20261121072027821", 4, 2)
    assert stat.runtime_stats == RuntimeStats(total_scan_time=137, total_create_time=0, total_upsert_time=597)


@pytest.mark.parametrize("path", V6_COMMITS, ids=lambda path: path.name)
def test_json_commits_are_read(path: Path) -> None:
    """Layout 1 says the same in JSON, with fields that Avro does not have, which are ignored."""
    metadata = read_commit_metadata(path.read_bytes(), file=path.name, layout=1)
    [stat] = metadata.partition_to_write_stats["p"]
    expected = json.loads(path.read_text())["partitionToWriteStats"]["p"][0]

    assert len(V6_COMMITS) == 4
    assert (stat.file_id, stat.path, stat.num_writes) == (expected["fileId"], expected["path"], expected["numWrites"])
    assert stat.log_files == (tuple(expected["logFiles"]) if "logFiles" in expected else None)
    assert stat.runtime_stats == RuntimeStats(
        expected["runtimeStats"]["totalScanTime"],
        expected["runtimeStats"]["totalCreateTime"],
        expected["runtimeStats"]["totalUpsertTime"],
    )
    assert metadata.schema is not None and "golden_record" in metadata.schema


def test_json_is_read_in_layout_2_too() -> None:
    """Early releases left JSON in timelines that they upgraded."""
    data = V6_COMMITS[0].read_bytes()
    assert read_commit_metadata(data, file="x", layout=2) == read_commit_metadata(data, file="x", layout=1)


@pytest.mark.parametrize(
    ("path", "layout", "replaced"),
    [
        (OVERWRITE_V6, 1, {"part=q": {"72c3d4aa-c68d-4436-9740-78b34e4e0f93-0"}}),
        (
            CLUSTERING,
            2,
            {
                "2024/01": {"3c25db13-7685-4118-aa74-20343e013d45-0", "07cf0f1c-8851-458d-a4c0-7cf895e0d261-0"},
                "2024/02": {"4b64a59b-5222-4714-882f-87684788ebdd-0"},
            },
        ),
    ],
)
def test_replaced_file_groups_are_read(path: Path, layout: int, replaced: dict[str, set[str]]) -> None:
    """A completed replacecommit says, in both forms, which file groups are gone."""
    metadata = read_commit_metadata(path.read_bytes(), file=path.name, layout=layout)

    found = {partition: set(file_ids) for partition, file_ids in metadata.partition_to_replace_file_ids.items()}
    assert found == replaced
    assert metadata.partition_to_write_stats.keys() == replaced.keys()


def test_replacecommit_is_not_written_as_a_commit() -> None:
    """Its replaced file groups would silently be lost."""
    with pytest.raises(AssertionError):
        write_commit_metadata(CommitMetadata(partition_to_replace_file_ids={"p": (FILE_ID,)}))


def test_unknown_fields_are_ignored() -> None:
    """A newer writer may say more than we know."""
    data = {"partitionToWriteStats": {"p": [{"fileId": FILE_ID, "path": "p/x", "colour": "red"}]}, "mood": [1, 2]}
    metadata = read_commit_metadata(json.dumps(data).encode(), file="x", layout=1)

    assert metadata == CommitMetadata({"p": (WriteStat(file_id=FILE_ID, path="p/x"),)})


def test_empty_record_is_an_empty_commit() -> None:
    """Every field may be absent."""
    assert read_commit_metadata(b"{}", file="x", layout=1) == CommitMetadata()


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("data", [b"", b"{", b'{"compacted": tru', b"[]", b"null", b"Obj\x01", b"\x00" * 100])
def test_torn_commits_are_refused_by_name(layout: int, data: bytes) -> None:
    """What is neither complete JSON nor a complete container is broken."""
    with pytest.raises(BrokenFile, match=r"t\.commit"):
        read_commit_metadata(data, file="t.commit", layout=layout)


@pytest.mark.parametrize(
    "data",
    [
        {"partitionToWriteStats": {"../other": []}},
        {"partitionToWriteStats": {"/etc": []}},
        {"partitionToWriteStats": {".hoodie": []}},
        {"partitionToWriteStats": {"p": [{"path": "../../etc/passwd"}]}},
        {"partitionToWriteStats": {"p": [{"path": "/etc/passwd"}]}},
        {"partitionToWriteStats": {"p": [{"path": "p\\..\\x"}]}},
        {"partitionToWriteStats": {"p": [{"partitionPath": ".."}]}},
        {"partitionToWriteStats": {"p": [{"fileId": "../x"}]}},
        {"partitionToReplaceFileIds": {"..": ["x"]}},
        {"partitionToReplaceFileIds": {"p": ["a/b"]}},
        {"partitionToReplaceFileIds": {"p": [""]}},
    ],
)
def test_names_that_lead_out_of_the_table_are_refused(data: dict[str, Any]) -> None:
    """Metadata is not trusted with paths."""
    with pytest.raises(UntrustedName):
        read_commit_metadata(json.dumps(data).encode(), file="x", layout=1)


def test_version_is_left_empty_as_in_java() -> None:
    """Hudi's own writers leave the version of commit metadata null."""
    written = read_record(write_commit_metadata(CommitMetadata()), file="x")
    assert written["version"] is None
    assert [raw(path)["version"] for path in V9_COMMITS] == [None] * 4


def test_a_replacement_is_written_as_hudi_writes_one() -> None:
    """Each field of its record, in its order; and it reads back."""
    hudis = CLUSTERING.read_bytes()
    metadata = read_commit_metadata(hudis, file=CLUSTERING.name, layout=2)
    own = write_replace_metadata(metadata)
    assert read_commit_metadata(own, file="own", layout=2) == metadata
    assert read_record(own, file="own") == read_record(hudis, file=CLUSTERING.name)
    names = [[field["name"] for field in avro_schema(data)["fields"]] for data in (own, hudis)]
    assert names[0] == names[1]
