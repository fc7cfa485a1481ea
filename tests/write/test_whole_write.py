"""Writes from their rows to their commit: what they refuse, what they meet, and what they leave."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Cancelled, Conflict, LakewardError, Refused, TryLater, UsageError
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.partition_metadata import read_partition_metadata
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.index.index_type import IndexType
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import COMMIT_TIME_ORDERING
from lakeward.write.flow.in_process import InProcessFlow
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import OpenIndex
from lakeward.write.whole_write import write_rows
from tests.clocks import SkippingClock
from tests.crash.compacting import everything as all_files
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.rollback.run.failed_tables import roll_back
from tests.write.writing import BUCKETS, COLUMNS, Row, new_table, rows_of, values, write

CLOCK = SkippingClock()
"""That of two writers at once: each would skip ahead of the other's."""
FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "q", "a")]


def everything(base: Path) -> dict[str, bytes]:
    """Every file, but for the one that remembers the greatest time that was minted."""
    return {name: (base / name).read_bytes() for name in all_files(base)}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("index", [BUCKETS, {}], ids=["buckets", "simple"])
def test_rows_come_and_go(tmp_path: Path, table_type: str, index: dict[str, object]) -> None:
    """Upserts by event time, deletes whatever their ordering value, partitions again, and partitions that go."""
    base = new_table(tmp_path / "t", table_type=table_type)
    write(base, FIRST, **index)
    report = write(base, [("k1", 2, "p", "b"), ("k2", 0, "q", "late"), ("k3", 1, "p", "b")], **index)
    assert values(read_rows(base)) == {"k1": "b", "k2": "a", "k3": "b"}
    assert report.inserted + report.updated >= 2 and report.partitions == ["p", "q"]
    write(base, [("k3", 0, "p", None), ("k9", 0, "q", None)], "delete", **index)
    assert values(read_rows(base)) == {"k1": "b", "k2": "a"}
    write(base, [("k4", 1, "p", "alone")], "insert_overwrite", **index)
    assert values(read_rows(base)) == {"k2": "a", "k4": "alone"}
    write(base, [], "delete_partition", partitions=("q",), **index)
    assert values(read_rows(base)) == {"k4": "alone"}
    write(base, [("k5", 1, "r", "all")], "insert_overwrite_table", **index)
    assert values(read_rows(base)) == {"k5": "all"}
    actions = {instant.action for instant in scan(base).timeline.completed}
    assert actions == {"deltacommit" if table_type == "MERGE_ON_READ" else "commit", "replacecommit"}


def test_the_commit_says_what_was_written(tmp_path: Path) -> None:
    """Its operation, its schema and what the caller adds; and its profile names the groups before."""
    base = new_table(tmp_path / "t")
    write(base, FIRST, **BUCKETS)
    report = write(base, [("k1", 2, "p", "b")], extra_metadata={"source": "orders"}, **BUCKETS)
    timeline = base / ".hoodie/timeline"
    (file,) = timeline.glob(f"{report.instant}_*.deltacommit")
    metadata = read_commit_metadata(file.read_bytes(), file=file.name, layout=2)
    assert metadata.operation_type == "UPSERT" and metadata.compacted is False
    assert metadata.extra_metadata.keys() == {"schema", "source"}
    inflight = timeline / f"{report.instant}.deltacommit.inflight"
    profile = read_commit_metadata(inflight.read_bytes(), file=inflight.name, layout=2)
    new, group = profile.partition_to_write_stats["p"]
    assert (new.file_id, new.num_inserts) == ("", 0)
    assert group.file_id and group.num_update_writes == 1 and group.prev_commit != "null"


