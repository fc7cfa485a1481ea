"""Rows through Spark come out as they do in one process, and each by the one task that has its target."""

import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakeward.base.errors import BrokenFile, Cancelled, UsageError, VerificationFailed
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.index.bloom.bloom_index import BloomIndex
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index_type import IndexType
from lakeward.index.overlay import current_index
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.table.snapshot import take_snapshot
from lakeward.write.flow import spark_comparison
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.flow.parts import InputParts
from lakeward.write.flow.slots import numbers_into
from lakeward.write.flow.spark import SparkFlow
from lakeward.write.input.files import open_rows
from lakeward.write.request import FileSizes, WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import BucketTagging, choose_tagging
from lakeward.write.tagging.tagging_kinds import LookupTagging, NewKeys
from lakeward.write.target import HandleKind
from lakeward.write.whole_write import write_rows
from tests.clocks import SkippingClock
from tests.engine.dispatch import tasks
from tests.golden_tables import copy_golden
from tests.index.bloom.caches import rebuilt
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.flow.rows import context, keying, rows, written
from tests.write.flow.test_in_process import INTO_BUCKETS, no_progress, placed
from tests.write.own_record_index import AskedIndex, built, opened
from tests.write.test_moves import with_deletes
from tests.write.test_whole_write import CLOCK
from tests.write.writing import new_table, write

pytestmark = pytest.mark.interop

ROWS = [(f"k{n % 50}", f"p{n % 2}", n % 7, f"{n}-é") for n in range(160)]
BUCKETS = BucketTagging(("id",), 2)


@pytest.fixture
def driver(spark: SparkSession):
    return SparkDispatcher("local[2]", memory=tasks.MEMORY).driver()


def of_file(base, of=ROWS):
    """A file of row groups, each of them a part."""
    path = base / "rows.parquet"
    pq.write_table(pa.Table.from_batches([rows(*of)]), path, row_group_size=40)
    return InputParts(open_rows([str(path)]), part_bytes=1)


def written_rows(base):
    return sorted(row for of in written(base).values() for row in of)


def test_the_same_as_in_one_process(driver, tmp_path):
    """Buckets of a file that is read by many tasks: the same workload, and the same rows, in order."""
    (tmp_path / "spark").mkdir()
    (tmp_path / "here").mkdir()
    here = InProcessFlow(LocalStorage(), [rows(*ROWS)])
    flow = SparkFlow(driver, str(tmp_path / "spark"), of_file(tmp_path))

    workload = flow.tag(keying(), BUCKETS, on_progress=no_progress)
    assert workload == here.tag(keying(), BUCKETS, on_progress=no_progress)
    assignment = placed(workload, INTO_BUCKETS)
    results = flow.write(context(tmp_path / "spark"), assignment, on_progress=no_progress)
    flow.close()
    here.write(context(tmp_path / "here"), assignment, on_progress=no_progress)

    assert [result.index for result in results] == list(range(4))
    assert written_rows(tmp_path / "spark") == written_rows(tmp_path / "here")
    assert all(of == sorted(of, key=lambda row: row[0].encode()) for of in written(tmp_path / "spark").values())


@pytest.mark.wide
def test_native_logs_through_spark(driver, tmp_path):
    """A task writes them as they are written in one process."""
    found = []
    for folder in (tmp_path / "spark", tmp_path / "here"):
        folder.mkdir()
        is_spark = folder.name == "spark"
        here = InProcessFlow(LocalStorage(), [rows(*ROWS)])
        flow = SparkFlow(driver, str(folder), of_file(tmp_path)) if is_spark else here
        of = placed(flow.tag(keying(), BUCKETS, on_progress=no_progress), INTO_BUCKETS)
        logs = replace(of, targets=tuple(replace(each, kind=HandleKind.APPEND) for each in of.targets))
        native = context(folder, has_native_logs=True)
        results = flow.write(native, logs, on_progress=no_progress)
        flow.close()
        names = [[file.name for file in result.files] for result in results]
        assert all(name.endswith(".log.parquet") for of in names for name in of) and len(names) == 4
        found.append(written_rows(folder))
    assert found[0] == found[1]


@pytest.mark.wide
def test_files_that_change(driver, tmp_path):
    """Files are read twice, and must say the same; see 2 of `write/flow/spark`."""
    flow = SparkFlow(driver, str(tmp_path), of_file(tmp_path))
    assignment = placed(flow.tag(keying(), BUCKETS, on_progress=no_progress), INTO_BUCKETS)

    for other in (("other", "p0", 1, ""), ("k1", "p9", 1, "")):
        of_file(tmp_path, [*ROWS[:-1], other])
        with pytest.raises(VerificationFailed, match="not those that were counted"):
            flow.write(context(tmp_path), assignment, on_progress=no_progress)


