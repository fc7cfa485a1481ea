"""Two records of one key become one."""

from __future__ import annotations

import itertools
import os
import random
from decimal import Decimal
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.metadata.merge import merge_records
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
    SecondaryIndexRecord,
    StatsRecord,
)
from lakeward.format.stats.stats_value import StatsValue, ValueKind, ValueType, Wrapper

SEED = int(os.environ.get("LAKEWARD_SEED", random.SystemRandom().randrange(2**32)))
GONE = FileEntry(0, is_deleted=True)
TEXT, LONG = ValueType(ValueKind.STRING), ValueType(ValueKind.LONG)


def merge(older: MetadataRecord, newer: MetadataRecord) -> Any:
    return merge_records(older, newer, where="files")


def files(**sizes: int) -> FilesRecord:
    """A file of 0 bytes is deleted."""
    return FilesRecord({name: FileEntry(size) if size else GONE for name, size in sizes.items()})


@pytest.mark.parametrize(
    ("older", "newer", "merged"),
    [
        (files(a=1), files(b=2), files(a=1, b=2)),
        (files(a=1), files(a=3), files(a=3)),
        (files(a=3), files(a=1), files(a=3)),
        (files(a=3, b=1), files(a=0), files(b=1)),
        (files(b=1), files(a=0), files(b=1, a=0)),
        (files(a=0), files(a=0), files(a=0)),
        (files(a=0), files(a=5), files(a=5)),
        (files(), files(), files()),
    ],
)
def test_files_are_united(older: FilesRecord, newer: FilesRecord, merged: FilesRecord):
    """The larger size stands; a deletion takes the file away, or waits for a base file that has it."""
    assert merge(older, newer) == merged


def test_partitions_are_united_too():
    """Whose sizes are all 0."""
    one = FilesRecord({"p": FileEntry(0)}, is_all_partitions=True)
    two = FilesRecord({"q": FileEntry(0), "r": GONE}, is_all_partitions=True)

    assert merge(one, two) == FilesRecord({**one.entries, **two.entries}, is_all_partitions=True)
    assert merge(merge(one, two), FilesRecord({"p": GONE}, is_all_partitions=True)).entries.keys() == {"q", "r"}


def test_a_file_without_bytes_is_broken():
    """Hudi refuses it where it merges, too."""
    with pytest.raises(BrokenFile, match="'a' with 0 bytes"):
        merge(files(), FilesRecord({"a": FileEntry(0)}))


def test_grouping_does_not_change_which_files_exist():
    """Logs may be merged with each other before they are merged with the base file, where no file is listed twice."""
    print(f"LAKEWARD_SEED={SEED}")
    chance = random.Random(SEED)
    for _ in range(300):
        records: list[dict[str, int]] = [{}, {}, {}, {}]
        for name in "abcdef":
            born, *deleted = sorted(chance.sample(range(6), chance.randint(1, 3)))
            for at, size in ((born, 5), *((each, 0) for each in deleted)):
                if at < len(records):
                    records[at][name] = size
        first, *logs = (files(**record) for record in records)
        folded = merge(merge(merge(first, logs[0]), logs[1]), logs[2])
        logs_first = merge(first, merge(merge(logs[0], logs[1]), logs[2]))
        assert existing(folded) == existing(logs_first), f"LAKEWARD_SEED={SEED}"


def test_a_file_that_is_listed_twice_is_gone_when_it_is_deleted():
    """It is if records are folded from the oldest on. The other way round it comes back, as in Hudi."""
    records = files(a=5), files(a=7), files(a=0)

    assert merge(merge(records[0], records[1]), records[2]) == files()
    assert merge(records[0], merge(records[1], records[2])) == files(a=5)


def existing(record: FilesRecord) -> set[str]:
    return {name for name, entry in record.entries.items() if not entry.is_deleted}


def stats(low: StatsValue | None, high: StatsValue | None, kind: type = ColumnStatsRecord, **more: Any) -> Any:
    given: dict[str, Any] = {
        "file_name": "f",
        "column": "c",
        "value_count": 10,
        "null_count": 1,
        "total_size": 100,
        "total_uncompressed_size": 200,
    }
    return kind(min_value=low, max_value=high, **given | more)