def test_the_profile_says_new_rows_from_known_ones(tmp_path: Path) -> None:
    """New rows of a small file are new as those of a new group are, and the group is named, whatever goes there."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)
    for rows, counts in (
        ([("k1", 2, "p", "b"), ("k8", 2, "p", "new")], (1, 1)),
        ([("k9", 2, "p", "new")], (1, 0)),
        ([("k1", 3, "p", "b")], (0, 1)),
    ):
        report = write(base, rows)
        inflight = base / f".hoodie/timeline/{report.instant}.deltacommit.inflight"
        new, group = read_commit_metadata(inflight.read_bytes(), file=inflight.name, layout=2).partition_to_write_stats[
            "p"
        ]
        assert (new.file_id, bool(group.file_id)) == ("", True)
        assert (new.num_inserts, group.num_update_writes) == counts


def test_a_new_partition_has_its_file(tmp_path: Path) -> None:
    """With the instant that made it. Keeps 3 of write/write_run."""
    base = new_table(tmp_path / "t")
    report = write(base, FIRST)
    found = read_partition_metadata((base / "p/.hoodie_partition_metadata").read_bytes(), file="p")
    assert (found.commit_time, found.partition_depth) == (report.instant, 1)
    before = (base / "p/.hoodie_partition_metadata").read_bytes()
    write(base, [("k3", 1, "p", "b")])
    assert (base / "p/.hoodie_partition_metadata").read_bytes() == before


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (rows_of([("", 1, "p", "a")]), UsageError),
        (rows_of([("k1", 1, "p", "a", "x")], COLUMNS.append(pa.field("order id", pa.string()))), UsageError),
        (rows_of([("k1", None, "p", "a")]), UsageError),
        (rows_of([("k1", 1, "p", "a")]).drop_columns(["v"]), UsageError),
        (rows_of([("k1", 1, "p", "a")]).set_column(1, "ts", pa.array(["x"])), LakewardError),
    ],
    ids=["no-key", "a-name-that-no-table-has", "nothing-to-order-by", "a-column-less", "another-type"],
)
def test_bad_rows_leave_the_table_as_it_was(tmp_path: Path, batch: pa.RecordBatch, error: type[Exception]) -> None:
    """Whatever is wrong with them, no reader sees a difference; columns are refused before anything is written. Keeps 1
    of write/whole_write."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)
    before = everything(base)
    with pytest.raises(error):
        write(base, batch)
    assert everything(base) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS"),
        ("hoodie.datasource.write.drop.partition.columns", "true"),
        ("hoodie.table.keygenerator.type", "CUSTOM"),
    ],
)
def test_tables_that_are_not_written(tmp_path: Path, name: str, value: str) -> None:
    """Each by its property, and nothing is written."""
    base = new_table(tmp_path / "t")
    set_property(base, name, value)
    before = everything(base)
    with pytest.raises(Refused):
        write(base, FIRST)
    assert everything(base) == before


@pytest.mark.parametrize(("zone", "hours"), [("EST5", -5), ("CET-1", 1)])
def test_the_first_instant_is_in_the_zone_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str, hours: int
) -> None:
    """Hudi's writers here have it so, too, where the table does not say UTC. Keeps 3 of write/write_start."""
    base = new_table(tmp_path / "t")
    set_property(base, "hoodie.table.timeline.timezone", "LOCAL")
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        report = write(base, FIRST, options={"timezone": None})
    time.tzset()
    ahead = datetime.strptime(report.instant, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC).timestamp() - CLOCK.now()
    assert abs(ahead - hours * 3600) < 600


def test_columns_are_not_guessed(tmp_path: Path) -> None:
    """There is a commit, and no write on the timeline says what columns the table has. Keeps 3 of write/whole_write."""
    base = new_table(tmp_path / "t")
    (base / ".hoodie/timeline/20200101000000000_20200101000000001.clean").write_bytes(b"x")
    with pytest.raises(Refused, match="No completed write on the active timeline says what the table's columns are"):
        write(base, FIRST)
    assert not (base / "p").exists()


