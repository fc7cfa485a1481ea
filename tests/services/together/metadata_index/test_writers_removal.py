"""An index of the metadata table that a Hudi writer removes soon after it was built: which commit, which option, and no
second build without a word of the operator."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused
from lakeward.cli.main import run
from lakeward.format.metadata.partition import COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from lakeward.protocol.metadata.build_notes import note_removals
from lakeward.protocol.metadata.writers_removal import BuildNote, describe_removal, find_removals, removed_path
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from lakeward.table.timeline.timeline import Timeline, read_timeline
from tests.metadata_golden import METADATA, PARTITION_PROPERTY, set_property
from tests.our_reader import scan
from tests.services.metadata.run.test_removal import config, remove
from tests.services.together.metadata_index.test_initial_build import build, places, truth, unindexed
from tests.write.writing import write

BUILT = BuildNote("20260101120000000", named_at=5000.0)
OPTION = "hoodie.metadata.record.index.enable"


def timeline_of(names: Sequence[str]) -> Timeline:
    return read_timeline([FileStatus(f"/t/.hoodie/timeline/{name}", 1, 0.0, False) for name in names], "/t", 2)


CASES = (
    # the timeline, seconds from the build to the last change of the properties, what is named
    ("nothing came since", [], 60.0, None),
    ("older than the build", ["20260101110000000_20260101115900000.deltacommit"], 60.0, None),
    (
        "at work when the properties changed",
        [
            "20260101115900000_20260101120030000.deltacommit",
            "20260101120055000_20260101120130000.commit",
            "20260101120200000_20260101120230000.deltacommit",
        ],
        60.0,
        "commit 20260101120055000 was at work then",
    ),
    ("pending still", ["20260101120059000.deltacommit.inflight"], 60.0, "deltacommit 20260101120059000 was at work"),
    (
        "by a clock of its own",
        [
            "20260101121500000_20260101121600000.deltacommit",
            "20260101121000000_20260101121100000.deltacommit",
        ],
        60.0,
        "deltacommit 20260101121000000 is the first commit since",
    ),
    ("after an hour", ["20260101120055000_20260101120130000.commit"], 3601.0, None),
    ("no moments", ["00000000000001_20260101120130000.commit"], 60.0, None),
)


@pytest.mark.parametrize(("name", "names", "seconds", "named"), CASES, ids=[case[0] for case in CASES])
def test_which_commit_it_was(name: str, names: list[str], seconds: float, named: str | None) -> None:
    """Keeps 1 of protocol/metadata/writers_removal."""
    found = describe_removal(
        RECORD_INDEX, BUILT, changed_at=BUILT.named_at + seconds, timeline=timeline_of(names), has_files=True
    )
    assert (found is None) == (named is None)
    if named is not None and found is not None:
        assert named in found and found.endswith(f"{OPTION} off.") and "within 60 s" in found.replace("1 m", "60 s")


def test_which_option_it_was() -> None:
    """The option of the partition; where the whole metadata table is gone that of it. No option removes a secondary
    index alone."""
    timeline = timeline_of(["20260101120055000_20260101120130000.commit"])

    def said(partition: str, *, has_files: bool) -> str | None:
        return describe_removal(partition, BUILT, changed_at=5060.0, timeline=timeline, has_files=has_files)

    assert "hoodie.metadata.index.column.stats.enable off" in (said(COLUMN_STATS, has_files=True) or "")
    assert "hoodie.metadata.enable off" in (said(COLUMN_STATS, has_files=False) or "")
    assert said("secondary_index_by_v", has_files=True) is None
    assert "hoodie.metadata.enable off" in (said("secondary_index_by_v", has_files=False) or "")


def writer_removes(base: Path, partition: str, *, after: float, clock: Clock | None = None) -> str:
    """A writer without the option commits: the instant. The properties are so much younger than they were."""
    before = (base / ".hoodie/hoodie.properties").stat().st_mtime
    shutil.rmtree(base / METADATA / partition)
    set_property(base, PARTITION_PROPERTY, ",".join(p for p in config(base).metadata_partitions if p != partition))
    write(base, [("k9", 9, "a", "x")], clock=clock)
    os.utime(base / ".hoodie/hoodie.properties", (before + after, before + after))
    return scan(base).timeline.completed_writes[-1].time


def test_it_is_not_built_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps 5 of services/together/metadata_index/initial_build: refused by the commit and the option, by the command
    too, until the operator says so. Keeps 2 of protocol/metadata/writers_removal: also when the commit is archived.
    Keeps 1 of protocol/metadata/build_notes: the build forgets it."""
    base = unindexed(tmp_path / "t")
    build(base)
    instant = writer_removes(base, RECORD_INDEX, after=600.0)
    unnoted = Path(shutil.copytree(base, tmp_path / "unnoted"))
    for _ in range(2):
        with pytest.raises(Refused, match=f"not built again.*{instant}.*{OPTION} off.*--again") as refused:
            build(base)
        for old in (base / ".hoodie/timeline").glob(f"{instant}*"):
            old.unlink()
    words = ["index", "build", str(unnoted), "--type", "metadata", "--kind", "record", "--timezone", "UTC"]
    assert run([*words, "--dry-run"]) == run([*words, "--writers", "stopped"]) != 0
    assert str(refused.value.why) in capsys.readouterr().err.replace("\n  ", " ")
    assert run([*words, "--writers", "stopped", "--again"]) == 0
    assert places(unnoted) == truth(unnoted) and find_removals(LocalStorage(), scan(unnoted)) == ()
    assert not Path(removed_path(str(unnoted), RECORD_INDEX)).exists()


def test_later_than_an_hour(tmp_path: Path) -> None:
    """It is built again without a word."""
    base = unindexed(tmp_path / "t")
    build(base)
    writer_removes(base, RECORD_INDEX, after=3700.0)
    assert build(base) is not None and places(base) == truth(base)


def test_what_an_operator_removes(tmp_path: Path) -> None:
    """Keeps 2 of protocol/metadata/build_notes: it may be built again at once, and so may one that Lakeward never
    built."""
    base = unindexed(tmp_path / "t")
    build(base)
    remove(base, RECORD_INDEX)
    write(base, [("k9", 9, "a", "x")])
    assert note_removals(LocalStorage(), scan(base)) == () and build(base) is not None
    writer_removes(base, PARTITION_STATS, after=10.0)
    assert FILES in config(base).metadata_partitions and note_removals(LocalStorage(), scan(base)) == ()
