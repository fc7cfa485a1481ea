"""The table of `write/placement`, a line of it for each case: targets are shown as `<kind> <group>: <share> …`."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lakeward.base.errors import Refused, TryLater, UsageError
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakeward.format.timeline.instant import Instant, State
from lakeward.index.index_type import IndexType
from lakeward.index.simple_bucket import bucket_of
from lakeward.table.file_group import FrozenGroup
from lakeward.write.placement import average_row_bytes, place
from lakeward.write.request import FileSizes, WriteOperation, WriteRequest
from lakeward.write.target import Workload
from tests.synthetic_table import file_group, minute, snapshot_of

SIZES = FileSizes(small_file=100, max_file=120)
COW = {"hoodie.table.type": "COPY_ON_WRITE"}


def group(file_id, size=200, *, logs=0, partition="p"):
    return file_group(partition, file_id, base=(minute(1), size), logs=[(minute(2 + n), 10) for n in range(logs)])


def table(*groups, cow=False, **fields):
    return snapshot_of(groups, [], properties=COW if cow else None, **fields)


def placed(snapshot, rows, operation=WriteOperation.UPSERT, *, buckets=None, index=None, into_logs=False, **request):
    """Places of partition `p` with their rows, and what happened to them as text. Uuids are numbered from 0."""
    numbers = count()
    kind = index or (IndexType.BUCKET if buckets else IndexType.SIMPLE)
    return place(
        snapshot,
        Workload({(at if isinstance(at, tuple) else ("p", at)): n for at, n in rows.items()}),
        WriteRequest(operation, index=kind, buckets=buckets, **{"sizes": SIZES, **request}),
        instant=minute(9),
        schema="{}",
        row_bytes=10,
        new_uuid=lambda: f"{next(numbers):08x}-uuid",
        into_logs=into_logs,
    )


def shown(assignment):
    """Each target with the places that it has rows of, then the places that go nowhere."""
    lines = []
    for target in assignment.targets:
        shares = [
            f"{share.rows} of {at or 'new'}"
            for (_, at), of in assignment.places.items()
            for share in of
            if share.target == target.index
        ]
        lines.append(f"{target.kind} {target.file_id}: {', '.join(shares)}")
    return lines + [f"nowhere: {at or 'new'}" for (_, at), of in assignment.places.items() if not of]


UPSERT, INSERT, DELETE = WriteOperation.UPSERT, WriteOperation.INSERT, WriteOperation.DELETE
BULK = WriteOperation.BULK_INSERT
A, B, C = (f"{letter}-0" for letter in "abc")
BUCKET_0, BUCKET_1 = "00000000-x-0", "00000001-x-0"

CASES = {
    "new keys, no file": ([], {None: 5}, UPSERT, False, ["create 00000000-uuid-0: 5 of new"]),
    "new keys, more than a file": (
        [],
        {None: 25},
        UPSERT,
        False,
        [f"create 0000000{n}-uuid-0: {rows} of new" for n, rows in enumerate((12, 12, 1))],
    ),
    "a small file takes what fits": (
        [group(A, 90)],
        {None: 5},
        UPSERT,
        False,
        [f"merge {A}: 3 of new", "create 00000000-uuid-0: 2 of new"],
    ),
    "on merge on read the smallest without logs, alone": (
        [group(A, 70), group(B, 60), group(C, 10, logs=1)],
        {None: 9},
        UPSERT,
        False,
        [f"merge {B}: 6 of new", "create 00000000-uuid-0: 3 of new"],
    ),
    "on copy on write all of them, in order": (
        [group(A, 70), group(B, 60), group(C, 100)],
        {None: 9},
        UPSERT,
        True,
        [f"merge {A}: 5 of new", f"merge {B}: 4 of new"],
    ),
    "known keys to the log": (
        [group(A), group(B, logs=2)],
        {A: 1, B: 2},
        UPSERT,
        False,
        ["append a-0: 1 of a-0", "append b-0: 2 of b-0"],
    ),
    "known keys, copy on write": ([group(A)], {A: 1}, UPSERT, True, ["merge a-0: 1 of a-0"]),
    "known and new keys in one group": (
        [group(A, 50), group(B)],
        {A: 2, B: 1, None: 3},
        UPSERT,
        False,
        ["merge a-0: 2 of a-0, 3 of new", "append b-0: 1 of b-0"],
    ),
    "deletes": ([group(A, 50)], {A: 2, None: 3}, DELETE, False, ["append a-0: 2 of a-0", "nowhere: new"]),
    "deletes, copy on write": ([group(A, 50)], {A: 2, None: 3}, DELETE, True, ["merge a-0: 2 of a-0", "nowhere: new"]),
    "inserts fill small files": ([group(A, 50)], {None: 3}, INSERT, False, ["merge a-0: 3 of new"]),
    "bulk inserts do not": ([group(A, 50)], {None: 3}, BULK, False, ["create 00000000-uuid-0: 3 of new"]),
}


@pytest.mark.parametrize("case", CASES)
def test_by_size(case):
    """Rows of a table without buckets go where Hudi's partitioner takes them."""
    groups, rows, operation, cow, expected = CASES[case]

    assert shown(placed(table(*groups, cow=cow), rows, operation)) == expected


