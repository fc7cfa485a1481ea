"""Indexes outside of the table's folder hold keys as well: they are asked, or it is said that they were not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.index.hbase import hbase_entries, regions
from tests.index.hbase.region_server import RegionServer
from tests.services.together.erasure.canary import files_with
from tests.services.together.erasure.test_erase_expedite import STOPPED, expedite
from tests.services.together.erasure.test_erase_status import CANARY, ROWS, held, lakeward, places, status
from tests.write.writing import new_table, write

NOT_NAMED = "indexes outside of its base path that were not named"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text(f"{CANARY}\n")
    return path


def gone(path: Path) -> Path:
    """A table that never had the canary in its files."""
    base = new_table(path, has_metadata_table=False)
    write(base, ROWS[:3])
    return base


@pytest.mark.services
def test_one_in_postgresql(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str], postgresql_url: str) -> None:
    """It has the key before and after an update takes the delete in; dropped, it has none, and the receipt names what
    was asked. It is asked where --url names it, and where the store is there."""
    base = new_table(tmp_path / "t", has_metadata_table=False, table_type="COPY_ON_WRITE")
    write(base, [*ROWS[:3], (CANARY, 1, "p", "v")])
    url = ("--url", postgresql_url)
    lakeward("index", "build", str(base), "--type", "postgres", *url)
    write(base, [(CANARY, 2, "p", None)], "delete")
    write(base, [ROWS[0]])
    lakeward("clean", str(base), "--retain", "1", "--reader-window", "0s")
    code, document = status(base, keys, capfd, *url)
    assert (code, places(document), files_with(base, CANARY)) == (7, {"elsewhere"}, set())
    (index,) = document["files"]
    assert index["path"].startswith("index keys in postgresql://") and index["forms"] == {"entry": 1}
    assert document["indexes_elsewhere"] == [index["path"]]
    assert status(base, keys, capfd)[0] == 0, "it was not named"

    code, document, ran = expedite(base, keys, capfd, *STOPPED, *url)
    assert (code, ran, places(document)) == (7, ["index update"], {"elsewhere"}), "until the delete is archived"
    assert document["done"][0]["result"]["commits"], "the update took the delete in"
    ((drop,),) = document["expedite"]["held"].values()
    assert drop.startswith(f"lakeward index drop {base} --type postgres --url ") and "postgresql://" in drop
    assert run(["index", "drop", str(base), "--type", "postgres", *url]) == 0
    config = tmp_path / "lakeward.toml"
    config.write_text(f'[state]\nurl = "{postgresql_url}"\n')
    signing, receipt = tmp_path / "signing", tmp_path / "receipt"
    signing.write_bytes(bytes(32))
    more = ("--config", str(config), "--receipt", str(receipt), "--sign-with", str(signing))
    code, document = status(base, keys, capfd, *more)
    assert (code, document["files"]) == (0, [])
    said = json.loads(receipt.read_text())
    (asked,) = said["indexes_elsewhere"]
    assert asked.startswith("postgresql://") and asked.endswith(", which has no index of the table")
    assert any("vacuum" in each for each in said["not_looked_at"])


def test_a_server_that_is_away(
    tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with the reason, and nothing counts as gone: exit code 4. Keeps 1 of
    services/together/erasure/outside_index."""
    base = gone(tmp_path / "t")
    url = "postgresql://me:hunter2@127.0.0.1:1/away"
    code, document = status(base, keys, capfd, "--url", url)
    assert (code, document["gone"]) == (4, False)
    (unread,) = document["unread"]
    assert unread["path"].startswith("index in postgresql://me") and "hunter2" not in json.dumps(document)
    assert run(["erase-status", str(base), "--keys", str(keys), "--url", "sqlite:////x.db"]) == 2
    assert run(["erase-status", str(base), "--keys", str(keys), "--url", "hbase://"]) == 2


def test_one_in_hbase(
    tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has of the key is found, whatever its commit is; Lakeward has no command for it. One that does not answer
    is named."""
    base = gone(tmp_path / "t")
    entry = {b"commit_ts": b"19990101000000000", b"file_name": b"group", b"partition_path": b"p"}
    with RegionServer(b"trips", {CANARY.encode(): entry}, [(b"", b"")]) as server:
        monkeypatch.setattr(regions, "_meta_server", lambda place: ("127.0.0.1", server.port))
        monkeypatch.setattr(hbase_entries, "_PAUSE_SECONDS", 0.0)
        url = ("--url", "hbase://zk:2181/trips")
        code, document = status(base, keys, capfd, *url, "--expedite")
        assert (code, held(document)) == (7, {"index in hbase://zk:2181/trips"})
        assert document["expedite"]["left"] == ["index in hbase://zk:2181/trips"]
        server.rows.clear()
        code, document = status(base, keys, capfd, *url)
        assert (code, document["indexes_elsewhere"]) == (0, ["index in hbase://zk:2181/trips"])
        assert any("major compaction" in each for each in document["not_looked_at"])
        server.faults = ["gone"] * 100
        assert status(base, keys, capfd, *url)[0] == 4


def test_one_at_a_location_of_its_own(tmp_path: Path, keys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its files are looked into, as the configuration says where they are."""
    base = new_table(tmp_path / "t", has_metadata_table=False, table_type="COPY_ON_WRITE")
    write(base, [*ROWS[:3], (CANARY, 1, "p", "v")])
    config = tmp_path / "lakeward.toml"
    config.write_text(f'[defaults.index.record]\nlocation = "{tmp_path / "indexes"}"\n')
    configured = ("--config", str(config))
    assert run(["index", "build", str(base), "--type", "record", *configured]) == 0
    write(base, [(CANARY, 2, "p", None)], "delete")
    write(base, [ROWS[0]])
    lakeward("clean", str(base), "--retain", "1", "--reader-window", "0s")
    _, document = status(base, keys, capfd, *configured)
    there = {str(tmp_path / "indexes" / path) for path in files_with(tmp_path / "indexes", CANARY)}
    assert there and held(document) == there and places(document) == {"index"}
    code, document = status(base, keys, capfd)
    assert code == 0 and any(each.startswith(NOT_NAMED) for each in document["not_looked_at"])
