"""The command line and the daemon on a table in an object store, by nothing but its URL and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from lakeward.cli.main import run
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.crash import metadata_compacting
from tests.crash.compacting import check_finished
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA
from tests.object_tables import bring, fetch
from tests.s3_policy import check_permitted
from tests.services.metadata.run.test_compaction import compactions, metadata_leftovers, records

if TYPE_CHECKING:
    from tests.servers import S3Server

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("short_waits")]


@pytest.fixture
def table(bucket: str, tmp_path: Path) -> str:
    return bring(copy_golden("v9", tmp_path / "golden"), ObjectStore(parse_object_url(bucket)), f"{bucket}/a/orders")


def test_inspect(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is found by either form of its URL, and with a slash at the end."""
    for url in (table, table.replace("s3://", "s3a://") + "/"):
        assert run(["inspect", url, "--json"]) == 0
        assert orjson.loads(capsys.readouterr().out)["table"]["base_path"] == table
        assert run(["plan", url, "--type", "full"]) == 0
        capsys.readouterr()


def test_a_metadata_table(bucket: str, s3_server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compacted with it, verified, compacted itself, one partition taken away to be rebuilt, and then all of it. The
    policy in docs/start/permissions.md permits each request."""
    store = ObjectStore(parse_object_url(bucket))
    url = bring(copy_golden(GOLDEN, tmp_path / "golden"), store, f"{bucket}/a/orders")
    shared = ("--lock", "storage")
    compact = ["compact", url, "--type", "full", *shared, "--engine", "local"]
    assert run([*compact, "--no-metadata-services"]) == 0
    metadata_compacting.check_finished(fetch(store, url, tmp_path / "compacted"), metadata_compacting.SERVICES[0])
    capsys.readouterr()
    assert run(["verify", url, "--all", "--json"]) == 0
    report = orjson.loads(capsys.readouterr().out)
    assert report["ok"] and {"files", "column_stats"} <= {check["name"] for check in report["checks"]}
    before = records(fetch(store, url, tmp_path / "before"))
    assert run([*compact, "--json"]) == 0
    printed = orjson.loads(capsys.readouterr().out)
    itself = fetch(store, url, tmp_path / "itself")
    assert printed["compactions"] == [], "its services alone were due"
    assert compactions(itself)[-1] == printed["metadata_compaction"]["instant"] and metadata_leftovers(itself) == []
    assert records(itself) == before
    assert run(["metadata", "compact", url, *shared, "--exit-code"]) == 3
    assert run(["verify", url, "--all"]) == 0
    assert run(["metadata", "drop", url, "column_stats", *shared]) == 0
    assert run(["metadata", "disable", url, *shared]) == 0
    capsys.readouterr()
    assert run(["verify", url]) == 0
    assert "has no metadata table" in capsys.readouterr().out
    assert not (fetch(store, url, tmp_path / "disabled") / METADATA).exists()
    check_permitted(s3_server.requests(bucket.removeprefix("s3://")), prefix="a")


def test_a_savepoint(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Made, listed with what a compaction leaves to it alone, and deleted."""
    shared = ("--lock", "storage")
    assert run(["savepoint", "create", table, *shared]) == 0
    assert run(["savepoint", "create", table, *shared]) == 2
    assert run(["compact", table, "--type", "full", *shared, "--engine", "local"]) == 0
    capsys.readouterr()
    assert run(["savepoint", "list", table, "--json"]) == 0
    (listed,) = orjson.loads(capsys.readouterr().out)["savepoints"]
    assert listed["files_only_it_keeps"] == listed["files"] == 4
    assert listed["bytes_only_it_keeps"] > 0
    assert run(["savepoint", "delete", table, listed["instant"], *shared]) == 0
    assert run(["savepoint", "delete", table, listed["instant"], *shared]) == 2


def test_what_hudi_would_refuse_is_refused(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its file-system lock, before anything is written; a place without a table, too."""
    assert run(["compact", table, "--lock", "filesystem"]) == 2
    assert "--lock storage" in capsys.readouterr().err
    assert run(["inspect", f"{table}-not"]) == 2


def test_the_daemon_finds_and_compacts_it(bucket: str, table: str, tmp_path: Path) -> None:
    """Below a root that is a bucket, with the lock that writers share."""
    config = tmp_path / "lakeward.toml"
    config.write_text(
        f"""
        [service]
        state_folder = "{tmp_path / "state"}"
        listen = "127.0.0.1:0"
        engine = "local"
        [locks]
        writers = "share"
        provider = "storage"
        [discovery]
        roots = ["{bucket}"]
        [defaults]
        type = "full"
        """
    )
    assert run(["run", "--config", str(config), "--once"]) == 0
    store = ObjectStore(parse_object_url(bucket))
    check_finished(fetch(store, table, tmp_path / "fetched"))
