"""What a process left behind after its commit goes; what is not Lakeward's stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeward.protocol.attempts.heartbeat_line import encode_ended
from lakeward.protocol.attempts.orphan_files import (
    AGE_SECONDS_MIN,
    MAY_GO,
    Fate,
    Left,
    delete_orphans,
    find_moved_in,
    sweep,
)
from lakeward.protocol.owner import Processes
from lakeward.storage.local import TEMPORARY_SUFFIX, LocalStorage
from tests.clocks import SkippingClock

DONE, PENDING, CLEAN = "20261121050000000", "20261121060000000", "20261121080000000"


def place(base: Path, name: str, content: bytes = b"", *, age_seconds: float = 0.0) -> Path:
    path = base / ".hoodie" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age_seconds,) * 2)
    return path


def test_only_marked_leftovers_of_completed_instants_go(tmp_path: Path) -> None:
    """A pending instant's folder and heartbeat stay, and so does what Hudi left of a completed one. Keeps 3 and 4 of
    protocol/attempts/orphan_files."""
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
    sweep(LocalStorage(), str(tmp_path), str(tmp_path / ".hoodie/timeline"), clock=SkippingClock())
    assert [path for path in gone if path.exists()] == []
    assert [path for path in kept if not path.exists()] == []


def test_a_foreign_heartbeat_of_a_completed_instant_stays(tmp_path: Path) -> None:
    """Other engines clean up after themselves."""
    place(tmp_path, f"timeline/{DONE}_20261121050001000.commit")
    heartbeat = place(tmp_path, f".heartbeat/{DONE}")
    sweep(LocalStorage(), str(tmp_path), str(tmp_path / ".hoodie/timeline"), clock=SkippingClock())
    assert heartbeat.exists()


def test_a_heartbeat_that_ends_meanwhile_is_gone(tmp_path: Path) -> None:
    """Whose it is ends it after its commit, and holds no lock then."""
    place(tmp_path, f"timeline/{DONE}_20261121050001000.commit")
    heartbeat = place(tmp_path, f".heartbeat/{DONE}", Processes().new_owner().to_line())

    class Ending(LocalStorage):
        def read(self, path: str) -> bytes:
            heartbeat.unlink(missing_ok=True)
            return super().read(path)

    sweep(Ending(), str(tmp_path), str(tmp_path / ".hoodie/timeline"), clock=SkippingClock())
    assert list(heartbeat.parent.iterdir()) == []


def name_of(file_id: str, *, token: str = "0-7-0", instant: str = PENDING) -> str:
    return f"{file_id}_{token}_{instant}.parquet"


def test_what_was_moved_in_is_of_the_instant_and_of_the_plan(tmp_path: Path) -> None:
    """Base files and logs are found alike; neither another instant's, nor a file of another group, nor one that is
    kept. Keeps 2 of protocol/attempts/orphan_files."""
    (tmp_path / "p").mkdir()
    (tmp_path / "q").mkdir()
    kept, orphan = name_of("a-0"), name_of("a-0", token="0-7-1")
    log = f".a-0_{PENDING}.log.1_0-7-0"
    others = (name_of("a-0", instant="20260101000000000"), name_of("z-0"), f"{PENDING}.parquet", f"{orphan}.crc")
    for name in (kept, orphan, log, *others):
        (tmp_path / "p" / name).touch()
    (tmp_path / "q" / orphan).touch()
    found = find_moved_in(LocalStorage(), str(tmp_path), PENDING, [("p", "a-0")], keep=frozenset({kept}))
    assert found == [f"{tmp_path}/p/{log}", f"{tmp_path}/p/{orphan}"]


def test_an_ended_heartbeat_goes_with_its_plan(tmp_path: Path) -> None:
    """Another engine unscheduled the plan: no process begins there any more. One that waits for the next attempt stays,
    also that of a clean, whose plan is on the metadata table's timeline."""
    ended = encode_ended(Processes().new_owner())
    place(tmp_path, f"timeline/{PENDING}.compaction.requested")
    place(tmp_path, f"metadata/{CLEAN}.clean.requested")
    kept = [place(tmp_path, f".heartbeat/{instant}", ended) for instant in (PENDING, CLEAN)]
    gone = place(tmp_path, ".heartbeat/20261121090000000", ended)
    folder = str(tmp_path / ".hoodie/timeline")
    metadata = str(tmp_path / ".hoodie/metadata")
    sweep(LocalStorage(), str(tmp_path), folder, clock=SkippingClock(), metadata_timeline_folder=metadata)
    assert [path for path in kept if not path.exists()] == []
    assert not gone.exists()


def test_what_no_rule_names_stays(tmp_path: Path) -> None:
    """No caller gets it deleted: an intent whose instant is pending, staged files that may be published. Keeps 1 of
    protocol/attempts/orphan_files."""
    file = place(tmp_path, "x")
    pairs = [(left, fate) for left in Left for fate in Fate if (left, fate) not in MAY_GO]
    assert (Left.INTENT, Fate.FENCED_OFF) in pairs and (Left.STAGED, Fate.PUBLISHING) in pairs
    for left, fate in pairs:
        with pytest.raises(AssertionError):
            delete_orphans(LocalStorage(), left, fate, [str(file)])
    assert file.exists()
    assert {left for left, _ in MAY_GO} == set(Left)
