"""`lakeward learn-reads`, as an operator runs it by cron."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.cli.main import run
from lakeward.state.migration import migrate
from lakeward.state.store import open_store
from tests.golden_tables import copy_golden
from tests.scan.test_spark_event_log import STARTED, execution, lines, scan


def test_what_is_counted_and_what_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """The configuration says who does not read; a log that is none is named, and makes exit 4."""
    orders, clock = copy_golden("v9", tmp_path / "orders"), SystemClock()
    (config := tmp_path / "lakeward.toml").write_text(
        f'[state]\nurl = "sqlite:///{tmp_path}/lakeward.db"\n'
        f'[[tables]]\nname = "orders"\npath = "{orders}"\ntimezone = "UTC"\n'
        'planner = { "planner.policy" = "cost", "planner.not_readers" = "etl-*" }\n'
    )
    migrate(url := f"sqlite:///{tmp_path}/lakeward.db")
    with closing(open_store(url, clock=clock)) as store:
        store.observations.watch("orders", str(orders), clock.now())
    (tmp_path / "logs").mkdir()
    query = execution(scan(str(orders), "[(part#3 = p)]"), at=clock.now())
    for name in ("dashboard-7", "etl-nightly"):
        (tmp_path / "logs" / name).write_bytes(b"".join(lines({**STARTED, "App Name": name}, query)))

    assert run(["learn-reads", str(tmp_path / "logs"), "--config", str(config)]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "2 applications, 1 scan of watched tables.",
        "orders: 1 new read of partitions",
        "Left out: 1 by writers and services (planner.not_readers).",
    ]
    (tmp_path / "logs" / "broken").write_bytes(b'"SparkListenerApplicationStart" no JSON\n')
    assert run(["learn-reads", str(tmp_path / "logs"), "--config", str(config), "--json"]) == 4
    document = json.loads(capfd.readouterr().out)
    assert (document["counted"], document["left_out"]["not_readers"], len(document["problems"])) == (
        {"orders": 0},
        1,
        1,
    )
