"""`Table.service`: every service of the list, planned and run at once."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward
from lakeward.base.errors import Refused, UsageError
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.protocol.job_report import JobResult
from lakeward.services.services import load_services

COLUMNS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> lakeward.Table:
    """Written by the clock of this machine, by which services plan."""
    made = lakeward.create_table(
        str(tmp_path / "t"), schema=COLUMNS, record_key=["id"], partition=["part"], ordering=["ts"]
    )
    for rows in ([["k1", "k2"], [1, 1], ["p", "q"], ["a", "b"]], [["k2"], [2], ["q"], ["c"]]):
        made.write(pa.table(rows, schema=COLUMNS), writers_stopped=True)
    return made.refresh()


def test_a_plan_writes_nothing_and_a_run_does_it(table: lakeward.Table, tmp_path: Path) -> None:
    """Keeps 1 of api/table_service."""
    before = files(table)
    config = tmp_path / "lakeward.toml"
    config.write_text('[defaults]\ntype = "full"\n')
    compaction = table.service("compaction", config=config)
    (planned,) = compaction.plan().operations
    assert planned.partition_path == "q" and files(table) == before
    with pytest.raises(UsageError, match="how the table's other writers behave"):
        compaction.run()
    assert files(table) == before
    done = compaction.run(writers_stopped=True)
    assert done.result is JobResult.COMMITTED and done.figures.full_operations == 1
    assert compaction.plan().operations == () and table.refresh().scan(read_optimized=True, where="v = 'c'").count()


@pytest.mark.parametrize("name", [service.kind.value for service in load_services()])
def test_each_service(table: lakeward.Table, name: str) -> None:
    """Whatever is in the list of services can be planned and run, and changes no row."""
    before = files(table)
    rows = table.scan().to_arrow()
    service = table.service(name)
    service.plan()
    assert files(table) == before
    assert service.run(writers_stopped=True).result is not JobResult.FAILED
    assert table.refresh().scan().to_arrow() == rows


def test_a_configuration_says_how(table: lakeward.Table, tmp_path: Path) -> None:
    config = tmp_path / "lakeward.toml"
    config.write_text("[defaults.clean]\nretain = 7\n")
    assert table.service("clean", config=config).plan().policy.retain == 7
    assert table.service("clean").plan().policy.retain == 10


def test_slips(table: lakeward.Table) -> None:
    with pytest.raises(UsageError, match="There is no service 'compactoin'") as raised:
        table.service("compactoin")
    assert "compaction" in raised.value.remedy
    properties = Path(table.base_path) / ".hoodie/hoodie.properties"
    properties.write_text(
        properties.read_text().replace("hoodie.table.base.file.format=PARQUET", "hoodie.table.base.file.format=ORC")
    )
    with pytest.raises(Refused):
        table.service("compaction").plan()
    with pytest.raises(Refused):
        table.service("compaction").run(writers_stopped=True)


def files(table: lakeward.Table) -> dict[str, bytes]:
    base = Path(table.base_path)
    return {str(file.relative_to(base)): file.read_bytes() for file in sorted(base.rglob("*")) if file.is_file()}


def test_what_the_daemon_waits_for_is_not_waited_for(table: lakeward.Table) -> None:
    """A write that was pending a moment ago is rolled back by who says that no writer is at work."""
    timeline = Path(table.base_path) / ".hoodie" / "timeline"
    newest = max(file.name[:17] for file in timeline.glob("*.deltacommit"))
    begun = format_instant_time(parse_instant_time(newest, UTC) + 1000, UTC)
    for state in ("requested", "inflight"):
        (timeline / f"{begun}.deltacommit.{state}").touch()
    table.service("rollback").run(writers_stopped=True)
    assert not list(timeline.glob(f"{begun}.*"))
