"""Stories: for each kind of table one life, in which every service of Lakeward runs between the writes of Hudi and of
Lakeward's own writer. After each step that changed a file of the table Hudi, by listing and by its metadata table,
hudi-rs and `lakeward.Table` read the rows of the model, Hudi reads a savepoint's rows as of it, and `lakeward.Table`
those of each earlier step as of which it can still be read; all kinds of query are compared
(`tests/interop/every_query.py`). Where Hudi has the same service, it runs it on a copy of the table, and both tables
are compared.

A step is a method of `Life`; the story of a kind is a list of them (`STORIES`), so that what differs between kinds is
read off the lists. A failure names the step. CI runs two of the stories, the next commits the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from lakeward import Table
from lakeward.base.errors import Refused
from lakeward.cli.configured_table import open_table
from lakeward.cli.look.explain_command import explanation_of
from lakeward.format.avro.container import read_record
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.together.explaining.file_explanation import FileExplanation, Gone
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.savepoints import read_savepoints
from tests.conftest import IN_CI
from tests.hudi.golden_version_6 import BY_COMMANDS, interrupt
from tests.hudi.golden_version_6 import BY_EVENT_TIME as SHAPE_OF_6
from tests.hudi.golden_version_6_lives import with_options
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION_OF_6, OLDEST_VERSION_OF_8, HudiMissing
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.every_query import judge_every_query
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_archiving import rows_of
from tests.our_reader import scan
from tests.runs import NIGHTLY, spread
from tests.services.clean.run.cleaning import completed_cleans
from tests.write.judged import judged_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3000 if NIGHTLY else 900)]

LISTED = {"hoodie.metadata.enable": "false"}
BY_METADATA = {"hoodie.metadata.enable": "true"}
SHARES_LOCK = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
"""With them Hudi leaves writes that died to others."""
LEAVES_METADATA = {"hoodie.metadata.compact.max.delta.commits": "100"}
SERVICES_OF_HUDI = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",  # as Hudi 0.15 calls it
    "hoodie.clean.trigger.max.commits": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    # Or Hudi archives nothing.
    "hoodie.metadata.compact.max.delta.commits": "1",
}
COLUMNS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.string())])
FAILS = {
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQueryEqualityPreCommitValidator",
    "hoodie.precommit.validators.equality.sql.queries": "select count(*) from <TABLE_NAME>",
}
"""The rows are there then, and no commit."""


INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
BY_RECORD_INDEX = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
PLAIN = {"hoodie.metadata.index.column.stats.enable": "false"}
STAYS = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
BY_EVENT_TIME = {"hoodie.datasource.write.precombine.field": "ts"}
"""The name that Hudi 1.0 gives it."""


def shape(is_merged: bool, **options: str) -> TableShape:
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ" if is_merged else "COPY_ON_WRITE"}
    options = {**kind, **BY_METADATA, **LEAVES_METADATA, **SHARES_LOCK, **options}
    return TableShape(partition_fields="part", options=options)


class Life:
    """A table, its model, its two writers, and the services of Lakeward."""

    version = "9"
    has_metadata = True

    def __init__(self, spark: SparkSession, path: Path, shape: TableShape) -> None:
        self.spark = spark
        self.table = HudiTable(spark, path, shape)
        self.is_merged = "MERGE_ON_READ" in shape.options.values()
        self.rows: dict[str, tuple[int, str]] = {}
        """Ordering value and value of each key."""
        self.number = 0
        self.twins = 0
        self.saved: str | None = None
        self.saved_rows: dict[str, tuple[int, str]] = {}
        self.past: dict[str, dict[str, tuple[int, str]]] = {}
        """The rows as of each instant after which they were checked."""
        self.found: dict[str, tuple[int, int]] = {}
        """Size and time of each file, when they were last checked."""
        self.judges_queries = False
        """Hudi is asked all kinds of query, at every instant and of every window."""

    # Writes

    def hudi_begins(self) -> None:
        self.by_hudi("insert", self.changed(range(16)))

    def we_create(self) -> None:
        """The table, and its first rows."""
        rows = self.changed(range(16))
        words = ("--name", "t", "--record-key", "id", "--partition", "part", "--ordering", "ts")
        kind = ("--type", "mor" if self.is_merged else "cow", "--table-version", self.version)
        self.run("table", "create", "--like", self.input(rows), *words, *kind, writers=False)
        self.by_us("insert", rows)

    def hudi_upserts(self) -> None:
        """Some keys again, one of them late, and one new key."""
        self.by_hudi("upsert", self.some())

    def we_upsert(self) -> None:
        self.by_us("upsert", self.some())

    def hudi_upserts_by_its_index(self) -> None:
        """Hudi finds the keys with the record index of its metadata table."""
        self.by_hudi("upsert", self.changed([*self.keys()[:5], f"k{30 + self.number}"]), **BY_RECORD_INDEX)

    def hudi_deletes(self) -> None:
        self.by_hudi("delete", self.changed(self.keys()[:2]))

    def we_delete(self) -> None:
        self.by_us("delete", self.changed(self.keys()[-2:]))

    def hudi_overwrites(self) -> None:
        """A whole partition."""
        self.by_hudi("insert_overwrite", self.changed(range(1, 16, 4)))

    def we_overwrite(self) -> None:
        self.by_us("insert_overwrite", self.changed(range(1, 16, 2)))

    def hudi_goes_on_with_its_services(self) -> None:
        """It cleans, compacts and archives what we left."""
        files, instants = set(self.table.data_files()), set(self.table.completed_instants())
        self.hudi_upserts_with_its_services()
        assert files - set(self.table.data_files()), "Hudi has cleaned"
        assert instants - set(self.table.completed_instants()), "Hudi has archived"

    def hudi_upserts_with_its_services(self) -> None:
        inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
        for _ in range(3):
            self.by_hudi("upsert", self.some(), **SERVICES_OF_HUDI, **(inline if self.is_merged else {}))

    # Services

    def compact_logs(self) -> None:
        self.compact("log", "LOG")

    def compact_full(self) -> None:
        self.compact("full", "FULL")
        self.check_base_files()

    def check_base_files(self) -> None:
        """They hold all rows."""
        rows = self.table.snapshot(with_meta=False)
        assert self.table.read_optimized(with_meta=False) == rows
        assert self.table.read_by_lakeward(with_meta=False, read_optimized=True) == rows

    def compact(self, kind: str, operations: str) -> None:
        printed = self.run("compact", "--type", kind, "--engine", "local", "--no-metadata-services")
        kinds = {each["kind"] for done in printed["compactions"] for each in done["operations"]}
        assert kinds == {operations}, printed

    def roll_back(self) -> None:
        """A write of Hudi's fails when its files are there; Hudi rolls it back on the copy."""
        before, data = dict(self.rows), self.table.data_files()
        with pytest.raises((Py4JJavaError, AssertionError), match="Failed to upsert"):
            self.by_hudi("upsert", self.some(), **FAILS)
        for beat in (self.table.path / ".hoodie/.heartbeat").glob("*"):
            beat.unlink()  # of a writer whose JVM goes on
        (instant,) = self.table.pending_instants()
        twin = self.twin()
        self.roll_back_by_hudi(twin, instant)
        self.roll_back_by_us(instant)
        assert self.table.data_files() == data
        self.check_same(twin, HudiTable.data_files)
        self.check_same(twin, partial(timeline, without="rollback"))
        assert self.rows == before

    def roll_back_late(self) -> None:
        """A write of Hudi's died right before its commit, when the metadata table had its own."""
        before, data = dict(self.rows), self.table.data_files()
        self.hudi_upserts()
        self.rows = before
        instant = self.newest()
        (completed,) = (self.table.path / ".hoodie/timeline").glob(f"{instant}_*commit")
        completed.unlink()
        self.roll_back_by_us(instant)
        assert self.table.data_files() == data
        assert not [name for name in self.table.files() if instant in name]

    def roll_back_by_us(self, instant: str) -> None:
        (done,) = self.run("rollback")["rolled_back"]
        assert done["instant"] == instant and done["files"]

    def clean(self) -> None:
        """Hudi's cleaner deletes the same files of the copy: those that `explain` calls dead, and no others. After it
        each is reported to be deleted by this clean, and each that is left is as it was."""
        files = set(self.table.data_files())
        before = self.explained(files)
        done = self.clean_as_hudi()
        after, left = self.explained(files), set(self.table.data_files())
        dead = {name for name, shown in before.items() if shown.verdict is FileState.DEAD}
        assert dead == files - left
        cleans = {each["instant"] for each in done["cleans"] if each["completion_time"]}
        assert {after[name].verdict for name in dead} == {Gone.CLEANED}
        assert {after[name].cleaned_by for name in dead} <= cleans
        assert all(after[name].verdict is before[name].verdict for name in files - dead)

    def explained(self, files: set[str]) -> dict[str, FileExplanation]:
        config = self.table.path.with_name("lakeward.toml")
        config.write_text('[defaults.clean]\npolicy = "commits"\nretain = 2\nreader_window = "0s"\n')
        explained = explanation_of(open_table(str(self.table.path), config, timezone="UTC"))
        return {name: explained.file(name) for name in files}

    def clean_and_undo(self) -> None:
        """What a clean took comes back, and can be read as of then."""
        files, instant = self.table.data_files(), self.table.completed_instants()[0][0]
        past = self.as_of(instant)
        done = self.clean_as_hudi("--keep-deleted", "1d")
        (cleaned,) = [each for each in done["cleans"] if each["completion_time"]]
        self.check()
        self.run("quarantine", "restore", cleaned["instant"])
        assert self.table.data_files() == files
        assert self.as_of(instant) == past != ()

    def clean_as_hudi(self, *options: str) -> dict[str, Any]:
        files = self.table.data_files()
        twin = self.by_hudi_on_a_copy("run_clean(table => '{table}', retain_commits => 2, options => '{metadata}')")
        done = self.run("clean", "--policy", "commits", "--retain", "2", "--reader-window", "0s", *options)
        assert self.table.data_files() != files
        self.check_same(twin, HudiTable.data_files)
        return done

    def archive(self) -> None:
        """The same instants go as with Hudi's archiver."""
        numbers = "min_commits => 2, max_commits => 3, retain_commits => 1, enable_metadata => true"
        twin = self.by_hudi_on_a_copy(f"archive_commits(path => '{{path}}', {numbers})")
        done = self.run("archive", "--keep-min", "2", "--keep-max", "3", "--commits-retained", "1")
        assert len(done["archived"]) > 1
        self.check_same(twin, timeline)
        self.check_same(twin, rows_of)

    def savepoint(self) -> None:
        """Hudi's own of the same commit names the same files, and Hudi lists that of Lakeward."""
        instant = self.newest()
        words = f"commit_time => '{instant}', user => 'u', comments => ''"
        twin = self.by_hudi_on_a_copy(f"create_savepoint(path => '{{path}}', {words})")
        assert self.run("savepoint", "create", instant)["savepoint"] == instant
        self.saved, self.saved_rows = instant, dict(self.rows)
        self.check_same(twin, saved_files)
        assert self.shown_savepoints() == [instant]

    def restore(self) -> None:
        """Hudi takes the copy to the savepoint: the same files and the same timeline are left."""
        assert self.saved is not None
        words = f"path => '{{path}}', instant_time => '{self.saved}'"
        twin = self.by_hudi_on_a_copy(f"rollback_to_savepoint({words})")
        self.run("restore", "--to", self.saved)
        self.check_same(twin, HudiTable.data_files)
        self.check_same(twin, partial(timeline, without="restore"))
        self.check_same(twin, what_went)
        self.rows = dict(self.saved_rows)

    def delete_savepoint(self) -> None:
        assert self.saved is not None
        twin = self.by_hudi_on_a_copy(f"delete_savepoint(path => '{{path}}', instant_time => '{self.saved}')")
        self.run("savepoint", "delete", self.saved)
        self.check_same(twin, timeline)
        self.saved = None
        assert self.shown_savepoints() == []

    def hudi_services_leave_the_savepoint(self) -> None:
        """On a copy Hudi cleans and archives as much as it may: what the savepoint keeps stays, and its commit."""
        assert self.saved is not None
        (saved,) = saved_files(self.table)
        kept = {f"{partition}/{name}" for partition, names in saved.items() for name in names}
        table, self.table = self.table, self.twin()
        rows, saved = self.rows, self.saved
        self.rows, self.saved = dict(rows), None  # as of a savepoint behind a clean Hudi reads nothing
        self.hudi_upserts_with_its_services()
        cleans = completed_cleans(self.table.path).values()
        assert any(each.deleted for clean in cleans for each in clean.partitions.values())
        assert kept <= set(self.table.data_files())
        assert saved in {instant for instant, _ in self.table.completed_instants()}
        self.check()
        self.table, self.rows, self.saved = table, rows, saved

    def shown_savepoints(self) -> list[str]:
        return [row["savepoint_time"] for row in self.call(self.table, "show_savepoints(path => '{path}')")]

    def build_index(self) -> None:
        self.run("index", "build", "--type", "record", writers=False)
        self.check_index()

    def update_index(self) -> None:
        self.run("index", "update", "--type", "record", writers=False)
        self.check_index()

    def check_index(self) -> None:
        """Each key is in the file group in which Hudi reads it."""
        rows = self.table.frame().select("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name").collect()
        keys = [key for key, _, _ in rows]
        found = self.run("index", "lookup", *keys, "gone", "--type", "record", writers=False)
        places = {
            each["key"]: (each["partition_path"], each["file_id"]) for each in found["locations"] if each["file_id"]
        }
        assert places == {key: (partition, file.partition("_")[0]) for key, partition, file in rows}
        self.run("index", "verify", "--type", "record", "--all", writers=False)

    def service_metadata(self) -> None:
        """The metadata table is compacted and cleaned."""
        assert self.run("metadata", "compact")["metadata_compaction"]
        self.run("metadata", "clean")

    def service(self) -> None:
        """All at once, as the daemon does it."""
        self.run("service", "--engine", "local")

    def verify(self) -> None:
        self.run("verify", "--all", "--merge-sample", "10", writers=False)

    # Judges

    def is_changed(self) -> bool:
        """Whether a reader may find anything new since this was asked: what Lakeward keeps for itself is not read."""
        own = f"{self.table.path}/.hoodie/.lakeward/"
        files = [file for file in self.table.path.rglob("*") if file.is_file() and not str(file).startswith(own)]
        found = {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}
        before, self.found = self.found, found
        return found != before

    def check(self) -> None:
        """Hudi and hudi-rs read the rows of the model, and so does `lakeward.Table`."""
        self.check_own_reader()
        for number, read in enumerate(self.read()):
            self.check_rows(read, self.rows, f"answer {number} of `read`")
        if self.saved is not None:
            self.check_rows(self.table.snapshot(with_meta=False, **{"as.of.instant": self.saved}), self.saved_rows)
        by_hudi_rs = self.read_by_hudi_rs()
        assert not isinstance(by_hudi_rs, str), by_hudi_rs
        self.check_rows(by_hudi_rs, self.rows, "hudi-rs")
        if self.judges_queries:
            print(" " * 9, judge_every_query(self.table, by_metadata=self.has_metadata))

    def read_by_hudi_rs(self) -> Rows | str:
        return self.table.read_by_hudi_rs()

    def read(self) -> Iterator[Rows]:
        for options in (LISTED, BY_METADATA):
            yield self.table.snapshot(with_meta=False, **options)

    def check_own_reader(self) -> None:
        table = Table(str(self.table.path), timezone="UTC")
        found = table.scan(columns=["id", "ts", "v"]).to_arrow().to_pylist()
        assert {row["id"]: (row["ts"], row["v"]) for row in found} == self.rows
        assert len(found) == table.count() == len(self.rows)
        self.check_own_moments(table)

    def check_own_moments(self, table: Table) -> None:
        """The rows as of each instant are those of then, but for moments before what a clean or the archiver took. CI
        asks every fourth, counted from the newest."""
        instants = sorted(instant for instant, _ in self.table.completed_instants())
        self.past[instants[-1]] = dict(self.rows)
        given = []
        asked = [each for each in instants if each in self.past]
        for instant in asked if NIGHTLY else asked[::-4][::-1]:
            try:
                found = table.scan(columns=["id", "ts", "v"], as_of=instant).to_arrow().to_pylist()
            except Refused:
                given.append(False)
                continue
            assert {row["id"]: (row["ts"], row["v"]) for row in found} == self.past[instant], f"as of {instant}"
            assert len(found) == len(self.past[instant]), f"as of {instant} a key is there twice"
            given.append(True)
        assert given == sorted(given) and given[-1], "only the oldest moments are refused"

    def check_rows(self, read: Rows, rows: dict[str, tuple[int, str]], whose: str = "Hudi") -> None:
        found = [json.loads(row) for row in read]
        values = {row["id"]: (row["ts"], row["v"]) for row in found}
        other = {key: (values.get(key), rows.get(key)) for key in {*values, *rows} if values.get(key) != rows.get(key)}
        assert not other, f"{whose}: {other}"
        assert len(found) == len(rows), f"{whose}: a key is there twice"

    def as_of(self, instant: str) -> Rows:
        return self.table.as_of(instant)

    # How

    def keys(self) -> list[str]:
        return sorted(self.rows)

    def some(self) -> dict[str, tuple[int, str]]:
        number = self.number + 1
        chosen = {*range(number % 4, 16, 4), 20 + number}
        return self.changed(chosen) | {f"k{(number + 1) % 16}": (0, "late")}

    def changed(self, keys: Any) -> dict[str, tuple[int, str]]:
        self.number += 1
        names = [key if isinstance(key, str) else f"k{key}" for key in keys]
        return dict.fromkeys(names, (self.number, f"v{self.number}"))

    def by_hudi(self, operation: str, rows: dict[str, tuple[int, str]], **options: str) -> None:
        values = ", ".join(f"('{key}', {ts}L, '{part_of(key)}', '{v}')" for key, (ts, v) in rows.items())
        self.write_by_hudi(f"SELECT * FROM VALUES {values} AS t(id, ts, part, v)", operation, **options)
        self.learn(operation, rows)

    def write_by_hudi(self, query: str, operation: str, **options: str) -> None:
        self.table.write(self.spark.sql(query), operation, **options)

    def by_us(self, operation: str, rows: dict[str, tuple[int, str]]) -> None:
        self.run("write", "--input", self.input(rows), "--operation", operation)
        self.learn(operation, rows)

    def input(self, rows: dict[str, tuple[int, str]]) -> str:
        path = self.table.path.parent / "rows.parquet"
        columns = [[*rows], [ts for ts, _ in rows.values()], [*map(part_of, rows)], [v for _, v in rows.values()]]
        pq.write_table(pa.table(columns, schema=COLUMNS), path)
        return str(path)

    def learn(self, operation: str, rows: dict[str, tuple[int, str]]) -> None:
        """What a write does to the model."""
        if operation == "insert_overwrite":
            taken = {part_of(key) for key in rows}
            self.rows = {key: row for key, row in self.rows.items() if part_of(key) not in taken}
        for key, row in rows.items():
            if operation == "delete":
                self.rows.pop(key, None)
            elif key not in self.rows or self.rows[key][0] <= row[0]:
                self.rows[key] = row

    def run(self, *words: str, writers: bool = True) -> dict[str, Any]:
        """A verb of Lakeward on the table: `words` begin with its name, which may be two words."""
        verb = words[: 2 if words[0] in ("savepoint", "index", "metadata", "quarantine", "table") else 1]
        stopped = ("--writers", "stopped") if writers else ()
        code, printed = lakeward(*verb, str(self.table.path), *words[len(verb) :], *stopped)
        assert code == 0, (words, printed)
        return printed

    def twin(self) -> HudiTable:
        self.twins += 1
        return self.table.copy_to(self.table.path.with_name(f"twin-{self.twins}"))

    def by_hudi_on_a_copy(self, procedure: str) -> HudiTable | None:
        """What Hudi's procedure makes of the table; None where no release takes it."""
        twin = self.twin()
        self.call(twin, procedure)
        return twin

    def check_same(self, twin: HudiTable | None, of: Callable[[HudiTable], object]) -> None:
        assert twin is None or of(self.table) == of(twin)

    def call(self, table: HudiTable, procedure: str) -> list[Any]:
        """A procedure of Hudi's."""
        name = f"called_{self.twins}"
        if "{table}" in procedure:
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
            self.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
        call = procedure.format(path=table.path, table=name, metadata=self.metadata_options())
        found = self.spark.sql(f"CALL {call}").collect()
        if "{table}" in procedure:
            self.spark.sql(f"DROP TABLE {name}")
        return found

    def metadata_options(self) -> str:
        options = self.table.shape.options
        return ",".join(f"{key}={value}" for key, value in options.items() if key.startswith("hoodie.metadata."))

    def roll_back_by_hudi(self, table: HudiTable, instant: str) -> None:
        hudi: Any = self.spark._jvm.org.apache.hudi  # type: ignore[union-attr]
        builder = hudi.config.HoodieWriteConfig.newBuilder().withPath(str(table.path))
        config = builder.withProps(dict(table.shape.write_options())).build()
        writer = hudi.client.SparkRDDWriteClient(hudi.client.common.HoodieSparkEngineContext(self.spark._jsc), config)
        assert writer.rollback(instant)
        writer.close()

    def newest(self) -> str:
        return self.table.completed_instants()[-1][0]


