"""Signs of life of an attempt."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeward.commit.heartbeat import EXPIRY_SECONDS, Heartbeat, Life, heartbeat_path, look
from lakeward.errors import AlreadyExists
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.processes import ScriptedProcesses

INSTANT = "20261121043710038"


def see(base: Path, processes: ScriptedProcesses) -> Life:
    return look(LocalStorage(), str(base), INSTANT, clock=SkippingClock(), processes=processes).life


def test_the_life_of_a_heartbeat(tmp_path: Path) -> None:
    """Absent, alive while it beats, expired after Hudi's two intervals, dead at once with its process."""
    processes = ScriptedProcesses()
    assert see(tmp_path, processes) is Life.ABSENT
    beat = Heartbeat(LocalStorage(), str(tmp_path), INSTANT, processes.new_owner())
    beat.start()
    assert see(tmp_path, processes) is Life.ALIVE
    old = time.time() - EXPIRY_SECONDS - 1
    os.utime(heartbeat_path(str(tmp_path), INSTANT), (old, old))
    assert see(tmp_path, processes) is Life.EXPIRED
    beat.beat()
    assert see(tmp_path, processes) is Life.ALIVE
    processes.kill_all()
    assert see(tmp_path, processes) is Life.PROVABLY_DEAD
    beat.stop()
    assert see(tmp_path, processes) is Life.ABSENT


def test_hudis_empty_heartbeat_counts_by_its_age(tmp_path: Path) -> None:
    """A foreign heartbeat names nobody, so only its age tells."""
    path = Path(heartbeat_path(str(tmp_path), INSTANT))
    path.parent.mkdir(parents=True)
    path.touch()
    processes = ScriptedProcesses()
    processes.kill_all()
    assert see(tmp_path, processes) is Life.ALIVE


def test_of_two_starters_one_wins_and_the_loser_touches_nothing(tmp_path: Path) -> None:
    """The second start fails; beating or stopping the loser leaves the winner's heartbeat as it is."""
    processes = ScriptedProcesses()
    winner = Heartbeat(LocalStorage(), str(tmp_path), INSTANT, processes.new_owner())
    loser = Heartbeat(LocalStorage(), str(tmp_path), INSTANT, processes.new_owner())
    winner.start()
    with pytest.raises(AlreadyExists):
        loser.start()
    loser.beat()
    loser.stop()
    assert winner.is_ours()
    assert not loser.is_ours()
