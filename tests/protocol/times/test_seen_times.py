"""New times are greater than all that there ever was, and none is minted twice."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, BrokenFile
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.attempts.orphan_files import sweep
from lakeward.protocol.times.instant_time import Minter
from lakeward.protocol.times.seen_times import FOLDER, find_minted, read_times
from lakeward.storage.local import TEMPORARY_SUFFIX, LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline
from lakeward.table.timeline.timezone import TimelineZone, ZoneSource
from tests.clocks import SkippingClock
from tests.memory_objects import MemoryObjects, Objects
from tests.object_tables import bring

IN_UTC = TimelineZone(ZoneSource.GIVEN, UTC, "")
UNKNOWN = TimelineZone(ZoneSource.UNKNOWN, None, "")
BASE = "s3://lake/orders"


@dataclass
class Table:
    """A table of two instants."""

    storage: Storage
    base: str
    clock: SkippingClock = field(default_factory=SkippingClock)

    def minter(self, zone: TimelineZone = UNKNOWN) -> Minter:
        config = load_table_config(self.storage, self.base, clock=self.clock).config
        timeline = load_timeline(self.storage, self.base, config)
        seen = read_times(self.storage, self.base, config=config, timeline=timeline, zone=zone, clock=self.clock)
        return Minter(self.storage, self.base, seen, zone=zone, clock=self.clock)

    def remembered(self) -> list[str]:
        return [status.name for status in self.storage.list(f"{self.base}/.hoodie/{FOLDER}")]


PROPERTIES = "hoodie.table.name=t\nhoodie.table.version=9\nhoodie.timeline.layout.version=2\n"
TIMELINE = ".hoodie/timeline"
NEWEST = "20260301120000900"


def write_table(base: Path) -> None:
    (base / TIMELINE).mkdir(parents=True)
    (base / ".hoodie" / "hoodie.properties").write_text(PROPERTIES)
    (base / TIMELINE / f"20260301120000000_{NEWEST}.deltacommit").write_bytes(b"{}")


@pytest.fixture(params=["files", "objects"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    write_table(tmp_path / "t")
    if request.param == "files":
        return Table(LocalStorage(), str(tmp_path / "t"))
    store = MemoryObjects(Objects())
    bring(tmp_path / "t", store, BASE)
    return Table(store, BASE)


def test_a_time_comes_after_the_greatest_and_is_remembered(table: Table) -> None:
    """Requested or completed, in whatever state. Keeps 1 of protocol/times/seen_times, and 5 of
    protocol/times/instant_time."""
    assert table.minter().mint() == ["20260301120000901"]
    assert table.remembered() == ["20260301120000901"]
    assert table.minter().mint(3) == [f"2026030112000090{n}" for n in (2, 3, 4)]
    assert table.remembered() == ["20260301120000904"]


def test_a_time_of_a_plan_that_was_deleted_never_comes_back(table: Table) -> None:
    """Nothing on the timeline speaks of it. Keeps 1 of protocol/times/seen_times."""
    (first,) = table.minter().mint()
    (second,) = table.minter().mint()
    assert second > first


def test_a_copy_of_the_table_goes_on_where_the_table_was(tmp_path: Path) -> None:
    """What was minted lies below the table."""
    write_table(tmp_path / "t")
    (minted,) = Table(LocalStorage(), str(tmp_path / "t")).minter().mint()
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    assert Table(LocalStorage(), str(tmp_path / "copy")).minter().mint() > [minted]


def test_the_metadata_table_counts(tmp_path: Path) -> None:
    """A compaction of it by Hudi may be newer than all of the table's instants. Keeps 1 of
    protocol/times/seen_times."""
    write_table(tmp_path / "t")
    metadata = tmp_path / "t" / ".hoodie" / "metadata"
    write_table(metadata)
    (metadata / TIMELINE / "20260301130000000_20260301130000500.commit").write_bytes(b"{}")
    of = Table(LocalStorage(), str(tmp_path / "t"))
    assert of.minter().mint() == ["20260301130000501"]
    assert find_minted(LocalStorage(), of.base) == "20260301130000501"


def test_of_two_files_the_greater_counts(table: Table) -> None:
    """After a crash, or a process that woke up late. The next time takes both away. Keeps 5 of
    protocol/times/instant_time."""
    for name in ("20260401000000000", "20260501000000000"):
        table.storage.make_folder(f"{table.base}/.hoodie/{FOLDER}")
        table.storage.create(f"{table.base}/.hoodie/{FOLDER}/{name}", b"no json")
    assert table.minter().mint() == ["20260501000000001"]
    assert table.remembered() == ["20260501000000001"]


def test_what_a_killed_process_left_of_a_file_goes(tmp_path: Path) -> None:
    """A name under which a time was being remembered; the time itself stays."""
    write_table(tmp_path)
    of = Table(LocalStorage(), str(tmp_path))
    (minted,) = of.minter().mint()
    (tmp_path / ".hoodie" / FOLDER / f"{minted}.1{TEMPORARY_SUFFIX}").touch()
    sweep(of.storage, of.base, f"{of.base}/{TIMELINE}", clock=of.clock)
    assert of.remembered() == [minted]


def test_no_two_processes_mint_one_time(table: Table) -> None:
    """Both read the table while each believes that the lock is its own. Keeps 6 of protocol/times/instant_time."""
    late = table.minter()
    sleep = table.clock.sleep

    def other(seconds: float) -> None:
        table.clock.sleep = sleep  # type: ignore[method-assign]
        assert table.minter().mint() == ["20260301120000901"]

    table.clock.sleep = other  # type: ignore[method-assign]
    with pytest.raises(AttemptLost, match="20260301120000901 was minted by another process"):
        late.mint()
    assert table.remembered() == ["20260301120000901"]


def test_where_the_zone_is_known_times_are_of_the_clock(table: Table) -> None:
    """They are remembered likewise, and what was remembered is their floor."""
    (minted,) = table.minter(IN_UTC).mint()
    now = table.clock.now()
    earliest, latest = (format_instant_time(int((now + seconds) * 1000), UTC) for seconds in (-10, 10))
    assert earliest < minted < latest
    ahead = format_instant_time(int((table.clock.now() + 2) * 1000), UTC)
    table.storage.create(f"{table.base}/.hoodie/{FOLDER}/{ahead}", b"{}")
    assert table.minter(IN_UTC).mint() > [ahead]


def test_the_archive_counts_and_is_read_once(table: Table) -> None:
    """What was archived may have completed after all that is left. Keeps 1 of protocol/times/seen_times."""
    from lakeward.format.timeline.history import HistoryFile, HistoryRow
    from lakeward.format.timeline.history_file import encode_rows
    from lakeward.services.archive.run.history import publish_history
    from lakeward.table.timeline.archived import History, history_folder

    config = load_table_config(table.storage, table.base, clock=table.clock).config
    folder = history_folder(table.base, config)
    rows = encode_rows([HistoryRow("20260228000000000", "20260302000000000", "commit", b"{}", None)])
    file = HistoryFile("20260228000000000", "20260228000000000", 0)
    publish_history(table.storage, folder, History(), file, rows, fence=lambda: None)
    assert table.minter().mint() == ["20260302000000001"]
    (name,) = table.remembered()
    read = json.loads(table.storage.read(f"{table.base}/.hoodie/{FOLDER}/{name}"))
    assert read["table"] == [file.name]
    table.storage.delete(f"{folder}/{file.name}")
    table.storage.create(f"{folder}/{file.name}", b"torn")
    assert table.minter().mint() == ["20260302000000002"], "what was read is not read again"


def test_the_archive_of_the_metadata_table_counts(tmp_path: Path) -> None:
    """A completion time counts, too. Keeps 1 of protocol/times/seen_times."""
    from lakeward.format.timeline.history import HistoryFile, HistoryRow
    from lakeward.format.timeline.history_file import encode_rows
    from lakeward.services.archive.run.history import publish_history
    from lakeward.table.timeline.archived import History, history_folder

    write_table(tmp_path / "t")
    metadata = tmp_path / "t" / ".hoodie" / "metadata"
    write_table(metadata)
    of = Table(LocalStorage(), str(tmp_path / "t"))
    folder = history_folder(str(metadata), load_table_config(of.storage, str(metadata), clock=of.clock).config)
    rows = encode_rows([HistoryRow("20260228000000000", "20260302000000000", "commit", b"{}", None)])
    file = HistoryFile("20260228000000000", "20260228000000000", 0)
    publish_history(of.storage, folder, History(), file, rows, fence=lambda: None)
    assert of.minter().mint() == ["20260302000000001"]


def test_an_archive_that_cannot_be_read(table: Table) -> None:
    """Without a zone it may hold a greater time. Keeps 2 of protocol/times/seen_times."""
    folder = f"{table.base}/.hoodie/timeline/history"
    table.storage.make_folder(folder)
    table.storage.create(f"{folder}/20260228000000000_20260228000000000_0.parquet", b"torn")
    table.storage.create(f"{folder}/manifest_1", b"torn")
    with pytest.raises(BrokenFile, match=r"archive of .* cannot be read"):
        table.minter().mint()
    assert len(table.minter(IN_UTC).mint()) == 1