def timeline(table: HudiTable, without: str = "none") -> set[str]:
    """Names on the timeline, but for those of one action, whose time differs."""
    names = {path.name for path in (table.path / ".hoodie/timeline").iterdir() if path.is_file()}
    return {name for name in names if f".{without}" not in name and not name.startswith(".")}


def what_went(table: HudiTable) -> list[tuple[str, str, frozenset[str]]]:
    """Each instant that a restore says it rolled back, in that order, with the names of its files."""
    (file,) = (table.path / ".hoodie/timeline").glob("[0-9]*_*.restore")
    record = read_record(file.read_bytes(), file=file.name)
    files = {
        instant: frozenset(
            path.rpartition("/")[2]
            for each in rollbacks
            for partition in each["partitionMetadata"].values()
            for path in partition["successDeleteFiles"]
        )
        for instant, rollbacks in record["hoodieRestoreMetadata"].items()
    }
    return [(each["commitTime"], each["action"], files[each["commitTime"]]) for each in record["restoreInstantInfo"]]


def saved_files(table: HudiTable) -> list[Mapping[str, frozenset[str]]]:
    """Names by partition, of each savepoint."""
    snapshot = scan(table.path)
    found = read_savepoints(LocalStorage(), str(table.path), snapshot.config, snapshot.timeline)
    return [each.files for each in found]