@pytest.mark.wide
def test_a_data_frame_that_changes(driver, spark, tmp_path):
    """A data frame whose rows are lost and read again, as others, fails the write; see 2 of `write/flow/spark`."""
    file = tmp_path / "keys"
    file.write_text(" ".join(f"k{n}" for n in range(40)))
    keys = spark.sparkContext.parallelize([file], 1).flatMap(lambda path: path.read_text().split())
    source = keys.map(lambda key: (key, "p", 1, "")).toDF("id string, part string, ts long, v string")
    request = WriteRequest(WriteOperation.INSERT, sizes=FileSizes(max_file=10))
    flow = SparkFlow(driver, str(tmp_path), source)

    workload = flow.tag(keying(), NewKeys(), on_progress=no_progress)
    assignment = placed(workload, request)
    of_insert = context(tmp_path, operation=WriteOperation.INSERT)
    flow.write(of_insert, assignment, on_progress=no_progress)
    files = [{key for key, _ in of} for of in written(tmp_path).values()]
    assert len(files) > 1 and sum(map(len, files)) == len(set.union(*files)) == 40

    flow._tagged.unpersist(blocking=True)
    file.write_text(" ".join(f"k{n}" for n in range(1, 41)))
    with pytest.raises(VerificationFailed, match="not those that were counted"):
        flow.write(replace(of_insert, attempt=2), assignment, on_progress=no_progress)


@pytest.mark.wide
@pytest.mark.parametrize("index", [IndexType.SIMPLE, IndexType.METADATA, IndexType.BLOOM])
def test_places_that_are_looked_up(driver, tmp_path, index):
    """Files, the record index of a table of Hudi's, and by bloom file slices with their logs are searched by tasks; a
    row without a share goes nowhere."""
    base = str(copy_golden("v9_metadata", tmp_path / "table"))
    of = [("k1", "p", 1, ""), ("k4", "p", 1, ""), ("k9", "p", 1, ""), ("k1", "q", 1, ""), ("k9", "q", 2, "")]
    snapshot = take_snapshot(LocalStorage(), base, clock=SkippingClock())
    request = WriteRequest(WriteOperation.UPSERT, index=index)
    in_logs = index is IndexType.BLOOM
    tagging = choose_tagging(LocalStorage(), snapshot, request, clock=SkippingClock(), in_logs=in_logs)
    flow = SparkFlow(driver, base, of_file(tmp_path, of))

    workload = flow.tag(keying(), tagging, on_progress=no_progress)

    assert workload == InProcessFlow(LocalStorage(), [rows(*of)]).tag(keying(), tagging, on_progress=no_progress)
    assert flow.tag(keying(), tagging, on_progress=no_progress) == workload
    flow.close()


@pytest.mark.parametrize("is_global", [True, pytest.param(False, marks=pytest.mark.wide)])
def test_buckets_of_a_record_index(driver, tmp_path, is_global):
    """A bucket of Lakeward's record index is asked once, for those keys that come and are in it, and no other bucket
    is; rows get the places that they have in one process, also by what the index does not have yet."""
    base = built(
        tmp_path / "t", rows=[(f"k{n}", 1, f"p{n % 2}", "") for n in range(40)], is_global=is_global, buckets=64
    )
    write(base, [("k41", 1, "p0", ""), ("k1", 2, "p1", "")], clock=CLOCK)
    snapshot = scan(base)
    (tmp_path / "asked").mkdir()
    index = AskedIndex(current_index(LocalStorage(), snapshot, opened(base, snapshot)), tmp_path / "asked")
    of = [
        *((f"k{n}", f"p{n % 2}", 3, "") for n in (1, 2, 3, 4, 5, 41, 50, 51)),
        ("k2", "p1", 3, ""),
        ("k1", "p1", 4, ""),
    ]
    tagging = LookupTagging(index)
    here = InProcessFlow(LocalStorage(), [rows(*of)]).tag(keying(), tagging, on_progress=no_progress)
    for path in (tmp_path / "asked").iterdir():
        path.unlink()
    flow = SparkFlow(driver, str(base), of_file(tmp_path, of))

    assert flow.tag(keying(), tagging, on_progress=no_progress) == here
    keys = sorted({key for key, *_ in of})
    of_keys = index.parts_of(pa.array(keys)).tolist()
    assert index.asked() == [
        (bucket, [key for key, part in zip(keys, of_keys, strict=True) if part == bucket])
        for bucket in sorted(set(of_keys))
    ]
    assert len({place for _, place in here.rows if place is not None}) >= 2
    flow.close()


