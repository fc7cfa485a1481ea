"""A database reaches this release's schema once, whichever process starts it, and is not touched when it is a later
one's."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from lakeward.base.errors import StoreVersion
from lakeward.state import migration
from lakeward.state.engine import Database, open_database
from lakeward.state.migration import SchemaState, find_scripts, migrate, schema_status
from lakeward.state.store import open_store
from lakeward.state.store_tables import metadata
from tests.clocks import SettableClock

ROOT = Path(__file__).resolve().parents[2]
FIRST_ROWS = ROOT / "tests" / "golden" / "store" / "0006.sql"
FIRST_AT = 1_790_000_000.0
FIRST = "0006"

NEXT = """
from alembic import op
import sqlalchemy as sa

revision = "{revision}"
down_revision = "{down}"
oldest_compatible = "{compatible}"


def upgrade():
    op.add_column("jobs", sa.Column("new_in_{revision}", sa.Text()))
    {more}


def downgrade():
    raise NotImplementedError
"""


def later_release(folder: Path, *, compatible: str, more: str = "") -> Path:
    """The scripts of a release that has one more migration."""
    scripts = folder / "migrations"
    shutil.copytree(find_scripts(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    script = NEXT.format(revision="9001", down=head(), compatible=compatible, more=more)
    (scripts / "versions" / "9001_next.py").write_text(script)
    return scripts


def first_release(folder: Path) -> Path:
    """The scripts of the release that had one migration."""
    scripts = folder / "first"
    shutil.copytree(find_scripts(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    for script in (scripts / "versions").glob("*.py"):
        if not script.name.startswith(FIRST):
            script.unlink()
    return scripts


def head() -> str:
    return schema_status("sqlite:////nowhere/lakeward.db").head


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    database = open_database(url)
    found = database.read(lambda connection: [tuple(row) for row in connection.execute(text(query))])
    database.close()
    return found


def write(url: str, *statements: str) -> None:
    database = open_database(url)

    def work(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    database.alone(work, lock_key=1, seconds=10)
    database.close()


def test_migrations_and_schema_agree(url: str) -> None:
    """Keeps 1 of state/store_tables: what the migrations made is what `schema.py` says: to the type, the null and the
    index."""
    database = open_database(url)

    def difference(connection: Connection) -> object:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return compare_metadata(context, metadata)

    assert database.read(difference) == []
    database.close()


def test_an_empty_database_gets_the_schema(empty_url: str) -> None:
    """Status says so before and after; a second migration does nothing."""
    before = schema_status(empty_url)
    assert (before.state, before.revision, before.pending[0], before.pending[-1]) == (
        SchemaState.EMPTY,
        None,
        FIRST,
        before.head,
    )
    migrated = migrate(empty_url)
    assert migrated.applied == before.pending
    assert migrate(empty_url).applied == ()
    after = schema_status(empty_url)
    assert (after.state, after.revision, after.pending) == (SchemaState.CURRENT, before.head, ())


def test_asking_for_the_status_makes_no_file(tmp_path: Path) -> None:
    """A wrong path is not made right by asking."""
    assert schema_status(f"sqlite:///{tmp_path}/missing/lakeward.db").state is SchemaState.EMPTY
    assert list(tmp_path.iterdir()) == []


def test_processes_that_start_together_migrate_once(empty_url: str, tmp_path: Path) -> None:
    """Keeps 1 of state/migration: two real processes at once: one applies everything, the other finds it done."""
    program = "import json, sys; from lakeward.state.migration import migrate; sys.stdin.read(1); "
    program += "print(json.dumps(migrate(sys.argv[1]).applied))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, empty_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for _ in range(2)
    ]
    ended = [process.communicate(b"x") for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    applied = sorted(json.loads(out) for out, _ in ended)
    assert applied[0] == []
    assert applied[1][0] == FIRST
    assert rows(empty_url, "SELECT count(*) FROM store_identity") == [(1,)]


@pytest.mark.services
def test_a_migration_waits_for_another(postgresql_url: str) -> None:
    """One process migrates, the others stand at the lock, and read again when it is free."""
    database = open_database(postgresql_url)
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    with ThreadPoolExecutor() as pool, database.engine.connect() as first, database.engine.connect() as watching:
        first.execute(text(f"SELECT pg_advisory_xact_lock({migration.LOCK_KEY})"))
        second = pool.submit(migrate, postgresql_url)
        while not watching.execute(waiting).scalar_one():
            assert not second.done(), "it did not wait"
        first.rollback()
        assert second.result().applied[0] == FIRST
    database.close()


def test_a_migration_that_fails_leaves_the_old_schema(url: str, tmp_path: Path) -> None:
    """All of it is one transaction, on both databases."""
    scripts = later_release(tmp_path, compatible=FIRST, more='op.execute("SELECT broken")')
    with pytest.raises(StoreVersion, match="broken"):
        migrate(url, scripts=scripts)
    assert schema_status(url).state is SchemaState.CURRENT
    with pytest.raises(StoreVersion, match="new_in_9001"):
        rows(url, "SELECT new_in_9001 FROM jobs")


def test_a_later_release_lets_this_one_run(url: str, tmp_path: Path, clock: SettableClock) -> None:
    """It lets it run when it says so in the database; then nothing is migrated, and the store works."""
    scripts = later_release(tmp_path, compatible=FIRST)
    assert migrate(url, scripts=scripts).applied == ("9001",)
    status = schema_status(url)
    assert (status.state, status.revision, status.oldest_compatible) == (SchemaState.NEWER, "9001", FIRST)
    assert migrate(url).applied == ()
    store = open_store(url, clock=clock)
    store.observations.watch("orders", "/lake/orders", 1.0)
    store.close()


def test_a_later_release_that_does_not_is_refused(url: str, tmp_path: Path, clock: SettableClock) -> None:
    """Keeps 2 of state/migration: the daemon and migrate refuse it, with the revision that would be needed;
    and nothing is changed."""
    migrate(url, scripts=later_release(tmp_path, compatible="9001"))
    assert schema_status(url).state is SchemaState.REFUSED
    for call in (lambda: open_store(url, clock=clock), lambda: migrate(url)):
        with pytest.raises(StoreVersion, match="belongs to a later release") as caught:
            call()
        assert "9001" in caught.value.why
    assert rows(url, "SELECT new_in_9001 FROM jobs") == []


def test_rows_of_the_first_revision_arrive(empty_url: str, tmp_path: Path, clock: SettableClock) -> None:
    """Keeps 2 of state/store_tables: a database as the first release wrote it, brought to one beyond this release:
    every row is read."""
    migrate(empty_url, scripts=first_release(tmp_path))
    write(empty_url, "DELETE FROM store_identity", *FIRST_ROWS.read_text().split(";\n")[:-1])

    assert migrate(empty_url, scripts=later_release(tmp_path, compatible=FIRST)).applied[-1] == "9001"

    store = open_store(empty_url, clock=clock)
    assert store.store_id() == "3f3a3c3151fd470381aa1012af1d5e3f"
    assert store.observations.tables() == {"orders": "/lake/orders"}
    assert store.observations.watch("orders", "/lake/orders", FIRST_AT + 1).since == FIRST_AT
    assert store.observations.decisions("orders")[0].numbers == {"log_bytes": 7, "ratio": 0.5}
    planning, _ = store.observations.decided("orders")
    assert planning is not None and planning.file_groups == 1
    assert [plan.operations[0].read_bytes for plan in store.observations.plans("orders")] == [50]
    assert store.controls.in_force(FIRST_AT + 5)[0].reason == "maintenance"
    assert store.controls.parked(FIRST_AT + 5)[0].failures == 5
    assert store.events.latest()[0].text == "five times"
    job = store.jobs.find("j1")
    assert job is not None and job.figures == {"rows": 6} and not job.from_timeline
    assert [attempt.error for attempt in store.jobs.attempts("j1")] == ["disk full"]
    assert [each.files for each in store.jobs.progress("j2")] == [500]
    assert [build.file_groups for build in store.index_builds.latest("orders")] == [2]
    assert [each.bytes for each in store.index_builds.checkpoints("b1")] == [120]
    lease = store.leases.acquire("orders", "h", 60, FIRST_AT)
    assert lease is not None and lease.token == 9000000000001
    store.close()


def test_a_store_from_before_the_first_release_is_refused(url: str, clock: SettableClock) -> None:
    """Its schema went into the first one, and no script brings it there."""
    write(
        url, "UPDATE alembic_version SET version_num = '0003'", "UPDATE schema_version SET oldest_compatible = '0001'"
    )
    assert schema_status(url).state is SchemaState.REFUSED
    for call in (lambda: open_store(url, clock=clock), lambda: migrate(url)):
        with pytest.raises(StoreVersion, match="is older than the first release") as caught:
            call()
        assert "0003" in caught.value.why


def test_nothing_goes_back(tmp_path: Path) -> None:
    """A downgrade says what to do instead."""
    url = f"sqlite:///{tmp_path}/lakeward.db"
    migrate(url)
    database = open_database(url)

    def go_back(connection: Connection) -> None:
        config = migration._config(None)
        config.attributes["connection"] = connection
        command.downgrade(config, "base")

    with pytest.raises(NotImplementedError, match="only goes forward"):
        database.alone(go_back, lock_key=1, seconds=10)
    database.close()
    assert schema_status(url).state is SchemaState.CURRENT


def test_revisions_are_read_off_the_names_of_scripts_as_alembic_orders_them(tmp_path: Path, empty_url: str) -> None:
    """What a release calls its revisions, and in which order, is the same without Alembic."""
    for scripts in (find_scripts(), later_release(tmp_path, compatible=FIRST)):
        walked = [script.revision for script in ScriptDirectory(str(scripts)).walk_revisions()]
        status = schema_status(empty_url, scripts=scripts)
        assert [*status.pending] == walked[::-1]
        assert status.head == walked[0]


def test_alembic_alone_cannot_migrate() -> None:
    """There is one way in, and it holds the lock."""
    with pytest.raises(SystemExit, match="lakeward state migrate"):
        command.upgrade(migration._config(None), "head")


def test_a_lost_reply_of_the_migration_is_followed_by_a_read(tmp_path: Path) -> None:
    """Another run finds it done."""
    database = open_database(f"sqlite:///{tmp_path}/lakeward.db")
    _lose_first_commit(database)
    migration.migrate_database(database, at=1.0)
    assert migration.read_status(database).state is SchemaState.CURRENT
    database.close()


def _lose_first_commit(database: Database) -> None:
    commit = database.engine.dialect.do_commit
    lost: list[bool] = []

    def commit_and_fail(connection: sqlite3.Connection) -> None:
        commit(connection)  # type: ignore[arg-type]
        has_schema = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchall()
        if has_schema and not lost:
            lost.append(True)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    database.engine.dialect.do_commit = commit_and_fail  # type: ignore[method-assign, assignment]


@pytest.mark.slow
def test_an_installed_wheel_brings_its_migrations(tmp_path: Path) -> None:
    """Built by the build rule and installed elsewhere, `lakeward state migrate` finds them beside the package."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path]
    subprocess.run(build, check=True, capture_output=True, cwd=ROOT)
    (wheel,) = tmp_path.glob("lakeward-*.whl")
    target = tmp_path / "site"
    install = [*pip, "install", "--no-compile", "--no-deps", "--no-index", "--target", target, wheel]
    subprocess.run(install, check=True)
    assert (target / "lakeward" / "state" / "migrations" / "versions" / f"{FIRST}_first_schema.py").is_file()

    url = f"sqlite:///{tmp_path}/lakeward.db"
    program = "import sys, lakeward.cli.main as m; print(m.__file__, file=sys.stderr); sys.exit(m.run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "state", "migrate", "--json", "--url", url],
        cwd=tmp_path,
        env={"PYTHONPATH": str(target), "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(target) in done.stderr
    assert json.loads(done.stdout)["applied"][0] == FIRST
    assert schema_status(url).state is SchemaState.CURRENT