def part_of(key: str) -> str:
    """A key is of one partition; the keys of one come later."""
    number = int(key[1:])
    return "p2" if number > 20 and number % 3 == 0 else f"p{number % 2}"


class LifeOf8(Life):
    """Hudi 1.0.2 writes it, and both releases read it."""

    version = "8"

    def __init__(self, spark: SparkSession, path: Path, shape: TableShape, older: OtherRelease) -> None:
        super().__init__(spark, path, replace(shape, options={**shape.options, **STAYS}))
        self.older = older.table(path, shape)

    def newest_upgrades(self) -> None:
        """Hudi 1.2.0 makes version 9 of it."""
        self.table = self.table.reshaped(options=self.older.shape.options)
        self.older, self.write_by_hudi = None, super().write_by_hudi
        self.hudi_upserts()
        assert "hoodie.table.version=9" in (self.table.path / ".hoodie/hoodie.properties").read_text().splitlines()

    def read_by_hudi_rs(self) -> Rows | str:
        """hudi-rs 0.5 does not read a metadata table that 1.0.2 began and 1.2.0 went on with."""
        return super().read_by_hudi_rs() if self.older is not None else self.table.snapshot(with_meta=False)

    def write_by_hudi(self, query: str, operation: str, **options: str) -> None:
        self.older.write(query, operation, **options)

    def call(self, table: HudiTable, procedure: str) -> list[Any]:
        return self.older.at(table.path).procedure(procedure.replace("{metadata}", self.metadata_options()))

    def read(self) -> Iterator[Rows]:
        yield from super().read()
        if self.older is not None:
            for options in (LISTED, BY_METADATA):
                yield self.older.snapshot(**options)