def test_the_first_write_after_one_that_died(tmp_path: Path) -> None:
    """It was rolled back, which is all that is on the timeline; the columns are those that the table was made with."""
    base, processes = new_table(tmp_path / "t"), ScriptedProcesses()
    with pytest.raises(Killed):
        write(base, FIRST, storage=FaultyStorage(Fault(FaultKind.KILL, 60)), processes=processes)
    processes.kill_all()
    (died,) = scan(base).timeline.pending
    roll_back(base, LocalStorage(), processes)
    assert [each.action for each in scan(base).timeline.completed] == ["rollback"]
    assert write(base, FIRST).instant != died.time
    assert len(read_rows(base)) == len(FIRST)


class Meanwhile:
    """A flow beside which something happens, once, when all of its files are written."""

    def __init__(self, flow: InProcessFlow, act: Callable[[], object]) -> None:
        self._flow = flow
        self._acts = [act]

    def __getattr__(self, name: str) -> object:
        return getattr(self._flow, name)

    def write(self, *args: object, **named: object) -> object:
        results = self._flow.write(*args, **named)  # type: ignore[arg-type]
        while self._acts:
            self._acts.pop()()
        return results


def write_while(
    base: Path,
    rows: list[Row],
    act: Callable[[], object],
    *,
    retries: int = 0,
    processes: ScriptedProcesses | None = None,
    open_index: OpenIndex | None = None,
    shadow: OpenIndex | None = None,
    **request: object,
) -> int:
    """Returns how often the write began."""
    storage = LocalStorage()
    table = serviced_table(str(base), storage, processes or ScriptedProcesses(), writers_stopped=False)
    table = replace(table, clock=CLOCK)
    flow = Meanwhile(InProcessFlow(storage, [rows_of(rows)]), act)
    asked = WriteRequest(WriteOperation.UPSERT, conflict_retries=retries, **request)  # type: ignore[arg-type]
    return write_rows(table, asked, flow, COLUMNS, open_index, shadow).tries  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [BUCKETS, {}], ids=["buckets", "simple"])
def test_two_writes_of_one_group_meet(tmp_path: Path, index: dict[str, object]) -> None:
    """The one that commits later fails, and leaves nothing; asked to, it begins again. Keeps 1 of write/write_run, and
    Keeps 2 of write/whole_write."""
    base = new_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    write(base, FIRST, **index)

    def other(value: str) -> Callable[[], object]:
        return lambda: write(base, [("k1", 2, "p", value)], options={"writers_stopped": False}, clock=CLOCK, **index)

    with pytest.raises(Conflict, match="met another writer"):
        write_while(base, [("k1", 3, "p", "own")], other("hudis"), **index)
    assert values(read_rows(base)) == {"k1": "hudis", "k2": "a"}
    assert scan(base).timeline.pending == () and not scan(base).uncommitted_files
    assert write_while(base, [("k1", 3, "p", "own")], other("again"), retries=1, **index) == 2
    assert values(read_rows(base)) == {"k1": "own", "k2": "a"}


def test_writes_of_other_groups_do_not_meet(tmp_path: Path) -> None:
    """Each in a partition of its own."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)
    act = lambda: write(base, [("k2", 2, "q", "hudis")], options={"writers_stopped": False}, clock=CLOCK)  # noqa: E731
    assert write_while(base, [("k1", 2, "p", "own")], act) == 1
    assert values(read_rows(base)) == {"k1": "own", "k2": "hudis"}


def test_a_new_bucket_of_two_writers(tmp_path: Path) -> None:
    """Both open it: the later one begins again, and finds the other's group."""
    base = new_table(tmp_path / "t")
    act = lambda: write(base, [("k1", 2, "p", "hudis")], options={"writers_stopped": False}, clock=CLOCK, **BUCKETS)  # noqa: E731
    assert write_while(base, [("k1", 3, "p", "own")], act, retries=1, **BUCKETS) == 2
    assert len(read_rows(base)) == 1 and values(read_rows(base)) == {"k1": "own"}


