from itertools import count

import pyarrow as pa
import pytest

from lakeward.base.errors import Cancelled, Conflict, Refused
from lakeward.index.index_type import IndexType
from lakeward.storage.local import LocalStorage
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.placement import place
from lakeward.write.request import FileSizes, WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import BucketTagging
from lakeward.write.tagging.tagging_kinds import NewKeys
from tests.synthetic_table import snapshot_of
from tests.write.flow.rows import INSTANT, SCHEMA, context, keying, rows, written

BUCKETS = BucketTagging(("id",), 2)


def no_progress(progress):
    pass


def placed(workload, request):
    numbers = count()
    return place(
        snapshot_of([], []),
        workload,
        request,
        instant=INSTANT,
        schema=SCHEMA,
        row_bytes=1,
        new_uuid=lambda: f"{next(numbers):08x}-uuid",
    )


INTO_BUCKETS = WriteRequest(WriteOperation.UPSERT, index=IndexType.BUCKET, buckets=2)


def test_rows_are_written_bucket_by_bucket_in_order(tmp_path):
    """Rows reach a target by key, of one key in the order of the input, so that the later one of a tie wins."""
    batches = [
        rows(("b", "p", 1, "first"), ("a", "p", 5, "late"), ("é", "p", 1, "")),
        rows(("b", "p", 1, "second"), ("a", "p", 4, "early"), ("a", "q", 1, "other")),
    ]
    flow = InProcessFlow(LocalStorage(), batches)

    workload = flow.tag(keying(), BUCKETS, on_progress=no_progress)
    results = flow.write(context(tmp_path), placed(workload, INTO_BUCKETS), on_progress=no_progress)

    assert sum(workload.rows.values()) == 6
    assert {partition for partition, _ in workload.rows} == {"p", "q"}
    assert [result.index for result in results] == list(range(len(workload.rows)))
    assert sorted(row for of in written(tmp_path).values() for row in of) == [
        ("a", "late"),
        ("a", "other"),
        ("b", "second"),
        ("é", ""),
    ]
    assert all(keys == sorted(keys, key=lambda row: row[0].encode()) for keys in written(tmp_path).values())


def test_no_key_is_in_two_of_several_new_files(tmp_path):
    """Rows of a place with several targets follow the hashes of their keys."""
    flow = InProcessFlow(LocalStorage(), [rows(*((f"k{n % 40}", "p", n, str(n)) for n in range(80)))])
    request = WriteRequest(WriteOperation.INSERT, deduplicate=False, sizes=FileSizes(max_file=20))

    workload = flow.tag(keying(), NewKeys(), on_progress=no_progress)
    flow.write(context(tmp_path, operation=WriteOperation.INSERT), placed(workload, request), on_progress=no_progress)

    assert workload.rows == {("p", None): 80}
    files = [{key for key, _ in of} for of in written(tmp_path).values()]
    assert len(files) == 4 and sum(map(len, files)) == len(set.union(*files)) == 40


def test_rows_without_a_share_go_nowhere(tmp_path):
    """Deletes of keys in buckets without a file group leave no trace; columns are not asked of them."""
    flow = InProcessFlow(LocalStorage(), [rows(("a", "p", 1, "x")).select(["id", "part"])])
    request = WriteRequest(WriteOperation.DELETE, index=IndexType.BUCKET, buckets=2)

    workload = flow.tag(keying(carries_columns=False), BUCKETS, on_progress=no_progress)
    results = flow.write(
        context(tmp_path, operation=WriteOperation.DELETE), placed(workload, request), on_progress=no_progress
    )

    assert (sum(workload.rows.values()), results, written(tmp_path)) == (1, [], {})


def test_an_input_is_read_once(tmp_path):
    """A write that begins again tags the rows that it has; another form of them is a conflict."""
    batches = iter([rows(("a", "p", 1, "x"))])
    flow = InProcessFlow(LocalStorage(), batches)

    first = flow.tag(keying(), BUCKETS, on_progress=no_progress)

    assert flow.tag(keying(), BUCKETS, on_progress=no_progress) == first and first.rows
    with pytest.raises(Conflict, match="columns or keys changed"):
        flow.tag(keying(carries_columns=False), BUCKETS, on_progress=no_progress)


def test_more_rows_than_memory_are_refused():
    """The refusal names Spark; see `write/flow/in_process`."""
    wide = rows(*((f"k{n}", "p", n, "x" * 100_000) for n in range(100)))
    flow = InProcessFlow(LocalStorage(), [wide] * 3, memory_bytes=96 * 1024 * 1024)

    with pytest.raises(Refused, match="--engine spark"):
        flow.tag(keying(), BUCKETS, on_progress=no_progress)


def test_a_flow_ends_when_it_is_shown_to(tmp_path):
    """What the watcher raises between two targets ends the write."""
    flow = InProcessFlow(LocalStorage(), [rows(("a", "p", 1, "x"), ("a", "q", 1, "x"))])
    assignment = placed(flow.tag(keying(), BUCKETS, on_progress=no_progress), INTO_BUCKETS)

    def stop_at_the_second(progress):
        if progress.finished == 1:
            raise Cancelled

    with pytest.raises(Cancelled):
        flow.write(context(tmp_path), assignment, on_progress=stop_at_the_second)
    assert len(written(tmp_path)) == 1


def test_an_empty_input(tmp_path):
    """Without rows there is no work, and nothing is written."""
    flow = InProcessFlow(LocalStorage(), [rows()])

    workload = flow.tag(keying(), BUCKETS, on_progress=no_progress)

    assert workload.rows == {}
    assert flow.write(context(tmp_path), placed(workload, INTO_BUCKETS), on_progress=no_progress) == []
    flow.close()


def test_a_batch_without_rows_between_others():
    """Batches that hold nothing do no harm to those that do."""
    flow = InProcessFlow(
        LocalStorage(), [rows(), rows(("a", "p", 1, "x")), pa.RecordBatch.from_pylist([], rows().schema)]
    )

    assert sum(flow.tag(keying(), BUCKETS, on_progress=no_progress).rows.values()) == 1
