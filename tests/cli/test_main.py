"""The command line's contract: what goes to stdout, what to stderr, and the exit code."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.cli.main import run
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.format.timeline.commit_metadata import read_commit_metadata, write_commit_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan, read_compaction_plan, write_compaction_plan
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.service_instants import ServiceName
from tests.crash.compacting import check_finished, check_readable, everything
from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import read_rows
from tests.services.hudi_writes import HudiWrite

IN_PROCESS = ("--engine", "local", "--writers", "stopped")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9", tmp_path / "table")


def test_a_compaction_from_end_to_end(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """There is one JSON document on stdout and the story on stderr, and the exit code is 0."""
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) == 0
    out, err = capfd.readouterr()
    (compaction,) = json.loads(out)["compactions"]
    assert compaction["operations"][0]["counts"]["rows"] == 4
    assert "scheduled" in err
    assert "committed" in err
    check_finished(table)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ((), "this process"),
        (("--engine", "local"), "this process"),
        (("--master", "local[1]"), "Spark local[1]"),
        (("--engine", "spark"), "Spark local[*]"),
        (("--master", "local[1]", "--engine", "auto"), "Spark local[1]"),
    ],
)
def test_a_small_plan_is_merged_in_process(
    table: Path,
    options: tuple[str, ...],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """This is the default where no master is named; else it is said that Spark starts, before it does."""
    in_process = InProcessDispatcher()
    monkeypatch.setattr(SparkDispatcher, "probe", lambda self, guard: None)
    monkeypatch.setattr(SparkDispatcher, "run", lambda self, *args, **named: in_process.run(*args, **named))
    assert run(["compact", str(table), "--writers", "stopped", *options]) == 0
    err = capfd.readouterr().err
    assert err.startswith(f"reading {table}")
    assert f"merging on {place}," in err
    assert (f"starting {place}" in err) == place.startswith("Spark")
    check_finished(table)


def test_a_second_compaction_exits_three_when_asked(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing to do is no failure, unless --exit-code makes it show."""
    assert run(["compact", str(table), *IN_PROCESS]) == 0
    assert run(["compact", str(table), *IN_PROCESS]) == 0
    assert "Nothing to compact." in capfd.readouterr().out
    assert run(["compact", str(table), *IN_PROCESS, "--exit-code"]) == 3