INTO_LOGS: dict[str, tuple[list[Any], dict[Any, int], dict[str, Any], list[str]]] = {
    "the smallest, by its logs, too, first": (
        [group(A, 40, logs=2), group(B, 46)],  # logs of 20 bytes are 7 of a base file
        {None: 9},
        {},
        [f"append {A}: 2 of new", f"append {B}: 7 of new"],
    ),
    "no more new files than the rest needs": (
        [group(A, 90, logs=1), group(B, 90)],
        {None: 16},
        {},
        [f"append {A}: 2 of new", f"append {B}: 3 of new", "create 00000000-uuid-0: 11 of new"],
    ),
    "known keys come along": ([group(A, 50, logs=1)], {A: 2, None: 3}, {}, ["append a-0: 2 of a-0, 3 of new"]),
    "logs count among the bytes": ([group(A, 97, logs=1)], {None: 1}, {}, ["create 00000000-uuid-0: 1 of new"]),
    "a group of logs alone takes none": (
        [file_group("p", A, base=None, logs=[(minute(2), 10)])],
        {None: 1},
        {},
        ["create 00000000-uuid-0: 1 of new"],
    ),
    "what looks for no key": ([group(A, 50)], {None: 3}, {"operation": INSERT}, ["merge a-0: 3 of new"]),
    "an index of base files": ([group(A, 50)], {None: 3}, {"index": IndexType.SIMPLE}, ["merge a-0: 3 of new"]),
    "copy on write": ([group(A, 50)], {None: 3}, {"cow": True}, ["merge a-0: 3 of new"]),
    "small files are off": ([group(A, 1)], {None: 3}, {"sizes": 0}, ["create 00000000-uuid-0: 3 of new"]),
}


@pytest.mark.parametrize("case", INTO_LOGS)
def test_new_keys_into_logs(case):
    """An operator lets them; 1 and 3 of `write/placement` hold here, too."""
    groups, rows, said, expected = INTO_LOGS[case]
    snapshot = table(*groups, cow=said.get("cow", False))
    index, operation = said.get("index", IndexType.METADATA), said.get("operation", UPSERT)
    sizes = replace(SIZES, small_file=said.get("sizes", SIZES.small_file))
    found = placed(snapshot, rows, operation, index=index, into_logs=True, sizes=sizes)

    assert shown(found) == expected
    new = {share.target for share in found.places["p", None]}
    assert all(target.takes_new_keys is (target.index in new) for target in found.targets if target.kind == "append")
    held = table(group(A, 10), pending_compactions={("p", A): minute(8)})
    assert shown(placed(held, {None: 2}, index=index, into_logs=True)) == ["create 00000000-uuid-0: 2 of new"]