def test_a_base_file_that_is_not_committed_below_rows_that_are(tmp_path: Path) -> None:
    """Hudi's writer was rewriting the file group when we appended to it, and lost: its file hides our log, also from
    Hudi's readers, until it is rolled back. Meanwhile a write is to be tried later, and leaves nothing."""
    base = new_table(tmp_path / "t", has_metadata_table=False)
    first = write(base, FIRST)
    instant = f"{int(first.completion_time) + 1}"
    (file,) = base.glob("p/*.parquet")
    uncommitted = file.with_name(file.name.replace(first.instant, instant))
    shutil.copy(file, uncommitted)
    pending = [base / f".hoodie/timeline/{instant}.deltacommit.{state}" for state in ("requested", "inflight")]
    for each in pending:
        each.touch()
    write(base, [("k1", 3, "p", "own")])
    before = everything(base)
    for operation in ("upsert", "insert_overwrite"):
        with pytest.raises(TryLater, match=f"The write {instant} has not ended"):
            write(base, [("k1", 4, "p", "later")], operation)
    assert everything(base) == before
    for each in (uncommitted, *pending):
        each.unlink()
    write(base, [("k1", 4, "p", "later")])
    assert values(read_rows(base))["k1"] == "later"


def test_a_cancelled_write_leaves_nothing(tmp_path: Path) -> None:
    """Neither an instant nor a file; and says that its rows were not written."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)

    def cancel() -> None:
        raise Cancelled("stopped", why="", remedy="")

    with pytest.raises(Cancelled) as caught:
        write_while(base, [("k1", 2, "p", "own")], cancel)
    (said,) = caught.value.__notes__
    assert said.startswith("Upsert ") and said.endswith(" was rolled back.")
    assert scan(base).timeline.pending == () and not scan(base).uncommitted_files
    assert values(read_rows(base)) == {"k1": "a", "k2": "a"}


def test_what_other_engines_left_stays(tmp_path: Path) -> None:
    """A write without our heartbeat is another engine's to roll back, also where it is dead. Keeps 2 of
    write/write_start."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)
    (base / ".hoodie/timeline/20200101000000000.deltacommit.requested").touch()
    heartbeat = Path(heartbeat_path(str(base), "20200101000000000"))
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    write(base, [("k1", 2, "p", "b")], options={"writers_stopped": False}, clock=CLOCK)
    assert [instant.time for instant in scan(base).timeline.pending] == ["20200101000000000"]
    assert heartbeat.exists()


def test_the_index_kind_is_in_the_request() -> None:
    """The default is Hudi's on Spark."""
    assert WriteRequest(WriteOperation.UPSERT).index is IndexType.SIMPLE


@pytest.mark.parametrize(
    ("index", "kept"), [(BUCKETS, ["later"]), ({}, ["earlier", "later"])], ids=["buckets", "simple"]
)
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_key_twice_in_a_bulk_insert(
    tmp_path: Path, table_type: str, index: dict[str, object], kept: list[str]
) -> None:
    """A bucket holds it once, whether its file is there already or not; where keys are not looked for it is kept twice,
    as with Hudi."""
    base = new_table(tmp_path / "t", table_type=table_type)
    write(base, [("k1", 1, "p", "earlier"), ("k1", 2, "p", "later")], "bulk_insert", **index)
    files = list(base.glob("p/*.parquet"))
    found = [value for file in files for value in pq.read_table(file).column("v").to_pylist()]
    assert sorted(found) == kept
    if index:
        write(base, [("k1", 3, "p", "last")], "insert", **index)
        assert [row["v"] for row in read_rows(base)] == ["last"]