class LifeOf6(LifeOf8):
    """Hudi 0.15.0 writes it. Lakeward verifies it, and compacts it if it is merged on read; all else is refused."""

    has_metadata = False

    def __init__(self, spark: SparkSession, path: Path, shape: TableShape, oldest: OtherRelease) -> None:
        Life.__init__(self, spark, path, shape)
        self.older = oldest.table(path, shape)

    def read(self) -> Iterator[Rows]:
        yield self.older.snapshot()
        yield self.table.snapshot(with_meta=False)

    def check_base_files(self) -> None:
        """They hold all rows for 0.15.0, too."""
        for read in (self.table.read_optimized(with_meta=False), self.older.read_optimized()):
            self.check_rows(read, self.rows)

    def hudi_rolls_back(self) -> None:
        """A write died right before its commit; the next one takes its blocks back by a command in the logs. One more
        follows: 0.15.0 reads nothing behind a command that is younger than the newest commit."""
        before = dict(self.rows)
        self.hudi_upserts()
        self.rows = before
        interrupt(self.older)
        self.by_hudi("upsert", self.some(), **BY_COMMANDS)
        self.hudi_upserts()

    def carry_out_a_plan(self) -> None:
        """Hudi's own, with a write behind it whose logs have the plan's instant in their names: 0.15.0 carries it out
        on a copy, and both leave the same rows in base files."""
        instant = self.older.compaction("op => 'schedule'")
        self.hudi_upserts()
        twin = self.older.at(self.twin().path)
        twin.compaction(f"op => 'run', timestamp => {instant}")
        printed = self.run("compact", "--type", "full", "--engine", "local")
        assert printed["compactions"][0]["instant"] == instant
        instants = {done["instant"] for done in printed["compactions"]}
        if instants == {instant}:
            assert self.older.read_optimized() == twin.read_optimized()
        assert self.older.snapshot() == twin.snapshot()

    def services_are_refused(self) -> None:
        """What is not for version 6 leaves the table as it was."""
        before, newest = self.table.files(), self.newest()
        path = str(self.table.path)
        rows = self.input(self.changed(range(3)))
        for words in (
            ("clean", path),
            ("archive", path),
            ("rollback", path),
            ("savepoint", "create", path),
            ("restore", path, "--to", newest),
            ("metadata", "compact", path),
            ("write", path, "--input", rows),
            *(() if self.is_merged else (("compact", path),)),
        ):
            code, printed = lakeward(*words, "--writers", "stopped")
            assert (code, self.table.files()) == (2, before), (words, printed)