@pytest.mark.usefixtures("short_waits")
@pytest.mark.slow
def test_what_writers_are_waited_for(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A log compaction waits for the write under way for no longer than it is asked to; what is held back for longer is
    not published, and the report says for which write."""
    write = HudiWrite(table, SystemClock(), ago=30.0).inflight("p")
    beside = ("--engine", "local", "--lock", "filesystem", "--yield-to-writers", "1s")
    assert run(["compact", str(table), "--type", "log", *beside, "--json"]) == 0

    (compaction,) = json.loads(capfd.readouterr().out)["compactions"]
    assert compaction["completion_time"] is None and write.instant in compaction["dropped"][0]["why"]
    write.complete()
    assert run(["compact", str(table), "--type", "log", *beside, "--json"]) == 0
    (compaction,) = json.loads(capfd.readouterr().out)["compactions"]
    assert compaction["completion_time"] is not None


@pytest.mark.parametrize("statement", [(), ("--writers", "stopped", "--lock", "filesystem")])
def test_a_verb_that_writes_needs_one_statement_about_writers(
    table: Path, statement: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """A verb that is given none, or two, refuses and says what to do."""
    before = everything(table)
    assert run(["compact", str(table), *statement]) == 2
    assert "--lock filesystem" in capfd.readouterr().err
    assert everything(table) == before


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ((), "hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"),
        ((), "hoodie.write.lock.zookeeper.url=HOST:PORT"),
        (("--lock", "zookeeper"), "hoodie.write.lock.zookeeper.url=HOST:PORT"),
        (("--lock", "zookeeper", "--lock-zookeeper", "zk:1", "--lock-zookeeper-key", "a"), "--lock-zookeeper-path"),
        (("--lock", "zookeeper", "--lock-zookeeper", "zk:x"), "zk1:2181,zk2:2181"),
        (("--lock", "zookeeper", "--lock-zookeeper", "zk", "--lock-zookeeper-path", "locks"), "/hudi/locks"),
        (("--lock", "zookeeper", "--lock-zookeeper", "zk", "--lock-expire", "5"), "--lock-expire"),
        (("--lock", "filesystem", "--lock-zookeeper", "zk"), "--lock zookeeper"),
        (("--lock", "storage", "--lock-expire", "5"), "--lock-expire"),
        (("--lock", "storage"), "--lock filesystem"),
        ((), "hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"),
    ],
)
def test_a_lock_must_be_one_that_the_writers_can_take(
    table: Path, statement: tuple[str, ...], shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is missing, or what does not go together, is reported with what the writers must set."""
    before = everything(table)
    assert run(["compact", str(table), *statement]) == 2
    assert shown in capfd.readouterr().err
    assert everything(table) == before


def test_zookeeper_that_does_not_answer(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The exit code is 75, since it may come back, after --lock-wait or the five seconds that any server has. Nothing
    is written before."""
    before = everything(table)
    lock = ["--lock", "zookeeper", "--lock-zookeeper", "127.0.0.1:1", "--lock-wait", "200ms"]
    assert run(["compact", str(table), *lock]) == 75
    err = capfd.readouterr().err
    assert "LW-LOCK-AWAY" in err and "did not answer for 5 s" in err
    assert "127.0.0.1:1" in err
    assert everything(table) == before


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("compact", "t", "--type", "all"), "'all' is not one of 'hybrid', 'full', 'log'"),
        (
            ("index", "lookup", "t", "--type", "bucket"),
            "'bucket' is not one of 'simple', 'bloom', 'metadata', 'record'",
        ),
        (("compcat", "t"), "Did you mean 'compact'?"),
        (("inspect",), "Missing argument 'TABLE'"),
    ],
)
def test_a_slip_is_shown_like_every_error(
    words: tuple[str, ...], shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, a code, no box of 80 columns, none of the libraries' own words; with --json a document."""
    assert run(words) == 2
    err = capfd.readouterr().err
    assert err.startswith("LW-USAGE: ") and shown in err and "--help` explains" in err
    assert "Value error" not in err and "─" not in err
    assert run([*words, "--json"]) == 2
    assert json.loads(capfd.readouterr().err)["error"]["code"] == "LW-USAGE"


def test_sharing_is_typed_as_a_lock(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the configuration calls `share` the command line calls by its lock, and says so."""
    assert run(["compact", str(table), "--writers", "share"]) == 2
    assert "name the lock that they share, --lock filesystem" in capfd.readouterr().err


def test_a_dry_run_needs_no_statement(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It writes nothing, so there is nothing to promise."""
    before = everything(table)
    assert run(["compact", str(table), "--dry-run", "--json"]) == 0
    (decision,) = json.loads(capfd.readouterr().out)["decisions"]
    assert (decision["choice"], decision["reason"]) == ("FULL", "small-base")
    assert run(["compact", str(table), "--dry-run"]) == 0
    assert "Nothing written." in capfd.readouterr().out
    assert everything(table) == before


def test_explain_says_that_a_daemon_services_the_table(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without the daemon's configuration the result may be another one; the timeline says that there is a daemon."""
    for verb in ("plan", "explain"):
        assert run([verb, str(table)]) == 0
        assert "Service" not in capfd.readouterr().err
    instant = "20261121043800000"
    plan = CompactionPlan((), extra_metadata={"planned_by": "lakeward"} | ServiceName("lake-1", "s").as_metadata())
    (table / f".hoodie/timeline/{instant}.compaction.requested").write_bytes(write_compaction_plan(plan))
    configuration = table.parent / "lakeward.toml"
    configuration.write_text('[service]\nname = "lake-1"\n')

    for verb in ("plan", "explain"):
        assert run([verb, str(table)]) == 0
        shown = capfd.readouterr().err
        assert f"Service lake-1 works on this table, too: its daemon planned compaction {instant}" in shown, verb
        assert "--config" in shown
        assert run([verb, str(table), "--config", str(configuration)]) == 0
        assert "Service" not in capfd.readouterr().err, verb


@pytest.mark.parametrize("filters", [("--partition", "nowhere*"), ("--file-group", "0f3a"), ("--partition", "")])
@pytest.mark.parametrize(
    "verb", [("plan",), ("explain",), ("compact", "--writers", "stopped"), ("compact", "--dry-run")]
)
def test_a_filter_that_matches_nothing_exits_two(
    table: Path, verb: tuple[str, ...], filters: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A slip in a name does not look like a table without work: it is named, and nothing is written."""
    before = everything(table)
    assert run([verb[0], str(table), *verb[1:], *filters]) == 2
    assert f"{filters[0]} {filters[1]} matches nothing" in capfd.readouterr().err
    assert everything(table) == before


def test_a_refused_table_exits_two(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The error names the property and the remedy, as JSON when asked."""
    properties = table / ".hoodie/hoodie.properties"
    properties.write_text(
        properties.read_text().replace(
            "cdc.enabled=false", "cdc.enabled=true\nhoodie.table.cdc.supplemental.logging.mode=ALL"
        )
    )
    before = everything(table)
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) == 2
    error = json.loads(capfd.readouterr().err.splitlines()[-1])["error"]
    assert error["code"] == "LW-REFUSED"
    assert "hoodie.table.cdc.enabled" in error["why"]
    assert error["remedy"]
    assert everything(table) == before


@pytest.mark.parametrize("verb", [("compact", *IN_PROCESS), ("inspect",), ("verify",)])
def test_a_property_that_leads_into_another_table(
    table: Path, tmp_path: Path, verb: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written there, nor here: by it, instants were written and files deleted in the other table."""
    other = copy_golden("v9", tmp_path / "other", pending=True)
    properties = table / ".hoodie/hoodie.properties"
    kept = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.timeline.path")]
    properties.write_text("\n".join([*kept, "hoodie.timeline.path=../../other/.hoodie/timeline", ""]))
    before = everything(table), everything(other)
    assert run([verb[0], str(table), *verb[1:], "--json"]) != 0
    assert "hoodie.timeline.path" in capfd.readouterr().err
    assert (everything(table), everything(other)) == before


LINKS = {
    "a partition": ("q", "p"),
    "the table": ("x", "."),
    "a file": ("p/x_0-0-0_20261121043709156.parquet", "../../other.parquet"),
    "the timeline": (".hoodie/timeline", "../../timeline"),
    "the table's own folder": (".hoodie", "../hoodie"),
    "a folder in it": (".hoodie/.temp", "../../temp"),
}


@pytest.mark.parametrize("where", LINKS)
def test_links_inside_of_a_table(table: Path, tmp_path: Path, where: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each is named, by `inspect` and `verify` too; the table is refused, and nothing is written here or where it
    leads: a link to a partition doubled its rows, one to the table itself ended in no time and took 4.9 GB."""
    name, target = LINKS[where]
    (tmp_path / "other.parquet").write_bytes(b"another table's")
    (tmp_path / "temp").mkdir()
    place = table / name
    if place.exists():
        place.rename(tmp_path / target.rpartition("/")[2])
    place.symlink_to(target)
    before = everything(table), everything(tmp_path)
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) in (1, 2)
    error = json.loads(capfd.readouterr().err.splitlines()[-1])["error"]
    assert name in str(error)
    assert run(["verify", str(table), "--json"]) != 0
    assert name in "".join(capfd.readouterr())
    inspected = run(["inspect", str(table), "--json"])
    out, err = capfd.readouterr()
    assert name in (err if inspected else str(json.loads(out)["links"]))
    assert (everything(table), everything(tmp_path)) == before


def name_partition(table: Path, name: str) -> None:
    """The golden table's one partition is called so, a name as long as before; the rows of its log say so, too."""
    (table / "p").rename(table / name)
    for file in (table / name).glob(".*.log.*"):
        if not file.name.endswith(".crc"):
            file.write_bytes(file.read_bytes().replace(b"\x02p", b"\x02" + name.encode()))
    for file in (table / ".hoodie/timeline").glob("*_*.*commit"):
        commit = read_commit_metadata(file.read_bytes(), file=file.name, layout=2)
        stats = tuple(
            replace(stat, path=f"{name}/{Path(stat.path or '').name}", partition_path=name)
            for stat in commit.partition_to_write_stats["p"]
        )
        times = file.stat().st_mtime
        file.write_bytes(write_commit_metadata(replace(commit, partition_to_write_stats={name: stats})))
        os.utime(file, (times, times))


@pytest.mark.parametrize("name", ["\\", "\n", "\x1b", "{"])
def test_partitions_of_any_name(table: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What Hudi writes we plan, compact and inspect; what is printed for people commands no terminal."""
    name_partition(table, name)
    assert run(["explain", str(table)]) == 0
    assert run(["inspect", str(table)]) == 0
    assert "\x1b" not in "".join(capfd.readouterr())
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) == 0
    (compaction,) = json.loads(capfd.readouterr().out)["compactions"]
    assert compaction["operations"][0]["counts"]["rows"] == 4
    assert run(["inspect", str(table), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["partitions"] == [name]
    renamed = {"_hoodie_partition_path": "p", "part": "p"}
    assert [row | renamed for row in read_rows(table)] == expected_rows("v9")


def test_a_partition_without_a_printable_name(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is left out by name, in each verb, and the others are compacted: it stopped the whole table."""
    shutil.copytree(os.fsencode(table / "p"), os.fsencode(table) + b"/q\xff")
    before = everything(table)
    assert run(["inspect", str(table), "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["partitions"] == ["p"]
    (frozen,) = report["frozen_groups"]
    assert (frozen["partition_path"], "UTF-8" in frozen["why"]) == ("q\\xff", True)
    for verb in (["inspect"], ["explain"], ["plan", "--explain"], ["verify"]):
        run([verb[0], str(table), *verb[1:]])
        assert "q\\xff" in "".join(capfd.readouterr()), verb
    assert everything(table) == before
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) == 0
    (compaction,) = json.loads(capfd.readouterr().out)["compactions"]
    assert [operation["partition_path"] for operation in compaction["operations"]] == ["p"]
    plan = read_compaction_plan(
        next((table / ".hoodie/timeline").glob("*.compaction.requested")).read_bytes(), file="x"
    )
    assert plan.missing_partitions == ()


def test_a_table_below_a_link(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The base path may be one, too: it is the operator's word."""
    (tmp_path / "lake").symlink_to(tmp_path)
    (tmp_path / "orders").symlink_to("lake/table")
    assert run(["compact", str(tmp_path / "orders"), *IN_PROCESS]) == 0
    assert "committed" in capfd.readouterr().err
    check_finished(table)


def test_a_held_lock_exits_five(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The command ends after --lock-wait, and names the file."""
    (table / SPARK_LOCK).touch()
    assert run(["compact", str(table), *IN_PROCESS, "--lock-wait", "0s"]) == 5
    assert SPARK_LOCK in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("compact",),
        ("compact", "TABLE", "--nonsense"),
        ("compact", "TABLE", "--type", "sideways"),
        ("compact", "TABLE", "--writers", "stopped", "--memory", "lots"),
        ("compact", "TABLE", "--writers", "stopped", "--memory", "299MiB"),
        ("write", "TABLE", "--input", "-", "--writers", "stopped", "--memory", "1KiB"),
        ("compact", "TABLE", "--writers", "stopped", "--wait", "forever"),
        ("compact", "TABLE", "--writers", "stopped", "--spark-conf", "novalue"),
        ("inspect", "/no/such/table"),
        ("inspect", "hdfs://name/table"),
    ],
)
def test_wrong_words_exit_two(table: Path, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """There is one explanation on stderr and nothing on stdout."""
    assert run([str(table) if word == "TABLE" else word for word in arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err


def test_plan_and_explain(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What would be done with its numbers, and a sentence for each file group; nothing is written."""
    before = everything(table)
    assert run(["plan", str(table), "--json"]) == 0
    planned = json.loads(capfd.readouterr().out)
    assert planned["operations"] == 1
    assert planned["predicted"]["read_amplification_before"] > 2
    assert planned["predicted"]["read_amplification_after"] == 1
    (runs_on,) = planned["runs_on"]
    assert (runs_on["engine"], runs_on["choices"], runs_on["input_bytes"] > 0) == ("in_process", ["FULL"], True)
    assert run(["plan", str(table), "--explain", "--set", "planner.small_base_size=1KiB"]) == 0
    shown = capfd.readouterr().out
    assert "log-ratio" in shown
    assert "FULL would run in the process of the command, since it reads" in " ".join(shown.split())
    assert run(["compact", str(table), "--dry-run", "--engine", "spark", "--json"]) == 0
    (runs_on,) = json.loads(capfd.readouterr().out)["runs_on"]
    assert (runs_on["engine"], runs_on["master"], runs_on["why"]) == ("spark", "local[*]", "by --engine spark")
    assert run(["explain", str(table), "--type", "log", "--json"]) == 0
    explained = json.loads(capfd.readouterr().out)
    (decision,), (runs_on,) = explained["decisions"], explained["runs_on"]
    assert decision["choice"] == "LOG" and (runs_on["engine"], runs_on["choices"]) == ("in_process", ["LOG"])
    assert decision["explanation"].startswith("LOG")
    assert everything(table) == before


def test_a_log_compaction_from_end_to_end(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Completed as a delta commit with the base file as it was; a full one afterwards takes it in."""
    assert run(["compact", str(table), *IN_PROCESS, "--type", "log", "--json"]) == 0
    (log_compaction,) = json.loads(capfd.readouterr().out)["compactions"]
    assert log_compaction["action"] == "logcompaction"
    assert log_compaction["operations"][0]["kind"] == "LOG"
    check_readable(table)
    assert not list((table / ".hoodie/timeline").glob("*.logcompaction.inflight.*"))
    assert run(["compact", str(table), *IN_PROCESS, "--type", "full"]) == 0
    check_readable(table)


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("planner.log_ration=1", "planner.log_ratio"),
        ("planner.publish=somehow", "auto, split or hybrid"),
        ("hoodie.compaction.strategy=MyOwn", "MyOwn"),
        ("nothing", "no '='"),
    ],
)
def test_a_wrong_setting_says_what_is_right(
    table: Path, setting: str, shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, with a suggestion where there is one."""
    assert run(["plan", str(table), "--set", setting]) == 2
    assert shown in capfd.readouterr().err


def test_a_storage_that_fails_is_no_traceback(
    table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk or a missing permission is reported in three sentences; --debug shows where it happened."""

    def full(storage: LocalStorage, path: str) -> object:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(LocalStorage, "open_output", full)
    assert run(["compact", str(table), *IN_PROCESS]) == 1
    err = capfd.readouterr().err
    assert "No space left on device" in err
    assert "Traceback" not in err
    assert run(["compact", str(table), *IN_PROCESS, "--debug"]) == 1
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (errno.EROFS, "The storage is read-only: {path}."),
        (errno.EACCES, "This process is not allowed to do this at {path}."),
        (errno.EPERM, "This process is not allowed to do this at {path}."),
    ],
)
def test_storage_that_may_not_be_written_is_called_that(
    table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int, what: str
) -> None:
    """The message has the path and a remedy; a 403 of an object store is an EACCES, too (`storage/object_store`)."""
    paths: list[str] = []

    def refuses(storage: LocalStorage, path: str) -> object:
        paths.append(path)
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(LocalStorage, "open_output", refuses)
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) == 1
    shown = json.loads(capfd.readouterr().err.splitlines()[-1])["error"]
    assert shown["what"] == what.format(path=paths[0])
    assert shown["why"] == f"{os.strerror(number)}."
    assert shown["remedy"].endswith("Nothing half-done stays visible.")


@pytest.mark.parametrize(
    ("words", "home", "shown"),
    [
        (("--engine", "spark"), "nowhere", "JAVA_HOME is wrong: {home}.\nThere is no such folder."),
        (("--master", "spark://127.0.0.1:1"), None, "No Spark master answers at spark://127.0.0.1:1."),
    ],
)
@pytest.mark.parametrize("verb", ["compact", "service"])
def test_a_spark_that_cannot_start_is_shown_before_anything_is_begun(
    table: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    words: tuple[str, ...],
    home: str | None,
    shown: str,
) -> None:
    """No plan is left behind; a dry run, which starts none, is not concerned."""
    if home is None:
        monkeypatch.setattr("lakeward.engine.dispatch.spark.ensure_java", lambda: None)
    else:
        monkeypatch.setenv("JAVA_HOME", str(table.parent / home))
    before = everything(table)
    assert run([verb, str(table), *words, "--writers", "stopped"]) in (2, 75)
    err = capfd.readouterr().err
    assert shown.format(home=table.parent / "nowhere") in err and "Traceback" not in err
    assert everything(table) == before
    assert run([verb, str(table), *words, "--dry-run"]) == 0


def test_versions_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    """What must agree on every machine."""
    assert run(["version", "--json"]) == 0
    assert {"lakeward", "python", "pyarrow"} <= json.loads(capfd.readouterr().out).keys()


def test_help_names_every_verb(capfd: pytest.CaptureFixture[str]) -> None:
    """`--help` exits with 0."""
    assert run(["--help"]) == 0
    out = capfd.readouterr().out
    assert all(verb in out for verb in ("inspect", "plan", "explain", "compact", "version"))
