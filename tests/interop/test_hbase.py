"""A table whose keys Hudi 1.0.2 keeps in a real HBase: Lakeward reads that, goes on without it, and Hudi with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.hudi.hbase_hfiles import MISSING
from tests.interop.lakeward_cli import lakeward

if TYPE_CHECKING:
    from tests.servers import HBaseServer

# Nightly: HBase is 90 MB of jars, and no table of a maintained release has such an index.
pytestmark = [pytest.mark.interop, pytest.mark.services, pytest.mark.slow, pytest.mark.wide]


@pytest.fixture(scope="module")
def hbase() -> Iterator[HBaseServer]:
    from tests.servers import HBaseServer, ServiceMissing

    try:
        with HBaseServer() as running:
            yield running
    except ServiceMissing as missing:
        pytest.skip(str(missing))


def test_keys_go_from_hbase_to_an_index_of_lakeward(hbase: HBaseServer, tmp_path: Path) -> None:
    table = tmp_path / "trips"
    url = f"hbase://{hbase.zookeeper}/trips"

    def hudi(what: str) -> list[list[Any]]:
        command = [sys.executable, "-m", "tests.hudi.hbase_tagged", hbase.zookeeper, "trips", str(table)]
        done = subprocess.run([*command, str(tmp_path / what), what], capture_output=True, text=True)
        if done.returncode == MISSING:
            pytest.skip(done.stderr)
        assert done.returncode == 0, done.stderr[-3000:]
        rows: list[list[Any]] = json.loads(done.stdout.splitlines()[-1])
        return rows

    def index(verb: str, *arguments: str) -> dict[str, Any]:
        exit_code, printed = lakeward("index", verb, str(table), *arguments)
        assert exit_code == 0, printed
        return printed

    rows = hudi("make")
    assert [row[3] for row in rows] == list(range(100, 1500))
    checked = index("verify", "--type", "hbase", "--url", url, "--all")
    assert checked["faults"] == [] and checked["rows"]["checked"] == checked["entries"]["checked"] == 1400
    asked = index("lookup", "--type", "hbase", "--url", url, "key-0000000001", "key-0000000700", "key-0000001499")
    assert [each["key"] for each in asked["locations"]] == ["key-0000000700", "key-0000001499"]

    migrated = index("migrate", "--from", "hbase", "--to", "record", "--url", url)
    assert migrated["entries"] == 1400 and not migrated["is_dropped"]
    compared = index("compare", "--type", "hbase", "--type", "record", "--url", url, "--sample", "200")
    assert compared["equal"] == compared["keys"] >= 200
    exit_code, printed = lakeward("compact", str(table), "--type", "full", "--writers", "stopped")
    assert exit_code == 0, printed

    rows = hudi("go-on")
    assert [row[3] for row in rows] == list(range(100, 1600)), "a key came twice, or was lost"
    assert [row[1] for row in rows[1300:]] == [4] * 200
    assert index("verify", "--type", "hbase", "--url", url, "--all")["faults"] == []
    index("update", "--type", "record")
    assert index("verify", "--type", "record", "--all")["faults"] == []

    hbase.down()
    exit_code, printed = lakeward("index", "lookup", str(table), "--type", "hbase", "--url", url, "key-0000000700")
    assert exit_code == 75 and not printed.get("locations")