@pytest.mark.parametrize("kind", [ColumnStatsRecord, PartitionStatsRecord])
def test_tight_and_deleted_statistics_replace(kind: type[StatsRecord]):
    """What the older one says does not matter then."""
    loose = stats(1, 2, kind, value_type=LONG)
    for newer in (
        stats(5, 6, kind, value_type=LONG, is_tight=True),
        stats(None, None, kind, value_type=ValueType(ValueKind.NULL), is_deleted=True),
    ):
        assert merge(loose, newer) == newer
    deleted = stats(None, None, kind, is_deleted=True)
    assert merge(deleted, loose) == loose


def test_loose_statistics_are_united():
    """The range over both, the sums of the counts; the name of the newer one."""
    merged = merge(
        stats("a", "f", value_type=TEXT, file_name="old", is_tight=True), stats("c", "z", value_type=TEXT, null_count=4)
    )

    assert merged == stats(
        "a", "z", value_type=TEXT, value_count=20, null_count=5, total_size=200, total_uncompressed_size=400
    )
    assert (
        merge(stats(1, 2, wrapper=Wrapper.LONG, null_count=None), stats(0, 1, wrapper=Wrapper.LONG)).null_count is None
    )


@pytest.mark.parametrize(
    ("one", "other", "smaller", "how"),
    [
        ("！", "😀", "😀", {"value_type": TEXT}),
        (b"\x01", b"\xff", b"\xff", {"wrapper": Wrapper.BYTES}),
        (0.0, -0.0, -0.0, {"wrapper": Wrapper.DOUBLE}),
        (Decimal("9"), Decimal("10.5"), Decimal("9"), {"value_type": ValueType(ValueKind.DECIMAL, 5, 1)}),
        ("7" + "0" * 7 + "-0000-0000-0000-000000000000", "8" + "0" * 7 + "-0000-0000-0000-000000000000", None, {}),
    ],
)
def test_values_are_compared_as_hudi_compares_them(one: Any, other: Any, smaller: Any, how: dict[str, Any]):
    """Whichever is the newer."""
    if smaller is None:
        smaller, how = other, {"value_type": ValueType(ValueKind.UUID)}
    larger = one if smaller is other else other
    for first, second in itertools.permutations((one, other)):
        merged = merge(stats(first, first, **how), stats(second, second, **how))
        assert (str(merged.min_value), str(merged.max_value)) == (str(smaller), str(larger))


def test_a_file_of_nulls_has_no_type_to_disagree():
    """Its statistics take the other's type."""
    nulls = stats(None, None, value_type=ValueType(ValueKind.NULL))
    values = stats(1, 2, value_type=LONG)

    for merged in (merge(nulls, values), merge(values, nulls)):
        assert (merged.min_value, merged.max_value, merged.value_type) == (1, 2, LONG)
    assert merge(nulls, nulls).value_type == ValueType(ValueKind.NULL)


@pytest.mark.parametrize(
    "other", [{"value_type": TEXT}, {"wrapper": Wrapper.LONG}, {"value_type": ValueType(ValueKind.INT)}]
)
def test_different_types_are_not_merged(other: dict[str, Any]):
    """Hudi does not merge them either."""
    with pytest.raises(Unsupported, match="different types"):
        merge(stats(1, 2, value_type=LONG), stats("a" if "value_type" in other else 1, None, **other))


def test_the_newer_one_of_the_rest():
    """A deletion in a secondary index leaves nothing."""
    bloom = [BloomFilterRecord(type_code="t", timestamp=str(n), bloom_filter=b"") for n in range(2)]
    place = [RecordIndexRecord(partition="p", file_id=str(n), instant_millis=n) for n in range(2)]

    assert merge(*bloom) == bloom[1]
    assert merge(*place) == place[1]
    assert merge(SecondaryIndexRecord(is_deleted=True), SecondaryIndexRecord()) == SecondaryIndexRecord()
    assert merge(SecondaryIndexRecord(), SecondaryIndexRecord(is_deleted=True)) is None


def test_different_kinds_under_one_key_are_broken():
    """So are different columns under one key."""
    for one, other in itertools.permutations(
        (files(), FilesRecord({}, is_all_partitions=True), stats(1, 2), stats(1, 2, PartitionStatsRecord)), 2
    ):
        with pytest.raises(BrokenFile, match="different types"):
            merge(one, other)
    with pytest.raises(BrokenFile, match="'b'"):
        merge(stats(1, 2), stats(1, 2, column="b"))
