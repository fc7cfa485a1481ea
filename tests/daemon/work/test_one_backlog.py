"""Whatever shows how much waits to be merged shows the same: page, metrics, commands and their JSON, on one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lakeward.cli.main import run
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.status_report import table_detail
from lakeward.daemon.web.pages import GroupQuery, Pages
from lakeward.daemon.web.table_list import summarise
from tests.crash.compacting import LOG
from tests.daemon.scrape import value
from tests.daemon.serving import Serving
from tests.golden_tables import copy_golden
from tests.services.bench import Bench


def test_every_place_shows_one_backlog_after_a_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Readers merge the output alone; what it superseded is a figure of its own, on storage until it is cleaned."""
    table = copy_golden("v9", tmp_path / "tables/orders")
    sources = [path for path in (table / "p").iterdir() if ".log." in path.name and not path.name.endswith(".crc")]
    source_bytes = sum(path.stat().st_size for path in sources)
    bench = Bench(table)
    bench.clock.slept = -30.0  # it sleeps without waiting, and a plan leaves out what completes after its own time
    (report,) = bench.compactor(planner=LOG).compact().plans
    assert bench.clock.slept < 0, "the commit lies behind the commands' clock, which is the system's"
    (output,) = report.operations
    (base,) = (table / "p").glob("*.parquet")
    expected = {
        "log_files": 1,
        "log_bytes": output.size_bytes,
        "superseded_log_files": len(sources),
        "superseded_log_bytes": source_bytes,
    }
    amplification = round((base.stat().st_size + output.size_bytes) / base.stat().st_size, 4)
    assert report.read_bytes_before == base.stat().st_size + source_bytes
    assert report.read_bytes_after == base.stat().st_size + output.size_bytes
    assert (report.merged_log_files, report.merged_log_bytes) == (len(sources), source_bytes)

    # The daemon has nothing to do: one live log is no run.
    serving = Serving(tmp_path / "tables", tmp_path / "state", settings={"defaults.type": "log"})
    serving.run(30)
    status = serving.status()
    (shown,) = status.tables
    assert shown.backlog is not None
    assert {each: getattr(shown.backlog, each) for each in expected} == expected
    assert round(shown.backlog.read_amplification, 4) == amplification
    assert {each: getattr(summarise(status), each) for each in expected} == expected

    assert [sample.log_bytes for sample in shown.history] == [output.size_bytes]
    assert status.cores >= 1
    snapshot = serving.worker.snapshot(shown.name)
    detail = table_detail(shown, snapshot, serving.store, at=serving.clock.now())
    (group,) = detail.groups
    assert {each: getattr(group.backlog, each) for each in expected} == expected
    assert group.decision is not None
    assert {each: group.decision.numbers[each] for each in expected} == expected
    page = Pages().one_table(detail, GroupQuery())
    assert "1&nbsp;log" in page and f"{len(sources)}&nbsp;superseded" in page
    metrics = Metrics(CollectorRegistry())
    metrics.show(lambda: status)
    scraped = generate_latest(metrics.registry).decode()
    for each, figure in expected.items():
        assert value(scraped, f"lakeward_table_{each}", table=shown.name) == figure
    assert round(value(scraped, "lakeward_table_read_amplification_ratio", table=shown.name), 4) == amplification

    capfd.readouterr()  # the daemon's log
    for form in ("hybrid", "full", "log"):
        assert run(["plan", str(table), "--type", form, "--json"]) == 0
        plan = json.loads(capfd.readouterr().out)
        assert {each: plan["predicted"][each] for each in expected} == expected, form
        assert plan["predicted"]["read_amplification_before"] == amplification, form
        (decision,) = plan["decisions"]
        assert {each: decision["numbers"][each] for each in expected} == expected, form
    assert run(["inspect", str(table), "--json"]) == 0
    backlog = json.loads(capfd.readouterr().out)["backlog"]
    assert {each: backlog[each] for each in expected} == expected
    assert backlog["read_amplification"] == amplification

    # A FULL merges the live log alone, and says so.
    arguments = ["compact", str(table), "--type", "full", "--engine", "local", "--writers", "stopped", "--json"]
    assert run(arguments) == 0
    (full,) = json.loads(capfd.readouterr().out)["compactions"]
    assert (full["merged_log_files"], full["merged_log_bytes"]) == (1, output.size_bytes)
    assert full["read_bytes_before"] == full["input_bytes"] == base.stat().st_size + output.size_bytes
    assert full["read_bytes_after"] == full["output_bytes"]