def test_a_table_whose_rows_have_other_paths_is_refused(tmp_path: Path) -> None:
    """What its properties say of partitions is not what its rows show: no row is written."""
    base = new_table(tmp_path / "t")
    write(base, FIRST)
    set_property(base, "hoodie.datasource.write.hive_style_partitioning", "true")

    with pytest.raises(Refused, match=r"A row has '(\w)', and by hoodie\.properties it would be 'part=\1'"):
        write(base, [("k1", 2, "p", "b")])
    assert not (base / "part=p").exists()
    assert values(read_rows(base)) == {"k1": "a", "k2": "a"}


def test_the_first_records_make_a_partition_of_the_metadata_table(tmp_path: Path) -> None:
    """Each that has logs, by the instant that brought them; one that is there stays. Keeps 7 of
    protocol/metadata/delta_commit."""
    base = new_table(tmp_path / "t")
    first = write(base, FIRST)
    found = {
        path.parent.name: read_partition_metadata(path.read_bytes(), file=path.name).commit_time
        for path in base.glob(".hoodie/metadata/*/.hoodie_partition_metadata")
    }
    assert found.keys() == {"files", "column_stats", "partition_stats"}
    assert {found["column_stats"], found["partition_stats"]} == {first.instant} != {found["files"]}


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("schema", "Readers and writers take the table's columns from it."),
        ("latest_schema", "Readers and writers take the table's columns, with their ids, from it."),
        ("_hudi_streaming_sink_checkpoint", "A streaming query of Spark leaves out the batches that it names."),
        ("lakeward.sorted", "It is Lakeward's own."),
    ],
)
def test_commit_metadata_that_is_not_the_callers(tmp_path: Path, key: str, why: str) -> None:
    """The table stays as it was. Keeps 6 of write/whole_write."""
    base = new_table(tmp_path / "t")
    before = everything(base)
    with pytest.raises(UsageError) as raised:
        write(base, FIRST, extra_metadata={key: "foo"})
    assert (raised.value.what, raised.value.why) == (f"The commit metadata {key} cannot be given.", why)
    assert everything(base) == before


def test_a_row_without_ordering_value_is_named(tmp_path: Path) -> None:
    """It would meet one of its key that has a value; one that deletes meets none, and in a column of ints null is 0."""
    base = new_table(tmp_path / "t")
    deleting = COLUMNS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    write(base, rows_of([("k1", 1, "p", "a", False), ("k2", 1, "p", "a", None)], deleting))
    write(base, rows_of([("k1", None, "p", "a", True)], deleting))
    assert values(read_rows(base)) == {"k2": "a"}

    with pytest.raises(UsageError) as raised:
        write(base, rows_of([("k1", 2, "p", "a", False), ("k2", None, "p", "a", None)], deleting))
    assert raised.value.what == "Row 2 has no value in ts, by which the table orders rows of a key."

    ints = COLUMNS.set(1, pa.field("ts", pa.int32()))
    of_ints = new_table(tmp_path / "ints", schema=schema_text(ints, "t"))
    write(of_ints, rows_of([("k1", 1, "p", "a"), ("k2", None, "p", "a")], ints))
    by_commit = new_table(tmp_path / "commit", merge_mode=COMMIT_TIME_ORDERING)
    write(by_commit, [("k1", 1, "p", "a"), ("k2", None, "p", "a")])
    assert values(read_rows(of_ints)) == values(read_rows(by_commit)) == {"k1": "a", "k2": "a"}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_inside_of_a_struct_the_kind_of_change_is_a_name_like_others(tmp_path: Path, table_type: str) -> None:
    """Such a table was closed for good after its first write: its files were taken for those of a changelog."""
    of = COLUMNS.append(pa.field("s", pa.struct([("_hoodie_operation", pa.string())])))
    base = new_table(tmp_path / "t", table_type=table_type, schema=schema_text(of, "t"))
    struct = {"_hoodie_operation": "D"}
    for value in ("a", "b"):
        write(base, rows_of([("k1", 1, "p", value, struct)], of))
    assert values(read_rows(base)) == {"k1": "b"}