class LifeOf10(Life):
    """No release reads version 10: so after each step a copy goes down to version 9, where both judges read it, and the
    table itself is read by `tests/native_log_judge.py`. Its rows are written by us, and by Hudi before and after."""

    def upgrade(self) -> None:
        self.run("table", "upgrade", "--to", "10")

    def downgrade(self) -> None:
        self.run("table", "downgrade", "--to", "9")

    def convert_to_lsm_tree(self) -> None:
        self.run("table", "convert", "--layout", "lsm_tree")

    def convert_back(self) -> None:
        self.run("table", "convert", "--layout", "default")

    @property
    def is_native(self) -> bool:
        properties = self.table.path / ".hoodie/hoodie.properties"
        return properties.exists() and "hoodie.table.version=10" in properties.read_text().splitlines()

    def check(self) -> None:
        if not self.is_native:
            super().check()
            return
        self.check_own_reader()
        assert judged_values(self.table.path) == {key: v for key, (_, v) in self.rows.items()}
        table, self.table = self.table, self.twin()
        try:
            if "lsm_tree" in (table.path / ".hoodie/hoodie.properties").read_text():
                self.convert_back()
            if self.saved is not None:
                self.run("savepoint", "delete", self.saved)  # what it keeps would keep the version
            saved, self.saved = self.saved, None
            self.run("quarantine", "purge", "--older-than", "0s")
            self.downgrade()
            super().check()
            self.saved = saved
        finally:
            self.table = table

    def by_hudi(self, operation: str, rows: dict[str, tuple[int, str]], **options: str) -> None:
        if self.is_native:
            self.by_us(operation, rows)
        else:
            super().by_hudi(operation, rows, **options)

    def as_of(self, instant: str) -> Rows:
        """No release reads as of it."""
        return ("",) if self.is_native else super().as_of(instant)

    def by_hudi_on_a_copy(self, procedure: str) -> HudiTable | None:
        return None if self.is_native else super().by_hudi_on_a_copy(procedure)

    def check_base_files(self) -> None:
        if not self.is_native:
            super().check_base_files()

    def shown_savepoints(self) -> list[str]:
        return [each["instant"] for each in self.run("savepoint", "list", writers=False)["savepoints"]]

    def check_index(self) -> None:
        if not self.is_native:
            super().check_index()
            return
        found = self.run("index", "lookup", *self.rows, "gone", "--type", "record", writers=False)
        places = {each["key"]: each["partition_path"] for each in found["locations"] if each["file_id"]}
        assert places == {key: part_of(key) for key in self.rows}
        self.run("index", "verify", "--type", "record", "--all", writers=False)