def test_keys_by_ranges_and_filters(driver, spark, tmp_path, monkeypatch):
    """A task that looks keys up by the bloom index, of a partition or of the table, opens the files that ranges and
    filters leave, and no other one: such are spoilt here. Rows get the places that they have in one process, also
    where no range is known, or keys may be in too many files, so that all are read; what Spark kept is released, also
    after an error."""
    base = new_table(tmp_path / "t", table_type="COPY_ON_WRITE", has_metadata_table=False)
    for number in range(3):
        for part in ("p0", "p1"):
            some = [(f"{part}-{number}{n:02}", 1, part, "") for n in range(0, 40, 2)]
            write(base, some, "insert", sizes=FileSizes(small_file=0))
    snapshot = scan(base)
    of = [(f"p0-1{n:02}", "p0", 1, "") for n in range(6)] + [
        ("p1-204", "p1", 1, ""),
        ("p1-204", "p0", 1, ""),
        ("z", "p1", 1, ""),
    ]
    kept = spark.sparkContext._jsc.getPersistentRDDs().size()

    def tagged(index):
        flow = SparkFlow(driver, str(base), of_file(tmp_path, of))
        try:
            return flow.tag(keying(), LookupTagging(index), on_progress=no_progress)
        finally:
            flow.close()

    unaided = BloomIndex.of(LocalStorage(), snapshot, clock=SkippingClock())
    of_partition, of_table = (
        InProcessFlow(LocalStorage(), [rows(*of)]).tag(
            keying(), LookupTagging(replace(unaided, is_global=is_global)), on_progress=no_progress
        )
        for is_global in (False, True)
    )
    assert sum(place is not None for _, place in of_partition.rows) == 2
    assert tagged(unaided) == of_partition, "the keys of all files"
    rebuilt(snapshot)
    index = BloomIndex.of(LocalStorage(), snapshot, clock=SkippingClock())
    asked = [
        part.file for part, _ in index.narrowed(LocalStorage(), index.parts(None), pa.array([key for key, *_ in of]))
    ]
    others = [part.file for part in index.parts(None) if part.file not in asked]
    assert (len(asked), len(others)) == (2, 4)
    with monkeypatch.context() as patched:
        patched.setattr(spark_comparison, "FILES_A_KEY_MAX", 0)
        assert tagged(index) == of_partition, "the keys of all files again"
    for file in others:
        (base / file.path).write_bytes(bytes(file.size))
    assert tagged(index) == of_partition
    assert tagged(replace(index, is_global=True)) == of_table
    (base / asked[0].path).write_bytes(bytes(asked[0].size))
    with pytest.raises(BrokenFile):
        tagged(index)
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == kept


def test_keys_of_logs_by_tails(driver, tmp_path):
    """A task that looks keys up in slices with logs asks tails and footers first, and merges a slice for the keys that
    are left: slices that hold none cannot be merged here. What it finds are the places that one process finds."""
    base = new_table(tmp_path / "t")
    parts = [f"p{number}" for number in range(3)]
    write(base, [(f"{part}-{n}", 1, part, "") for part in parts for n in range(3)], "insert")
    choose_tails(LocalStorage(), scan(base), are_written=True)
    write(base, [(f"{part}-1", 2, part, "") for part in parts])
    write(base, [("p1-2", 3, "p1", "")], "delete")
    of = [("p0-7", "p0", 1, ""), ("p1-1", "p1", 1, ""), ("p1-2", "p1", 1, ""), ("p2-9", "p2", 1, "")]
    snapshot = scan(base)
    index = SliceBloomIndex.of(LocalStorage(), snapshot, clock=SkippingClock())
    tagging = LookupTagging(index)
    here = InProcessFlow(LocalStorage(), [rows(*of)]).tag(keying(), tagging, on_progress=no_progress)
    assert sum(count for (_, place), count in here.rows.items() if place is not None) == 1, "one of them is deleted"
    spoilt = [part for part in index.parts(None) if part.partition_path != "p1"]
    assert len(spoilt) == 2
    for part in spoilt:
        path = base / part.base.file.path
        data = path.read_bytes()
        rows_end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        path.write_bytes(data[:4] + bytes(rows_end - 4) + data[rows_end:])
        with pytest.raises(BrokenFile):
            list(index.look_up(LocalStorage(), part, None))
    flow = SparkFlow(driver, str(base), of_file(tmp_path, of))
    assert flow.tag(keying(), tagging, on_progress=no_progress) == here
    flow.close()


