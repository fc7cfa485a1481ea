"""Which processes are provably dead."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import psutil
import pytest

from lakeward.protocol import owner as owners
from lakeward.protocol.owner import MAX_ATTEMPT, Owner, Processes, parse_owner

STEPS = (1.0, -1.0, 600.0, -600.0)
"""What a wall clock may be set by, in seconds."""


@contextmanager
def child() -> Iterator[tuple[subprocess.Popen[bytes], Owner]]:
    """Another process of this machine, and the line that it would write."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = psutil.Process(process.pid).create_time()
        found = owners._find(process.pid)
        assert found is not None
        yield process, replace(Processes().new_owner(), pid=process.pid, started=started, start_ticks=found.start_ticks)


def test_an_owner_reads_back_from_its_line() -> None:
    """The line of a heartbeat or lock file names the owner again."""
    owner = Processes().new_owner()
    assert owner.start_ticks is not None
    assert parse_owner(owner.to_line()) == owner
    assert 0 < owner.attempt <= MAX_ATTEMPT


def test_a_foreign_or_torn_line_names_no_process() -> None:
    """Hudi's empty files and half-written lines are not Lakeward's."""
    line = Processes().new_owner().to_line()
    torn = orjson.dumps(orjson.loads(line) | {"start_ticks": "soon"})
    unsaid = orjson.dumps({name: value for name, value in orjson.loads(line).items() if name != "start_ticks"})
    for other in (unsaid, b"", b"\n", line[: len(line) // 2], b"[]", b'"x"', b'{"attempt": 1}', b"\xff\xfe", torn):
        assert parse_owner(other) is None


def test_this_process_is_alive_and_a_finished_one_is_dead() -> None:
    """A process is judged by its id and start on the same host, boot and namespace."""
    processes = Processes()
    assert not processes.is_provably_dead(processes.new_owner())
    with child() as (_, other):
        assert not processes.is_provably_dead(other)
    assert processes.is_provably_dead(other)


def test_a_reused_process_id_is_another_process() -> None:
    """The same id with another start is not the process that wrote the line."""
    processes = Processes()
    with child() as (_, other):
        assert other.start_ticks is not None
        assert processes.is_provably_dead(replace(other, start_ticks=other.start_ticks - 1))


@pytest.mark.parametrize("step", STEPS)
def test_setting_the_clock_kills_no_process(step: float) -> None:
    """The kernel works a process's start out from the time of boot, which moves with the clock; the ticks do not.
    Keeps 1 of protocol/owner."""
    processes = Processes()
    own = processes.new_owner()
    with child() as (_, other):
        for each in (own, other):
            assert not processes.is_provably_dead(replace(each, started=each.started + step))


def test_a_stopped_process_is_alive_and_one_without_a_waiting_parent_is_dead() -> None:
    """Ctrl-Z or sleep stops a process that lives on; a parent that does not look after its children leaves a dead
    one."""
    processes = Processes()
    with child() as (process, other):
        process.send_signal(signal.SIGSTOP)
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        assert not processes.is_provably_dead(other)
        process.kill()
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert processes.is_provably_dead(other)


def test_without_ticks_a_process_that_is_there_is_alive() -> None:
    """A process with that id may be the same one where the kernel does not say when it started, whatever the wall clock
    says. Keeps 2 of protocol/owner."""
    processes = Processes()
    with child() as (_, other):
        unsaid = replace(other, start_ticks=None)
        for step in (0.0, *STEPS):
            assert not processes.is_provably_dead(replace(unsaid, started=unsaid.started + step))
    assert processes.is_provably_dead(unsaid)


def test_nothing_is_known_about_other_machines() -> None:
    """A process of another host, boot or process namespace is never called dead, nor one by ticks that were counted
    elsewhere."""
    processes = Processes()
    gone = replace(processes.new_owner(), pid=2**30)
    assert processes.is_provably_dead(gone)
    assert not processes.is_provably_dead(replace(gone, host="elsewhere"))
    assert not processes.is_provably_dead(replace(gone, boot_id="before"))
    assert not processes.is_provably_dead(replace(gone, pid_namespace="pid:[1]"))
    assert not processes.is_provably_dead(replace(processes.new_owner(), start_ticks=1, time_namespace="time:[1]"))


def test_a_hidden_process_is_not_a_dead_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that still answers to a signal is alive, also where /proc hides other users' processes."""
    processes = Processes()
    owner = processes.new_owner()
    monkeypatch.setattr(owners, "_find", lambda pid: None)
    assert not processes.is_provably_dead(owner)
    assert processes.is_provably_dead(replace(owner, pid=2**30))
    assert processes.is_provably_dead(replace(owner, pid=2**70))


def test_a_process_may_be_called_anything(tmp_path: Path) -> None:
    """The name of the program stands in brackets in the middle of the line, and may hold brackets itself."""
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", "input()"], executable=program, stdin=subprocess.PIPE) as process:
        found = owners._find(process.pid)
        assert found is not None and not found.has_ended
        assert found.start_ticks > 1000