BUCKETS = {
    "the first row of a bucket": ([], UPSERT, False, ["create 00000001-uuid-0: 4 of 00000001"]),
    "a bucket with a group": ([group(BUCKET_1, 10)], UPSERT, False, [f"append {BUCKET_1}: 4 of 00000001"]),
    "a bucket of one log": ([group(BUCKET_1, logs=1)], INSERT, False, [f"append {BUCKET_1}: 4 of 00000001"]),
    "copy on write, whatever its size": ([group(BUCKET_1)], UPSERT, True, [f"merge {BUCKET_1}: 4 of 00000001"]),
    "a bulk insert goes on with the group": ([group(BUCKET_1)], BULK, False, [f"append {BUCKET_1}: 4 of 00000001"]),
    "an id of Hudi's row writer": ([group("00000001-x")], UPSERT, False, ["append 00000001-x: 4 of 00000001"]),
    "a delete where there is no group": ([group(BUCKET_0)], DELETE, False, ["nowhere: 00000001"]),
    "insert_overwrite begins again": (
        [group(BUCKET_1)],
        WriteOperation.INSERT_OVERWRITE,
        False,
        ["create 00000001-uuid-0: 4 of 00000001"],
    ),
}


@pytest.mark.parametrize("case", BUCKETS)
def test_into_buckets(case):
    """A bucket has one file group, whose number its id begins with; see 1 of `write/placement`."""
    groups, operation, cow, expected = BUCKETS[case]

    found = placed(table(*groups, cow=cow), {"00000001": 4}, operation, buckets=4)

    assert shown(found) == expected
    assert all(
        (target.rolls_over, target.rows_expected) == (False, 4) for target in found.targets if target.kind == "create"
    )
    assert [target.rows_expected for target in found.targets] == [
        found.places[target.partition_path, target.file_id[:8]][0].rows if target.kind == "create" else None
        for target in found.targets
    ]
    assert all(target.counts_as_updates for target in found.targets if target.kind == "append")


def test_what_a_merge_reads():
    """A merge names the base file and its instant; duplicates stay for operations that look for no key."""
    known, new = (
        placed(table(group(A, 50), cow=True), {at: 1}, op).targets for at, op in ((A, UPSERT), (None, INSERT))
    )

    assert known[0].slice.base_file == f"p/{A}_0-0-0_{minute(1)}.parquet"
    assert (known[0].prev_commit, known[0].slice.log_files) == (minute(1), ())
    assert [known[0].keeps_duplicates, new[0].keeps_duplicates] == [False, True]


def test_what_is_replaced():
    """insert_overwrite takes the groups of partitions that get rows, of the table all, delete_partition those named."""
    snapshot = table(group(A), group(B), group(C, partition="q"))

    def replaced(operation, **request):
        return placed(snapshot, {("p", None): 1, ("r", None): 1}, operation, **request).replaced

    assert replaced(WriteOperation.INSERT_OVERWRITE) == {"p": (A, B), "r": ()}
    assert replaced(WriteOperation.INSERT_OVERWRITE_TABLE) == {"p": (A, B), "q": (C,)}
    gone = placed(snapshot, {}, WriteOperation.DELETE_PARTITION, partitions=("q",))
    assert (gone.replaced, gone.targets) == ({"q": (C,)}, ())
    assert replaced(UPSERT) == {}
    with pytest.raises(UsageError, match="no partition 'x'"):
        placed(snapshot, {}, WriteOperation.DELETE_PARTITION, partitions=("q", "x"))


def test_groups_that_a_service_holds_take_no_new_keys():
    """A pending compaction or clustering keeps new keys out; see 3 of `write/placement`."""
    for held in ("pending_compactions", "pending_clusterings"):
        snapshot = table(group(A, 10), group(B, 50), **{held: {("p", A): minute(8)}})
        assert shown(placed(snapshot, {None: 2})) == [f"merge {B}: 2 of new"]


FROZEN = FrozenGroup("p", B, minute(3), "its log is gone")