MOVING = [
    ("k1", 9, "p1", "moves"),
    ("k2", 1, "p0", "loses"),
    ("k3", 3, "p0", "loses among its own"),
    ("k3", 9, "p2", "moves"),
    ("k4", 9, "p0", "stays"),
    ("k5", 9, "p2", "back to where a log deleted it"),
    ("k6", 9, "p2", "leaves two partitions"),
    ("k7", 1, "p0", "new"),
    ("k7", 2, "p1", "new"),
]


@pytest.mark.parametrize(
    ("index", "moves"),
    [
        (IndexType.GLOBAL_SIMPLE, True),
        pytest.param(IndexType.GLOBAL_BLOOM, True, marks=pytest.mark.wide),
        pytest.param(IndexType.GLOBAL_SIMPLE, False, marks=pytest.mark.wide),
        pytest.param(IndexType.METADATA, True, marks=pytest.mark.wide),
        pytest.param(IndexType.METADATA, False, marks=pytest.mark.wide),
    ],
)
@pytest.mark.turns(30)
def test_rows_that_move(driver, tmp_path, index, moves):
    """A write through Spark leaves the same rows as one in this process, in the same partitions."""
    base = new_table(tmp_path / "t", indexes=NewIndexes(finds_keys=NewIndex.METADATA))
    clock, sizes = SkippingClock(), FileSizes(small_file=0)
    of = {"index": index, "sizes": sizes, "clock": clock}
    first = [(f"k{n}", 5, f"p{'01'[n in (2, 3)]}", "first") for n in range(1, 10)]
    write(base, with_deletes(first[:6] + first[7:], [False] * 8), **of)
    write(base, with_deletes([("k5", 6, "p2", "moved")], [False]), moves_rows=True, **of)
    write(base, with_deletes([("k5", 7, "p1", "moved on")], [False]), moves_rows=True, **of)
    write(base, with_deletes([("k6", 5, "p1", "again")], [False]), "insert", deduplicate=False, **of)
    deletes = [("k8", 1, "p2", "late"), ("k9", 9, "p2", "")]
    rows = with_deletes([*MOVING, *deletes], [False] * len(MOVING) + [True] * 2)
    found = []
    for folder in ("here", "spark"):
        table = shutil.copytree(base, tmp_path / folder)
        path = tmp_path / f"{folder}.parquet"
        pq.write_table(pa.Table.from_batches([rows]), path, row_group_size=3)
        if folder == "spark":
            flow = SparkFlow(driver, str(table), InputParts(open_rows([str(path)]), part_bytes=1))
        else:
            flow = InProcessFlow(LocalStorage(), [rows])
        request = WriteRequest(WriteOperation.UPSERT, index=index, moves_rows=moves, sizes=sizes)
        serviced = replace(serviced_table(str(table), LocalStorage(), ScriptedProcesses()), clock=clock)
        report = write_rows(serviced, request, flow, rows.schema)
        flow.close()
        here = [
            (row["id"], row["_hoodie_partition_path"], row["part"], row["ts"], row["v"]) for row in read_rows(table)
        ]
        found.append((sorted(here), report.inserted, report.updated, report.deleted))
    assert found[0] == found[1]
    assert {key: path for key, path, *_ in found[0][0] if key in ("k1", "k2", "k3", "k5", "k8", "k9")} == {
        "k1": "p1" if moves else "p0",
        "k2": "p1",
        "k3": "p2" if moves else "p1",
        "k5": "p2" if moves else "p1",
        "k8": "p0",
    }


def test_errors_of_tasks(driver, tmp_path):
    """A bad row is the error that it is in one process; what the watcher raises ends the job."""
    flow = SparkFlow(driver, str(tmp_path), of_file(tmp_path, [("k", "p", 1, ""), ("", "p", 1, "")]))
    with pytest.raises(UsageError, match="Row 2 has no record key"):
        flow.tag(keying(), BUCKETS, on_progress=no_progress)

    def stop(progress):
        raise Cancelled

    with pytest.raises(Cancelled):
        SparkFlow(driver, str(tmp_path), of_file(tmp_path)).tag(keying(), BUCKETS, on_progress=stop)


def test_numbers_lead_where_spark_hashes_them(spark):
    """Each number is put into the partition that it stands for, so no two targets meet by chance."""
    numbers = numbers_into(300)

    hashed = spark.createDataFrame([(int(n),) for n in numbers], "n int").selectExpr("pmod(hash(n), 300) as p")

    assert [row.p for row in hashed.collect()] == list(range(300))
