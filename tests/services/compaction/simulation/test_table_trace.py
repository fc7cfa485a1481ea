"""The trace of a table, from what is on its timeline and in its history."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.cli.main import run
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.services.compaction.simulation import table_trace
from lakeward.services.compaction.simulation.replay import SizeModel, replay
from lakeward.services.compaction.simulation.table_trace import insert_share, read_trace
from lakeward.services.compaction.simulation.trace import CommitAuthor, Trace, parse_trace, write_trace
from lakeward.storage.local import LocalStorage
from lakeward.table.backlog import backlog_of
from lakeward.table.new_table import COPY_ON_WRITE
from lakeward.table.timeline.timeline_reader import TimelineReader
from tests.golden_tables import copy_golden
from tests.our_reader import scan
from tests.write.writing import new_table, write


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two partitions with bases, updates, a FULL, a LOG, and a delete."""
    return live(tmp_path_factory.mktemp("lived") / "t")


def live(path: Path) -> Path:
    base = new_table(path, has_metadata_table=False)
    for number in range(7):
        write(base, [(f"k{key}", number, part, "v" * 50) for key in range(40) for part in "pq"])
    compact(base, "full")
    for number in range(7, 13):
        write(base, [(f"k{key}", number, "p", "w" * 50) for key in range(number, 50)])
    compact(base, "log")
    write(base, [("k1", 99, "p", None)], "delete")
    return base


def compact(base: Path, kind: str) -> None:
    words = ["compact", str(base), "--type", kind, "--writers", "stopped", "--no-metadata-services"]
    assert run(words) == 0


def traced(base: Path, *, last_seconds: float = 3600.0, now: float | None = None) -> Trace:
    return read_trace(LocalStorage(), scan(base), last_seconds=last_seconds, now=now or time.time() + 1)


def files(base: Path) -> Iterator[tuple[str, int]]:
    for path in base.rglob("*"):
        if path.is_file() and path.name[-4:] != ".crc" and ".hoodie" not in path.parts and "metadata" not in path.name:
            yield path.name, path.stat().st_size


def test_bytes_are_those_of_the_files(lived: Path) -> None:
    """Keeps 1 of services/compaction/simulation/table_trace: each file's, base or log, once."""
    trace = traced(lived)
    written = sorted(file.size for commit in trace.commits for file in commit.files)
    assert written == sorted(size for _, size in files(lived))
    bases = [file.size for commit in trace.commits for file in commit.files if file.is_base]
    assert sorted(bases) == sorted(size for name, size in files(lived) if name.endswith(".parquet"))
    assert sorted({partition for partition, _ in trace.groups}) == ["p", "q"]
    authors = [commit.author for commit in trace.commits]
    assert authors == [CommitAuthor.WRITER] * 7 + [CommitAuthor.COMPACTION] + [CommitAuthor.WRITER] * 6 + [
        CommitAuthor.COMPACTION,
        CommitAuthor.WRITER,
    ]


def test_a_log_compaction_names_the_commits_that_it_merged(lived: Path) -> None:
    trace = traced(lived)
    log = trace.commits[14].files[0]
    assert not log.is_base and log.sources == tuple(commit.began for commit in trace.commits[9:14])


def test_files_of_one_write_are_one_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Native logs have rows and deletes in a file each: their bytes are added up. Keeps 1 of
    services/compaction/simulation/table_trace."""
    base = new_table(tmp_path / "t", version=10, has_metadata_table=False)
    write(base, [(f"k{key}", 1, "p", "a") for key in range(8)])
    write(base, [("k1", 2, "p", "b")])
    logs = {name: size for name, size in files(base) if ".log" in name}
    stats = [stat for stat in _stats(base) if stat.path and stat.path.rpartition("/")[2] in logs]
    doubled = {"p": (*stats, dataclasses.replace(stats[0], file_size_in_bytes=1000))}
    assert len(stats) == 1 and len(doubled["p"]) == 2
    monkeypatch.setattr(
        TimelineReader,
        "commit_metadata",
        lambda self, instant: CommitMetadata(doubled, operation_type="UPSERT"),
    )
    assert traced(base).commits[-1].files[0].size == sum(logs.values()) + 1000


def _stats(base: Path) -> list[WriteStat]:
    snapshot = scan(base)
    reader = TimelineReader(LocalStorage(), snapshot.base_path, snapshot.config, snapshot.timeline)
    commits = [reader.commit_metadata(instant) for instant in snapshot.timeline.completed_writes]
    return [stat for commit in commits if commit for of in commit.partition_to_write_stats.values() for stat in of]


def test_what_part_of_a_log_was_inserted() -> None:
    for inserts, updates, deletes, share in ((8, 4, 0, 8 / 12), (0, 5, 5, 0.0), (3, 0, 0, 1.0), (0, 0, 0, 0.0)):
        stat = WriteStat(num_inserts=inserts, num_update_writes=updates, num_deletes=deletes)
        assert insert_share(stat) == share
    assert insert_share(WriteStat()) == 0.0


def test_what_was_archived_is_in_the_trace_as_before(lived: Path, tmp_path: Path) -> None:
    base = tmp_path / "t"
    shutil.copytree(lived, base)
    now = time.time() + 1
    before = traced(base, now=now)
    words = ["archive", str(base), "--keep-min", "3", "--keep-max", "4", "--commits-retained", "2"]
    assert run([*words, "--delta-commits", "1", "--writers", "stopped"]) == 0
    assert len(scan(base).timeline.completed_writes) < 16
    assert traced(base, now=now) == before


def test_a_window_begins_with_what_was_there(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits before it are left whose files are in the newest slices."""
    whole = traced(lived)
    monkeypatch.setattr(table_trace, "_PRUNED_EACH", 2)
    begins = whole.commits[9].at
    trace = read_trace(LocalStorage(), scan(lived), last_seconds=10.0, now=begins / 1000 + 10)
    assert trace.replayed == whole.commits[10:]
    assert trace.commits[0].author is CommitAuthor.COMPACTION, "the FULL, and none of the writes before"
    assert [commit.at for commit in trace.commits[1:3]] == [commit.at for commit in whole.commits[8:10]]