REFUSED = {
    "frozen, and its keys are not known": ({"frozen": (FROZEN,)}, {None: 1}, {}, "its log is gone"),
    "frozen in another partition, and its keys are not known": (
        {"frozen": (replace(FROZEN, partition_path="q"),)},
        {None: 1},
        {"index": IndexType.GLOBAL_SIMPLE},
        "its log is gone",
    ),
    "frozen, and replaced": (
        {"frozen": (FROZEN,)},
        {None: 1},
        {"operation": WriteOperation.INSERT_OVERWRITE},
        "its log is gone",
    ),
    "clustering": ({"pending_clusterings": {("p", A): minute(8)}}, {A: 1}, {}, "Clustering"),
    "clustering, and replaced": (
        {"pending_clusterings": {("p", A): minute(8)}},
        {None: 1},
        {"operation": WriteOperation.INSERT_OVERWRITE},
        "Clustering",
    ),
    "an index that is wrong": ({}, {"z-0": 1}, {"index": IndexType.METADATA}, "the index names it"),
    "no buckets": ({}, {"00000001": 1}, {"buckets": 4}, "that of no bucket of 4"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    """What cannot be written without guessing is refused by name; see 2 of `write/placement`."""
    fields, rows, request, message = REFUSED[case]

    with pytest.raises(Refused, match=message):
        placed(table(group(A), **fields), rows, **request)


@pytest.mark.parametrize("case", [case for case in REFUSED if case.startswith("frozen")])
def test_what_a_pending_write_hides_is_tried_later(case):
    """A group that is frozen for a write which has not ended is no matter of its files."""
    fields, rows, request, _ = REFUSED[case]
    pending = Instant(FROZEN.instant, "deltacommit", State.INFLIGHT, None, "")
    snapshot = snapshot_of([group(A)], [pending], **fields)
    with pytest.raises(TryLater, match=f"The write {FROZEN.instant} has not ended"):
        placed(snapshot, rows, **request)


def test_buckets_that_are_not_those_of_the_table():
    """Two groups of a bucket, more buckets than are said, and a table of buckets that is written without."""
    with pytest.raises(Refused, match="two file groups, 00000001-x-0 and 00000001-y"):
        placed(table(group(BUCKET_1), group("00000001-y")), {"00000000": 1}, buckets=4)
    with pytest.raises(Refused, match="no bucket of 1"):
        placed(table(group(BUCKET_1)), {"00000000": 1}, buckets=1)
    frozen = FrozenGroup("p", BUCKET_1, minute(3), "its log is gone")
    with pytest.raises(Refused, match="its log is gone"):
        placed(table(frozen=(frozen,)), {"00000001": 1}, buckets=4)
    assert shown(placed(table(frozen=(frozen,)), {"00000000": 1}, buckets=4)) == [
        "create 00000000-uuid-0: 1 of 00000000"
    ]
    with pytest.raises(Refused, match="are buckets, 00000000-x-0 for one"):
        placed(table(group(BUCKET_0), group(BUCKET_1)), {None: 1})
    assert shown(placed(table(group(BUCKET_0), group(A)), {None: 1})) == ["create 00000000-uuid-0: 1 of new"]


def test_the_number_of_a_bucket():
    """Eight decimal digits, and nothing else."""
    assert [bucket_of(each) for each in ("00000012-x-0", "0000001a-x", "1234567", "٠٠٠٠٠٠٠١-x")] == [
        12,
        None,
        None,
        None,
    ]


def test_how_large_rows_are():
    """The newest commit with large base files says it, of which logs are no part; without one nothing does."""

    def commit(*files):
        stats = tuple(WriteStat(path=path, total_write_bytes=size, num_writes=rows) for path, size, rows in files)
        return CommitMetadata({"p": stats})

    base, log = f"p/{A}_0-0-0_1.parquet", f"p/.{A}_1.log.1_0-0-0"
    commits = [commit((base, 100, 1)), commit((log, 900, 1), (base, 101, 4)), commit((base, 999, 1))]
    assert average_row_bytes(commits, SIZES) == 25
    assert average_row_bytes(commits[:1], SIZES) is None
