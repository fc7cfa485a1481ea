"""Watermarks are found where consumers leave them; where nothing can be known, the reason is, and everything stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.format.timeline.commit_metadata import CommitMetadata, write_commit_metadata
from lakeward.services.clean.plan.consumer import parse_place
from lakeward.services.clean.plan.decision import CleanOutcome
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.reader_protection import Watermark
from lakeward.services.clean.run.clean_choice import CleanChoice, read_watermarks
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_config import load_table_config
from tests.clocks import SkippingClock
from tests.table.table_history import TableHistory

GROUP = "aaaaaaaa-0"


def table(path: Path, rewrites: int = 4) -> TableHistory:
    history = TableHistory(path, seed=1)
    for _ in range(rewrites):
        history.rewrite("p=1", GROUP)
    return history


def watermark(history: TableHistory, place: str) -> Watermark:
    config = load_table_config(LocalStorage(), str(history.base), clock=SkippingClock()).config
    (found,) = read_watermarks({"daily": parse_place(place)}, config, clock=SkippingClock())
    return found


def test_a_file(tmp_path: Path) -> None:
    """Its text is the time. Keeps 4 and 5 of services/clean/run/clean_choice: what is no time, too large or not there
    is not known, and says so."""
    history, file = table(tmp_path / "t"), tmp_path / "watermark"
    assert watermark(history, f"file:{file}") == Watermark("daily", None, f"there is no file {file}")
    file.write_text("20260101000003000\n")
    assert watermark(history, f"file:{file}") == Watermark("daily", "20260101000003000")
    file.write_text("orders,0:17")
    assert "which is no instant time" in watermark(history, f"file:{file}").why
    file.write_bytes(b"\xff" * 17)
    assert "cannot be read" in watermark(history, f"file:{file}").why
    file.write_text("20260101000003000" + " " * 300)
    assert "has 317 bytes" in watermark(history, f"file:{file}").why
    assert watermark(history, "file:hdfs://there/w").time is None


def test_a_property_of_the_table(tmp_path: Path) -> None:
    """A consumer may set one in hoodie.properties, which Hudi's writers keep."""
    history = table(tmp_path / "t")
    assert watermark(history, "property:daily.read").why == "the table has no property daily.read"
    with (history.base / ".hoodie/hoodie.properties").open("a") as file:
        file.write("daily.read=20260101000003000\n")
    assert watermark(history, "property:daily.read").time == "20260101000003000"


@pytest.mark.parametrize("key", ["streamer.checkpoint.key.v2", "deltastreamer.checkpoint.key"])
def test_the_newest_checkpoint_of_the_table_that_a_streamer_writes(tmp_path: Path, key: str) -> None:
    """Commits without a checkpoint, as those of table services, are passed over."""
    history, downstream = table(tmp_path / "t"), table(tmp_path / "daily", rewrites=3)
    where = f"table:{downstream.base}"
    assert watermark(history, where).why == f"no commit of {downstream.base} carries a checkpoint"
    commits = sorted((downstream.base / ".hoodie/timeline").glob("*_*"))
    for commit, checkpoint in zip(commits, ("20260101000002000", "20260101000003000"), strict=False):
        commit.write_bytes(write_commit_metadata(CommitMetadata(extra_metadata={key: checkpoint})))
    assert watermark(history, where) == Watermark("daily", "20260101000003000")
    commits[-1].write_bytes(b"torn")
    assert "cannot be read" in watermark(history, where).why
    assert "cannot be read" in watermark(history, f"table:{tmp_path}/nowhere").why


def test_what_is_not_read_stays(tmp_path: Path) -> None:
    """The slices that a consumer needs are kept for it, each with the time that it must have read; all of them while
    its watermark cannot be known."""
    history, file = table(tmp_path / "t"), tmp_path / "watermark"
    place = parse_place(f"file:{file}")
    options = CleanOptions(CleanPolicy(CleanPolicyKind.VERSIONS, 1), reader_window=0, consumers={"daily": place})

    def outcome() -> CleanOutcome:
        snapshot = take_snapshot(LocalStorage(), str(history.base), clock=SkippingClock())
        choice = CleanChoice(LocalStorage(), str(history.base), options, clock=SkippingClock())
        return choice.outcome(snapshot)

    assert (sum(1 for _ in outcome().dead), outcome().consumers[0].watermark) == (0, None)
    commits = sorted((history.base / ".hoodie/timeline").glob("*_*"))
    read = commits[2].name.partition("_")[2].partition(".")[0]
    file.write_text(read)
    assert sum(1 for _ in outcome().dead) == 2
    newest = commits[3].name.partition("_")[2].partition(".")[0]
    held = [keeper for each in outcome().kept for keeper in each.keepers if keeper.consumer == "daily"]
    assert [keeper.read_up_to for keeper in held] == [newest]
