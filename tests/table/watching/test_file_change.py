"""When metadata says for certain which files changed, and when only a listing can. See also test_incremental_view."""

from __future__ import annotations

from dataclasses import replace

from lakeward.format.file_name import parse_base_file, parse_log_file
from lakeward.format.timeline.clean_metadata import CleanedPartition, CleanMetadata
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakeward.table.timeline.cleans import UNDOES
from lakeward.table.watching.file_change import FileChange, change_by_clean, change_by_commit, change_by_replacement

INSTANT = "20260101000000000"


def stat(name: str, partition: str = "p", size: int | None = 10) -> WriteStat:
    return WriteStat(path=f"{partition}/{name}", file_size_in_bytes=size, num_writes=3)


def commit(*stats: WriteStat, operation: str | None = "UPSERT") -> CommitMetadata:
    return CommitMetadata({"p": stats}, operation_type=operation)


def test_files_of_a_commit() -> None:
    """There are base files and logs, with sizes and rows, of every operation of rows and of services."""
    stats = (stat(f"a-0_0-0-0_{INSTANT}.parquet"), stat(f".a-0_{INSTANT}.log.1_0-0-0"))
    for operation in ("UPSERT", "DELETE_PREPPED", "BULK_INSERT", "COMPACT", "LOG_COMPACT"):
        change = change_by_commit(INSTANT, commit(*stats, operation=operation), layout=2)
        assert change is not None and not change.doubtful
        assert [(added.partition_path, added.file.size, added.rows) for added in change.added] == [("p", 10, 3)] * 2


def test_native_logs_of_a_commit() -> None:
    """They are files like others where the table's version has them, and a doubt elsewhere; so they are to a clean."""
    names = tuple(f"a-0_0-0-0_{INSTANT}_1.{kind}.parquet" for kind in ("log", "deletes"))
    change = change_by_commit(INSTANT, commit(*map(stat, names)), layout=2, native=True)
    assert change is not None and not change.doubtful
    assert [added.file.file_name for added in change.added] == list(names)
    assert change_by_commit(INSTANT, commit(*map(stat, names)), layout=2) == FileChange(doubtful=frozenset({"p"}))
    cleaned = CleanMetadata(2, {"p": CleanedPartition(deleted=names)})
    by_clean = change_by_clean(cleaned, native=True)
    assert by_clean is not None and [name.text for name in by_clean.removed["p"]] == list(names)
    assert change_by_clean(cleaned) == FileChange(doubtful=frozenset({"p"}))


def test_layout_1_is_listed() -> None:
    """There logs grow, and carry the instant of their slice."""
    change = change_by_commit(INSTANT, commit(stat(f"a-0_0-0-0_{INSTANT}.parquet")), layout=1)
    assert change == FileChange(doubtful=frozenset({"p"}))


def test_a_file_named_twice_is_a_doubt() -> None:
    """Two sizes leave open which is the last."""
    name = f"a-0_0-0-0_{INSTANT}.parquet"
    change = change_by_commit(INSTANT, commit(stat(name, size=10), stat(name, size=11)), layout=2)
    assert change == FileChange(doubtful=frozenset({"p"}))


def test_one_doubtful_file_makes_its_partition_doubtful() -> None:
    """Only its partition is."""
    metadata = CommitMetadata(
        {
            "p": (stat(f"a-0_0-0-0_{INSTANT}.parquet"), stat(f"b-0_0-0-0_{INSTANT}.parquet", size=None)),
            "q": (stat(f"c-0_0-0-0_{INSTANT}.parquet", "q"),),
        },
        operation_type="INSERT",
    )
    change = change_by_commit(INSTANT, metadata, layout=2)
    assert change is not None
    assert [added.partition_path for added in change.added] == ["q"] and change.doubtful == {"p"}


def test_what_is_unknown() -> None:
    """An operation without a name that we know, and a commit that replaces groups without being a replacecommit."""
    assert change_by_commit(INSTANT, commit(operation=None), layout=2) is None
    assert change_by_commit(INSTANT, commit(operation="BOOTSTRAP"), layout=2) is None
    odd = CommitMetadata({}, operation_type="UPSERT", partition_to_replace_file_ids={"p": ("a-0",)})
    assert change_by_commit(INSTANT, odd, layout=2) is None


def test_a_replacement_concerns_the_partitions_it_names() -> None:
    """It wrote to some, and replaced groups of others."""
    metadata = CommitMetadata({"p": ()}, partition_to_replace_file_ids={"q": ("a-0",)})
    assert change_by_replacement(metadata).doubtful == {"p", "q"}


def test_a_clean() -> None:
    """Names are taken where all went well; a name that is none, a failure, or paths instead of names leave a doubt."""
    base, log = "a-0_0-0-0_20250101000000000.parquet", ".a-0_20250101000000000.log.1_0-0-0"
    parts = {
        "p": CleanedPartition(deleted=(base, log)),
        "q": CleanedPartition(deleted=(base,), failed=(log,)),
        "r": CleanedPartition(deleted=(f"r/{base}",)),
    }
    change = change_by_clean(CleanMetadata(2, parts))
    assert change == FileChange(
        removed={"p": (parse_base_file(base), parse_log_file(log))},  # type: ignore[dict-item]
        doubtful=frozenset({"q", "r"}),
    )
    old = change_by_clean(CleanMetadata(1, parts))
    assert old is not None and old.doubtful == {"p", "q", "r"}
    assert change_by_clean(CleanMetadata(2, {"p": CleanedPartition(is_partition_deleted=True)})) is None
    assert change_by_clean(CleanMetadata(2, {}, extra_metadata={UNDOES: "1"})) is None, "what came back it does not say"


def test_what_writers_wrote() -> None:
    """The bytes are those of the writers' own stats; what a table service wrote is not a writer's."""
    stats = [replace(stat(f"{name}-0_0-0-0_{INSTANT}.parquet"), total_write_bytes=40) for name in "ab"]
    for operation, written in (("UPSERT", 80), ("COMPACT", 0), ("LOG_COMPACT", 0)):
        change = change_by_commit(INSTANT, commit(*stats, operation=operation), layout=2)
        assert change is not None and change.writer_bytes == written
    assert change_by_replacement(commit(*stats, operation="INSERT_OVERWRITE")).writer_bytes == 80
    assert change_by_replacement(commit(*stats, operation="CLUSTER")).writer_bytes == 0
