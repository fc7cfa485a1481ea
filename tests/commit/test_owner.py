"""Which processes are provably dead."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from lakeward.commit.owner import MAX_ATTEMPT, Processes, parse_owner


def test_an_owner_reads_back_from_its_line() -> None:
    """The line of a heartbeat or lock file names the owner again."""
    owner = Processes().new_owner()
    assert parse_owner(owner.to_line()) == owner
    assert 0 < owner.attempt <= MAX_ATTEMPT


def test_a_foreign_or_torn_line_names_nobody() -> None:
    """Hudi's empty files and half-written lines are not ours."""
    line = Processes().new_owner().to_line()
    for other in (b"", b"\n", line[: len(line) // 2], b"[]", b'{"attempt": 1}', b"\xff\xfe"):
        assert parse_owner(other) is None


def test_this_process_is_alive_and_a_finished_one_is_dead() -> None:
    """Judged by process id and start time on the same host, boot and namespace."""
    processes = Processes()
    owner = processes.new_owner()
    assert not processes.is_provably_dead(owner)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        other = replace(owner, pid=child.pid, started=psutil.Process(child.pid).create_time())
        assert not processes.is_provably_dead(other)
    assert processes.is_provably_dead(other)


def test_a_reused_process_id_is_another_process() -> None:
    """The same id with another start time is not the process that wrote the line."""
    processes = Processes()
    owner = processes.new_owner()
    assert processes.is_provably_dead(replace(owner, started=owner.started - 5))


def test_nothing_is_known_about_other_machines() -> None:
    """Another host, boot or process namespace: never called dead."""
    processes = Processes()
    gone = replace(processes.new_owner(), pid=2**30)
    assert processes.is_provably_dead(gone)
    assert not processes.is_provably_dead(replace(gone, host="elsewhere"))
    assert not processes.is_provably_dead(replace(gone, boot_id="before"))
    assert not processes.is_provably_dead(replace(gone, pid_namespace="pid:[1]"))


def test_a_hidden_process_is_not_a_dead_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc hides other users' processes, one that still answers to a signal is alive."""
    processes = Processes()
    owner = processes.new_owner()

    def hidden(pid: int) -> psutil.Process:
        raise psutil.NoSuchProcess(pid)

    monkeypatch.setattr(psutil, "Process", hidden)
    assert not processes.is_provably_dead(owner)
    assert processes.is_provably_dead(replace(owner, pid=2**30))
    assert processes.is_provably_dead(replace(owner, pid=2**70))