Step = Callable[[Any], None]
WHOLE: tuple[Step, ...] = (
    Life.hudi_begins,
    Life.hudi_upserts,
    Life.we_upsert,
    Life.build_index,
    Life.savepoint,
    Life.hudi_upserts,
    Life.hudi_services_leave_the_savepoint,
    Life.compact_logs,
    Life.we_delete,
    Life.compact_full,
    Life.update_index,
    Life.roll_back,
    Life.roll_back_late,
    Life.hudi_overwrites,
    Life.we_upsert,
    Life.restore,
    Life.hudi_deletes,
    Life.update_index,
    Life.delete_savepoint,
    Life.hudi_upserts,
    Life.compact_full,
    Life.we_upsert,
    Life.compact_full,
    Life.clean_and_undo,
    Life.we_overwrite,
    Life.clean,
    Life.service_metadata,
    Life.archive,
    Life.hudi_upserts,
    Life.service,
    Life.update_index,
    Life.verify,
    Life.hudi_goes_on_with_its_services,
)


def without(*steps: Step) -> tuple[Step, ...]:
    return tuple(step for step in WHOLE if step not in steps)


NATIVE: tuple[Step, ...] = (
    Life.we_upsert,
    Life.build_index,
    Life.savepoint,
    Life.we_upsert,
    Life.compact_logs,
    Life.we_delete,
    Life.compact_full,
    Life.update_index,
    Life.service_metadata,
    Life.roll_back_late,
    Life.we_overwrite,
    Life.we_upsert,
    Life.restore,
    Life.update_index,
    Life.delete_savepoint,
    Life.we_upsert,
    Life.compact_full,
    Life.we_upsert,
    Life.compact_full,
    Life.clean_and_undo,
    Life.we_overwrite,
    Life.clean,
    Life.archive,
    Life.we_upsert,
    Life.service,
    Life.update_index,
    Life.verify,
)
BEFORE_10 = (Life.hudi_begins, Life.hudi_upserts, Life.compact_full, LifeOf10.upgrade)
AFTER_10 = (LifeOf10.downgrade, Life.hudi_upserts, Life.hudi_goes_on_with_its_services)
STORIES: dict[str, tuple[Step, ...]] = {
    # With statistics of partitions Hudi 1.2.0 fails over its own insert_overwrite behind a compaction ("pathInfo" is
    # null), on tables that we never touched, too.
    "version 9, merged on read": tuple(
        step
        for each in WHOLE
        for step in (
            (each, Life.hudi_upserts_by_its_index)
            if each is Life.service_metadata
            else (Life.we_overwrite if each is Life.hudi_overwrites else each,)
        )
    ),
    "version 9, copied on write": (Life.we_create, *without(Life.hudi_begins, Life.compact_logs, Life.compact_full)),
    "version 8, copied on write": (
        *without(Life.compact_logs, Life.compact_full, Life.hudi_services_leave_the_savepoint),
        LifeOf8.newest_upgrades,
    ),
    "version 8, merged on read": (
        Life.we_create,
        *without(Life.hudi_begins, Life.compact_logs, Life.hudi_services_leave_the_savepoint),
        LifeOf8.newest_upgrades,
    ),
    "version 10, native logs": (*BEFORE_10, *NATIVE, *AFTER_10),
    "version 10, lsm_tree": (
        *BEFORE_10,
        LifeOf10.convert_to_lsm_tree,
        *(step for step in NATIVE if step is not Life.compact_logs),
        LifeOf10.convert_back,
        *AFTER_10,
    ),
    "version 6, copied on write": (
        Life.hudi_begins,
        Life.hudi_upserts,
        LifeOf6.verify,
        LifeOf6.services_are_refused,
        Life.hudi_overwrites,
        Life.hudi_deletes,
        LifeOf6.verify,
        Life.hudi_goes_on_with_its_services,
        LifeOf6.verify,
    ),
    "version 6, merged on read": (
        Life.hudi_begins,
        Life.hudi_upserts,
        LifeOf6.verify,
        LifeOf6.services_are_refused,
        Life.compact_full,
        Life.hudi_upserts,
        Life.hudi_deletes,
        LifeOf6.carry_out_a_plan,
        LifeOf6.hudi_rolls_back,
        LifeOf6.verify,
        Life.compact_full,
        Life.hudi_overwrites,
        Life.hudi_upserts,
        Life.compact_full,
        Life.hudi_goes_on_with_its_services,
        Life.hudi_upserts,
        Life.compact_full,
        LifeOf6.verify,
    ),
}
OF_THIS_COMMIT = spread(STORIES, least=2)
"""Two; the next commits run the others."""
JUDGED_IN_CI = Life.archive
"""The step after which one story of a commit asks Hudi all kinds of query: what restore, clean and archive left behind
is there by then. `make interop` asks after each step of each."""


