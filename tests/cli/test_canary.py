"""Secrets in each place that takes one, every verb and the daemon run, and all that they say and leave searched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
import typer

from lakeward.api.trial import merge_generated
from lakeward.base.errors import VerificationFailed
from lakeward.cli.main import run
from lakeward.cli.verbs import app
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.state.migration import migrate
from tests.cli.leaky_connect import leaky_module
from tests.golden_tables import copy_golden

CANARY = "c4n4ry"
REMOTE = f"sc://127.0.0.1:1/;token={CANARY}-remote;x-proxy={CANARY}-header"
AWAY = f"postgresql://ada:{CANARY}-store@127.0.0.1:1/lake?connect_timeout=1&sslpassword={CANARY}-ssl"
GIVEN = {
    "LAKEWARD__SPARK__REMOTE": REMOTE,
    "LAKEWARD__SPARK__CONF": (
        f'{{ "spark.hadoop.fs.s3a.secret.key" = "{CANARY}-s3", '
        f'"spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net" = "{CANARY}-azure" }}'
    ),
    "LAKEWARD__HTTP__TOKEN": f"{CANARY}-token-of-pages",
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws-secret",
    "AWS_SESSION_TOKEN": f"{CANARY}-aws-session",
    "AZURE_STORAGE_ACCOUNT_KEY": f"{CANARY}-azure-storage",
}
CONF = ("--spark-conf", f"spark.hadoop.fs.s3a.secret.key={CANARY}-argument")

VERBS: Mapping[str, Sequence[Sequence[str]]] = {
    "inspect": [("TABLE",), (f"https://acc.blob.core.windows.net/c/orders?sig={CANARY}-sas",)],
    "plan": [("TABLE",), (f"s3://AKIA1:{CANARY}-url@lake/orders",)],
    "explain": [("TABLE",), (f"no-such?sig={CANARY}-sas",)],
    "verify": [("TABLE",)],
    "doctor": [("TABLE",), ("TABLE", "--keys", "--writers", "stopped"), (f"no-such?sig={CANARY}-sas",)],
    "erase-verify": [("CONFIG", "--sign-with", "ROWS"), ("CONFIG", "--sign-with", "CONFIG", "--keys", "CONFIG")],
    "erase-status": [
        ("TABLE", "--keys", "CONFIG"),
        (f"no-such?sig={CANARY}-sas", "--keys", "CONFIG"),
        ("TABLE", "--keys", "CONFIG", "--url", f"postgresql://me:{CANARY}-url@127.0.0.1:1/x"),
    ],
    "erase-expedite": [("TABLE", "--keys", "CONFIG", "--dry-run", *CONF)],
    "compact": [
        ("TABLE", "--writers", "stopped", *CONF),
        ("TABLE", "--writers", "stopped", "--debug", *CONF),
        ("TABLE", "--writers", "stopped", "--spark-conf", f"spark.hadoop.fs.s3a.secret.key:{CANARY}-no-equals"),
        ("TABLE", "--lock", "zookeeper", "--lock-zookeeper", f"https://{CANARY}-login@127.0.0.1:x"),
        ("TABLE", "--dry-run", *CONF),
    ],
    "unschedule": [("TABLE", "--writers", "stopped")],
    "rollback": [("TABLE", "--writers", "stopped"), ("TABLE", "--dry-run")],
    "restore": [("TABLE", "--to", "20260101000000000", "--dry-run")],
    "clean": [("TABLE", "--dry-run")],
    "archive": [("TABLE", "--dry-run")],
    "cluster": [
        ("TABLE", "--dry-run", "--explain"),
        ("TABLE", "--min-groups", "2", "--writers", "stopped"),
        ("TABLE", "--undo", "--writers", "stopped"),
    ],
    "ttl": [("TABLE", "--keep", "90d", "--dry-run"), ("TABLE", "--keep", "90d", "--by", "date", "--date-format", "x")],
    "service": [("TABLE", "--writers", "stopped"), ("TABLE", "--dry-run")],
    "table create": [
        ("NEW", "--like", "ROWS", "--record-key", "id"),
        ("NEW", "--like", "CONFIG", "--record-key", "id"),
    ],
    "table upgrade": [("TABLE", "--to", "10", "--dry-run"), ("TABLE", "--to", "9", "--writers", "stopped")],
    "table downgrade": [("TABLE", "--to", "9", "--dry-run"), ("TABLE", "--to", "9", "--writers", "stopped", *CONF)],
    "table convert": [
        ("TABLE", "--layout", "lsm_tree", "--dry-run"),
        ("TABLE", "--layout", "default", "--writers", "stopped", *CONF),
    ],
    "savepoint create": [("TABLE", "--dry-run"), ("TABLE", "--writers", "stopped")],
    "savepoint list": [("TABLE",)],
    "read": [("TABLE",), ("TABLE", "--where", "no_such = 1"), (f"no-such?sig={CANARY}-sas",)],
    "simulate": [("TABLE",), ("--trace", "no-such"), (f"no-such?sig={CANARY}-sas",)],
    "record": [("TABLE", "--to", "NEW"), (f"no-such?sig={CANARY}-sas", "--to", "NEW")],
    "layout": [("TABLE",), ("TABLE", "--by", "no_such"), (f"no-such?sig={CANARY}-sas",)],
    "index list": [("TABLE",)],
    "index tails": [("TABLE",), ("TABLE", "--auto"), ("TABLE", "--off")],
    "index strip-tails": [("TABLE", "--dry-run"), ("TABLE", "--writers", "stopped", *CONF)],
    "index inserts": [("TABLE",), ("TABLE", "--into-logs"), ("TABLE", "--into-base-files")],
    "index build": [
        ("TABLE", "--type", "record", *CONF),
        ("TABLE", "--type", "postgres"),
        ("TABLE", "--type", "postgres", "--url", AWAY),
        ("TABLE", "--type", "metadata", "--kind", "record", "--writers", "stopped"),
    ],
    "index update": [("TABLE", "--type", "postgres"), ("TABLE", "--type", "postgres", "--url", AWAY)],
    "index tee": [
        ("TABLE", "--primary", "simple", "--shadow", "bloom"),
        ("TABLE", "--primary", "simple", "--shadow", "postgres", "--url", AWAY),
    ],
    "index cut-over": [("TABLE", "--back"), ("TABLE", "--after-clean", "1")],
    "index migrate": [
        ("TABLE", "--from", "simple", "--to", "postgres"),
        ("TABLE", "--from", "simple", "--to", "postgres", "--url", AWAY),
    ],
    "index verify": [("TABLE",)],
    "index compare": [("TABLE", "--type", "simple", "--type", "simple")],
    "index rebuild": [("TABLE", "--type", "metadata", "--kind", "record", "--dry-run")],
    "index drop": [("TABLE", "--type", "metadata", "--writers", "stopped")],
    "index changes": [("TABLE",)],
    "index lookup": [("TABLE", "k1"), (f"no-such?sig={CANARY}-sas", "k1")],
    "quarantine restore": [
        ("TABLE", "orphans-20260101000000000", "--writers", "stopped"),
        ("TABLE", "20260101000000000", "--dry-run"),
    ],
    "quarantine orphans": [("TABLE", "--dry-run"), ("TABLE", "--writers", "stopped")],
    "orphans": [("list", "TABLE")],
    "quarantine list": [("TABLE",)],
    "quarantine purge": [("TABLE", "--dry-run"), ("TABLE", "--older-than", "0s", "--writers", "stopped")],
    "savepoint delete": [("TABLE", "20260101000000000", "--writers", "stopped")],
    "metadata compact": [("TABLE", "--writers", "stopped")],
    "metadata clean": [("TABLE", "--dry-run")],
    "metadata disable": [("TABLE", "--dry-run")],
    "metadata abort-indexing": [("TABLE", "--dry-run"), ("TABLE", "--writers", "stopped")],
    "metadata drop": [("TABLE", "column_stats", "--dry-run")],
    "metadata rebuild": [("TABLE", "column_stats", "--dry-run")],
    "version": [()],
    "help": [(), ("options",), (f"https://acc.blob.core.windows.net/c/orders?sig={CANARY}-sas",)],
    "warm": [("--check",)],
    "pause": [("orders", "--reason", "x"), ("orders", "--reason", "x", "--url", AWAY)],
    "resume": [("orders",), ("orders", "--url", AWAY)],
    "cancel": [("orders", "--reason", "x"), ("orders", "--reason", "x", "--url", AWAY)],
    "jobs": [(), ("--url", AWAY)],
    "calibrate": [()],
    "job": [("j1",), ("j1", "--url", AWAY)],
    "costs": [(), ("--url", AWAY)],
    "events": [(), ("--url", AWAY)],
    "status": [("--server", f"http://127.0.0.1:1?sig={CANARY}-sas"), ("--config", "BROKEN")],
    "top": [("--server", f"http://127.0.0.1:1?sig={CANARY}-sas"), ("--config", "BROKEN")],
    "learn-reads": [("no-such",), ("no-such", "--url", AWAY)],
    "init": [
        ("CONFIG", "--overwrite", "--tables", "TABLE"),
        ("BROKEN", "--overwrite", "--tables", f"s3://AKIA1:{CANARY}-url@lake/orders"),
        ("BROKEN", "--overwrite", "--tables", "TABLE", "--engine", REMOTE),
        ("BROKEN", "--overwrite", "--tables", "TABLE", "--state", f"postgresql://a:{CANARY}@h/lake"),
    ],
    "config check": [("CONFIG",), ("BROKEN",)],
    "config show": [("CONFIG",), ("BROKEN",)],
    "config schema": [()],
    "state status": [(), ("--url", AWAY)],
    "state migrate": [(), ("--url", AWAY)],
    "state rebuild": [(), ("--url", AWAY)],
    "write": [
        ("TABLE", "--input", "ROWS", "--writers", "stopped", "--engine", "local"),
        ("TABLE", "--input", "ROWS", "--writers", "stopped", *CONF),
    ],
    "run": [("--config", "BROKEN")],
    "reload": [("--config", "CONFIG")],
}
"""What each verb is called with; the daemon itself has a test of its own."""


def verbs_of(group: object, prefix: str = "") -> Iterable[str]:
    for name, command in getattr(group, "commands", {}).items():
        if getattr(command, "commands", None):
            yield from verbs_of(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, a configuration, and this process' environment full of secrets."""
    copy_golden("v9", tmp_path / "tables/orders")
    (tmp_path / "lakeward.toml").write_text(
        f'[service]\nstate_folder = "{tmp_path}/state"\nlisten = "127.0.0.1:0"\nengine = "spark"\n'
        '[locks]\nwriters = "share"\n'
        f'[[tables]]\nname = "orders"\npath = "{tmp_path}/tables/orders"\ninterval = "1s"\n'
        'foreign_services = "share"\n'
    )
    (tmp_path / "broken.toml").write_text(
        f'[http]\ntoken = "{CANARY}-token-in-file"\n[state]\nurl = "{AWAY}"\n[spark]\nremote = "{REMOTE}"\n'
        f'conf = {{ "fs.azure.account.key.acc" = "{CANARY}-in-file", "fs.s3a.secret.key" = 7 }}\n'
    )
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("lakeward.state.engine.TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr("lakeward.cli.calibrate_command.merge_generated", partial(merge_generated, rows=(500, 1000)))
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", leaky_module())
    return tmp_path


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with an empty store."""
    state = tmp_path_factory.mktemp("migrated") / "state"
    state.mkdir()
    migrate(f"sqlite:///{state}/lakeward.db")
    return state


def search(folder: Path) -> None:
    """What was left in files, the configurations themselves apart."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".toml":
            assert CANARY.encode() not in path.read_bytes(), path


def call(folder: Path, verb: str, arguments: Sequence[str]) -> int:
    words = {
        "TABLE": str(folder / "tables/orders"),
        "CONFIG": str(folder / "lakeward.toml"),
        "BROKEN": str(folder / "broken.toml"),
        "NEW": str(folder / "tables/new"),
        "ROWS": str(next((folder / "tables/orders").rglob("*.parquet"))),
    }
    return run([*verb.split(), *(words.get(word, word) for word in arguments)])


def test_every_verb_is_called() -> None:
    """A new verb is not forgotten here."""
    assert set(verbs_of(typer.main.get_command(app))) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_says_a_secret(
    verb: str, folder: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A verb says none, whether it does its work or fails: not on stdout, not on stderr and not in the files that it
    leaves."""
    if verb not in ("config check", "config show", "config schema", "run"):
        monkeypatch.setenv("LAKEWARD_CONFIG", str(folder / "lakeward.toml"))
    shutil.copytree(migrated, folder / "state")
    for arguments in VERBS[verb]:
        call(folder, verb, arguments)
        call(folder, verb, [*arguments, "--json"])
    out, err = capfd.readouterr()
    assert CANARY not in out
    assert CANARY not in err
    assert out + err, "it said something"
    if "BROKEN" not in VERBS[verb][-1]:
        assert "LW-CONFIG" not in out + err
    if AWAY in VERBS[verb][-1]:
        assert "ada:[hidden]@127.0.0.1:1" in err
    search(folder)


def test_where_work_runs_is_said_without_the_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`compact` names the Connect server that merges, and only that; so does the bundle of a wrong result."""
    in_process = InProcessDispatcher()
    monkeypatch.setattr(SparkDispatcher, "probe", lambda self, guard: None)
    monkeypatch.setattr(SparkDispatcher, "run", lambda self, *args, **named: in_process.run(*args, **named))
    monkeypatch.setenv("LAKEWARD_CONFIG", str(folder / "lakeward.toml"))

    def wrong(base_path: str, spec: object, attempt: int) -> None:
        raise VerificationFailed(f"The rows differ, read through {REMOTE}.", why=f"fs.s3a.secret.key={CANARY}")

    with monkeypatch.context() as patched:
        patched.setattr("lakeward.cli.services.compact_command.run_operation_at", wrong)
        assert call(folder, "compact", ("TABLE", "--writers", "stopped")) == 6
    assert len(list(folder.rglob("replay-*.json"))) == 1
    assert call(folder, "compact", ("TABLE", "--writers", "stopped")) == 0
    out, err = capfd.readouterr()
    assert "merging on Spark sc://127.0.0.1:1/;token=[hidden];x-proxy=[hidden]" in err
    assert CANARY not in out + err
    search(folder)


def get(url: str) -> str:
    asking = urllib.request.Request(url, headers={"Authorization": f"Bearer {GIVEN['LAKEWARD__HTTP__TOKEN']}"})
    try:
        with urllib.request.urlopen(asking, timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


@pytest.mark.slow
def test_the_daemon_says_no_secret(folder: Path) -> None:
    """Its log, page, metrics and store, while the Spark that it was given repeats the URL in its error."""
    log = folder / "log"
    script = Path(__file__).with_name("leaky_connect.py")
    with log.open("wb") as stream:
        daemon = subprocess.Popen(
            [sys.executable, str(script), "run", "--config", str(folder / "lakeward.toml")],
            stdout=stream,
            stderr=stream,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
    try:
        deadline = time.monotonic() + 60
        while "Spark Connect does not answer" not in log.read_text():
            assert daemon.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        found = re.search(r'"address": "(http://[^"]+)/"', log.read_text())
        assert found is not None
        seen = ""
        while "Spark Connect does not answer" not in seen:
            assert time.monotonic() < deadline, seen
            seen = "".join(get(found[1] + path) for path in ("/", "/tables/orders", "/metrics", "/-/ready"))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(found[1] + "/metrics", timeout=10)
    finally:
        daemon.terminate()
        daemon.wait(60)
    assert "Spark Connect does not answer at sc://127.0.0.1:1/;token=[hidden]" in seen
    assert CANARY not in seen
    assert (folder / "state/lakeward.db").exists()
    search(folder)