def test_too_many_files_for_memory(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of services/compaction/simulation/table_trace: those that matter at the beginning count, too; what was
    superseded before it does not."""
    monkeypatch.setattr(table_trace, "FILES_MAX", 20)
    with pytest.raises(Refused, match="more than 20 files") as refused:
        traced(lived)
    assert "shorter --last" in refused.value.remedy


def test_copy_on_write(tmp_path: Path) -> None:
    base = new_table(tmp_path / "t", table_type=COPY_ON_WRITE)
    write(base, [("k1", 1, "p", "a")])
    with pytest.raises(Refused, match="is copy-on-write") as refused:
        traced(base)
    assert "lakeward layout" in refused.value.remedy


def test_a_zone_that_is_not_known(lived: Path) -> None:
    snapshot = scan(lived)
    with pytest.raises(Refused, match="moments") as refused:
        read_trace(
            LocalStorage(),
            dataclasses.replace(snapshot, zone=dataclasses.replace(snapshot.zone, zone=None)),
            last_seconds=60.0,
            now=time.time(),
        )
    assert "--timezone" in refused.value.remedy


@pytest.fixture
def version_6(tmp_path: Path) -> Path:
    return copy_golden("v6", tmp_path / "t")


def test_a_window_before_the_archive_of_version_6(version_6: Path) -> None:
    """Keeps 2 of services/compaction/simulation/table_trace: the longest window is named, and is one."""
    first = parse_instant_time(scan(version_6).timeline.completed_writes[0].time, UTC)
    now = first / 1000 + 7201
    assert traced(version_6, last_seconds=86400.0, now=now).begins == first
    (version_6 / ".hoodie" / "history").mkdir(exist_ok=True)
    (version_6 / ".hoodie" / "history" / ".commits_.archive.1_1-0-1").write_bytes(b"x")
    with pytest.raises(Refused, match="begins 2 h ago") as refused:
        traced(version_6, last_seconds=86400.0, now=now)
    assert refused.value.remedy == "Give --last 2h."
    assert traced(version_6, last_seconds=7200.0, now=now).replayed


def test_a_base_that_is_older_than_the_timeline(version_6: Path) -> None:
    """It has the size of its file, and where that is gone it is counted as not known."""
    snapshot = scan(version_6)
    first, second, *_ = snapshot.timeline.completed_writes
    now = parse_instant_time(second.time, UTC) / 1000 + 60
    left = dataclasses.replace(snapshot, timeline=snapshot.timeline.without({first.time}))
    trace = read_trace(LocalStorage(), left, last_seconds=120.0, now=now)
    (base,) = trace.commits[0].files
    assert base.is_base and base.size == next(size for name, size in files(version_6) if name.endswith(".parquet"))
    assert trace.unknown_bases == 0
    gone = read_trace(LocalStorage(), dataclasses.replace(left, files=()), last_seconds=120.0, now=now)
    assert gone.unknown_bases == 1 and not any(file.is_base for commit in gone.commits for file in commit.files)


def test_the_replay_of_what_was_done_writes_what_was_written(lived: Path) -> None:
    """Keeps 1 of services/compaction/simulation/replay, of a table: bytes of its compactions, and the logs that a query
    opens in the end."""
    trace = traced(lived, now=time.time() + 600)
    found = replay(trace, planner=None, model=SizeModel(), reads_per_day=0.0)
    compacted = [commit for commit in trace.commits if commit.author is CommitAuthor.COMPACTION]
    assert found.compaction_bytes == sum(file.size for commit in compacted for file in commit.files)
    assert (found.fulls, found.logs, found.jobs) == (2, 1, 2)
    backlog = backlog_of(scan(lived))
    assert found.spans[-1].opened == backlog.opened_log_files
    assert found.compaction_bytes + found.writer_bytes == sum(size for _, size in files(lived)) - sum(
        file.size for file in trace.commits[0].files
    )


def test_a_writer_whose_clock_is_ahead(lived: Path) -> None:
    """The trace ends with its last commit, and can be read again."""
    newest = traced(lived).commits[-1].at
    trace = traced(lived, now=newest / 1000 - 0.5)
    assert trace.ends == newest and parse_trace(write_trace(trace), file="t") == trace