def made(name: str, spark: SparkSession, path: Path, release: Callable[[str], OtherRelease]) -> Life:
    version, _, how = name.removeprefix("version ").partition(", ")
    is_merged = how != "copied on write"
    match version:
        case "6":
            of = {"hoodie.datasource.write.table.type": shape(is_merged).options["hoodie.datasource.write.table.type"]}
            return LifeOf6(spark, path, with_options(SHAPE_OF_6, **of), release(OLDEST_VERSION_OF_6))
        case "8":
            return LifeOf8(spark, path, shape(is_merged, **PLAIN, **BY_EVENT_TIME), release(OLDEST_VERSION_OF_8))
        case "9":
            return Life(spark, path, shape(is_merged, **(INDEXED if is_merged else PLAIN)))
        case _:
            return LifeOf10(spark, path, shape(is_merged, **PLAIN))


@contextmanager
def named(step: str, name: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the step {step} of the story {name!r}")
        raise
    finally:
        print(f"{time.monotonic() - began:6.1f} s  {step}")


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Callable[[str], OtherRelease]]:
    """Starts a release of Hudi that is not this process's."""
    with ExitStack() as releases:

        def start(version: str) -> OtherRelease:
            try:
                return releases.enter_context(OtherRelease(version, tmp_path / version))
            except HudiMissing as missing:
                (pytest.fail if IN_CI else pytest.skip)(str(missing))
                raise

        yield start


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OF_THIS_COMMIT else pytest.mark.wide) for name in STORIES]
)
def test_a_story(name: str, spark: SparkSession, release: Callable[[str], OtherRelease], tmp_path: Path) -> None:
    """Every service of Lakeward between Hudi's writes, and both judges after each."""
    life = made(name, spark, tmp_path / "table", release)
    for number, step in enumerate(STORIES[name], 1):
        with named(f"{number} {step.__name__}", name):
            step(life)
            life.judges_queries = NIGHTLY or (name == OF_THIS_COMMIT[0] and step is JUDGED_IN_CI)
            if life.is_changed() or life.judges_queries:
                life.check()
