"""What a process left behind after its commit goes; what is not ours stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

from lakeward.commit.owner import Processes
from lakeward.commit.tidy import AGE_SECONDS_MIN, tidy
from lakeward.storage.local import TEMPORARY_SUFFIX, LocalStorage
from tests.clocks import SkippingClock

DONE, PENDING = "20261121050000000", "20261121060000000"


def place(base: Path, name: str, content: bytes = b"", *, age_seconds: float = 0.0) -> Path:
    path = base / ".hoodie" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age_seconds,) * 2)
    return path


def test_only_marked_leftovers_of_completed_instants_go(tmp_path: Path) -> None:
    """A pending instant's folder and heartbeat stay, and so does what Hudi left of a completed one."""
    line = Processes().new_owner().to_line()
    place(tmp_path, f"timeline/{DONE}_20261121050001000.commit")
    place(tmp_path, f"timeline/{PENDING}.compaction.inflight")
    gone = [
        place(tmp_path, f".temp/{DONE}/attempt-5/file"),
        place(tmp_path, f".temp/{DONE}/p/x.parquet.marker.MERGE"),
        place(tmp_path, f".heartbeat/{DONE}", line),
        place(tmp_path, f"timeline/.x.{TEMPORARY_SUFFIX}"),
        place(tmp_path, f".lock.x{TEMPORARY_SUFFIX}", age_seconds=AGE_SECONDS_MIN + 5),
        place(tmp_path, "lock.released-by-7", age_seconds=AGE_SECONDS_MIN + 5),
    ]
    kept = [
        place(tmp_path, f".temp/{PENDING}/attempt-6/file"),
        place(tmp_path, f".heartbeat/{PENDING}", line),
        place(tmp_path, ".temp/20261121070000000/MARKERS0"),
        place(tmp_path, f".aux/.lock.x{TEMPORARY_SUFFIX}"),
        place(tmp_path, "lock"),
    ]
    tidy(LocalStorage(), str(tmp_path), str(tmp_path / ".hoodie/timeline"), clock=SkippingClock())
    assert [path for path in gone if path.exists()] == []
    assert [path for path in kept if not path.exists()] == []


def test_a_foreign_heartbeat_of_a_completed_instant_stays(tmp_path: Path) -> None:
    """Other engines clean up after themselves."""
    place(tmp_path, f"timeline/{DONE}_20261121050001000.commit")
    heartbeat = place(tmp_path, f".heartbeat/{DONE}")
    tidy(LocalStorage(), str(tmp_path), str(tmp_path / ".hoodie/timeline"), clock=SkippingClock())
    assert heartbeat.exists()


def test_a_heartbeat_that_ends_meanwhile_is_gone(tmp_path: Path) -> None:
    """Whose it is ends it after its commit, and holds no lock then."""
    place(tmp_path, f"timeline/{DONE}_20261121050001000.commit")
    heartbeat = place(tmp_path, f".heartbeat/{DONE}", Processes().new_owner().to_line())

    class Ending(LocalStorage):
        def read(self, path: str) -> bytes:
            heartbeat.unlink(missing_ok=True)
            return super().read(path)

    tidy(Ending(), str(tmp_path), str(tmp_path / ".hoodie/timeline"), clock=SkippingClock())
    assert list(heartbeat.parent.iterdir()) == []
