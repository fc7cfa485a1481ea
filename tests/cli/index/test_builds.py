"""Builds of indexes by hand: on any engine, gone on with after a kill, shown meanwhile and remembered by the store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import StoreUnavailable
from lakeward.cli.main import run
from lakeward.engine.task import entry
from lakeward.index.record.record_file import RecordFile
from lakeward.protocol.index import bucket_tasks
from lakeward.protocol.index.bucket_tasks import BucketTask
from lakeward.services.indexing.run import index_build
from lakeward.services.indexing.run.bucket_dispatch import BucketDispatch
from lakeward.state.store import IndexBuilds, Store, open_store
from tests.crash.compacting import everything
from tests.faults import Killed
from tests.write.writing import new_table, write

TYPES = ["record", pytest.param("postgres", marks=pytest.mark.services)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "table")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "b", "x"), ("k3", 1, "c", "x")])
    return table


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = tmp_path / "lakeward.toml"
    config.write_text(f'[state]\nurl = "sqlite:///{tmp_path / "store.db"}"\n')
    return config


@pytest.fixture
def call(
    table: Path, kind: str, config: Path, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """A verb about the index of the type `kind`: what it prints as JSON, or else as an error."""
    where = ["--url", request.getfixturevalue("postgresql_url")] if kind == "postgres" else []

    def call(verb: str, *arguments: str, code: int = 0) -> Any:
        capfd.readouterr()
        of_type = [] if verb == "list" else ["--type", kind]
        words = ["index", verb, str(table), *arguments, *of_type, *where, "--config", str(config), "--json"]
        assert run(words) == code
        shown = capfd.readouterr()
        return json.loads(shown.out) if shown.out else shown.err

    return call


def listed(call: Callable[..., Any], kind: str) -> tuple[str, str]:
    *_, found = [each for each in call("list")["indexes"] if each["type"] == kind]
    return found["state"], re.sub("the last one .* ago", "the last one just now", found["note"].partition(". ")[2])


def dying(*given: object) -> None:
    raise Killed("the build")


def stopped(call: Callable[..., Any], verb: str) -> None:
    """A process dies when all keys are read, and before the index has any."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index_build, "located_keys", dying)
        patched.setattr(index_build, "make_bucket_files", dying)
        with pytest.raises(Killed):
            call(verb)


@pytest.mark.parametrize("kind", TYPES)
def test_gone_on_with(kind: str, table: Path, call: Callable[..., Any]) -> None:
    """A build, and one beside an index, reads what was not read before it was stopped; meanwhile it is shown how far it
    is, and once the index is there nothing is left of it."""
    before = everything(table)
    shown = call("build", "--dry-run")
    assert (shown["file_groups"], shown["file_groups_read"], shown["engine"]) == (3, 0, "in_process")
    assert shown["bytes"] == shown["input_bytes"] > 0 and everything(table) == before
    stopped(call, "build")
    assert listed(call, kind) == ("being built", "A build has read 3 of 3 file groups, the last one just now.")
    write(table, [("k3", 2, "c", "y"), ("k4", 2, "d", "x")])
    assert listed(call, kind) == ("being built", "A build has read 2 of 4 file groups, the last one just now.")
    shown = call("build", "--dry-run")
    assert (shown["file_groups"], shown["file_groups_read"]) == (4, 2) and 0 < shown["input_bytes"] < shown["bytes"]
    built = call("build")
    assert (built["file_groups"], built["file_groups_resumed"], built["entries"]) == (4, 2, 4)
    assert listed(call, kind) == ("in use", "")
    assert call("verify", "--all")["faults"] == []
    assert "built already" in call("build", "--dry-run", code=2)

    stopped(call, "rebuild")
    assert "A build has read 4 of 4 file groups, the last one just now." in listed(call, kind)
    shown = call("rebuild", "--dry-run")
    assert (shown["dry_run"], shown["file_groups"], shown["file_groups_read"]) == (True, 4, 4)
    assert call("rebuild")["file_groups_resumed"] == 4
    assert listed(call, kind) == ("in use", "") and call("verify", "--all")["faults"] == []
    assert not [path for path in everything(table) if "building" in path]

    stopped(call, "rebuild")
    assert call("drop")["is_there"]
    assert not [path for path in everything(table) if ".lakeward/index" in path]


@pytest.mark.parametrize("kind", ["record"])
def test_shown_to_people(kind: str, table: Path, capfd: pytest.CaptureFixture[str], call: Callable[..., Any]) -> None:
    """What a build would read is said in a sentence, and what of it is there."""
    stopped(call, "build")
    write(table, [("k3", 2, "c", "y")])
    capfd.readouterr()
    assert run(["index", "build", str(table), "--type", "record", "--dry-run", "--engine", "local"]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith("Would read the keys of 1 file group, of ") and ", in the process of the command, " in shown
    assert "What 2 others hold is there from a build that was stopped." in shown
    assert run(["index", "build", str(table), "--type", "record"]) == 0
    capfd.readouterr()
    assert run(["index", "rebuild", str(table), "--type", "record", "--dry-run"]) == 0
    assert "of 3 file groups" in (shown := capfd.readouterr().out) and "would be dropped then" in shown


@pytest.mark.parametrize("kind", ["record"])
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_on_an_engine(engine: str, kind: str, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this machine read the keys and write the buckets, or Spark's executors; also where the command
    itself sorts the entries, as at the end of a build."""
    monkeypatch.setattr("lakeward.engine.dispatch.engine_rule.IN_PROCESS_BELOW_BYTES", 0)
    monkeypatch.setattr(bucket_tasks, "SPREAD_SECONDS", -1.0)
    run_tasks, ran = BucketDispatch.run, list[int]()

    def watched(self: BucketDispatch, tasks: Sequence[BucketTask], size: int) -> list[tuple[RecordFile, ...]]:
        ran.append(len(tasks))
        return run_tasks(self, tasks, size)

    monkeypatch.setattr(BucketDispatch, "run", watched)
    assert call("build", "--engine", engine, "--dry-run")["engine"] == engine
    built = call("build", "--engine", engine, "--bytes-per-second", "100MiB")
    assert (built["file_groups"], built["entries"], ran) == (3, 3, [])
    assert call("verify", "--all")["faults"] == []
    call("drop")
    call("build", "--engine", engine, "--by-partition", "--buckets", "3")
    assert ran == [2] and call("verify", "--all")["faults"] == []


@pytest.mark.parametrize("kind", ["record"])
def test_options_that_cannot_be(kind: str, call: Callable[..., Any], table: Path) -> None:
    """A rate of nothing is refused, and options of tasks are where none are run."""
    assert "--bytes-per-second cannot be '0'" in call("build", "--bytes-per-second", "0", code=2)
    for kind_of in ("metadata", "bloom"):
        for words in (("--engine", "local"), ("--bytes-per-second", "1MiB")):
            assert run(["index", "rebuild", str(table), "--type", kind_of, "--dry-run", *words]) == 2
    for words in (("--engine", "local"), ("--dry-run",), ("--by-partition",)):
        assert run(["index", "build", str(table), "--type", "bloom", *words]) == 2


@pytest.fixture
def store(tmp_path: Path) -> Store:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    assert run(["state", "migrate", "--url", url]) == 0
    return open_store(url, clock=SystemClock())


@pytest.mark.parametrize("kind", ["record"])
def test_what_the_store_remembers(
    kind: str, table: Path, call: Callable[..., Any], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build is there with its file groups from its beginning on, the same one when it goes on, and how it ended. A
    store that does not answer is said to remember nothing, and stops nothing: Keeps of cli/index/remembered_build."""
    stopped(call, "build")
    (begun,) = store.index_builds.latest()
    assert (begun.table, begun.index_type, begun.file_groups, begun.ended_at) == (str(table), "record", 3, None)
    groups = store.index_builds.checkpoints(begun.id)
    assert [each.partition_path for each in groups] == ["a", "b", "c"] and groups[0].entries == 1
    assert groups[0].bytes > 0 and groups[0].made
    call("build")
    (ended,) = store.index_builds.latest()
    assert (ended.id, ended.result) == (begun.id, "built") and ended.ended_at is not None
    assert store.index_builds.checkpoints(begun.id) == ()

    with monkeypatch.context() as patched:
        patched.setattr(entry, "open_storage", lambda location: (_ for _ in ()).throw(OSError("no storage")))
        assert "no storage" in call("rebuild", code=1)
    failed, _ = store.index_builds.latest()
    assert failed.result == "failed" and "no storage" in (failed.error or "")

    def away(*given: object) -> None:
        raise StoreUnavailable("It is away.")

    monkeypatch.setattr(IndexBuilds, "begin", away)
    call("rebuild")
    assert len(store.index_builds.latest()) == 2
    (table.parent / "store.db").write_bytes(b"no database")
    call("rebuild")
