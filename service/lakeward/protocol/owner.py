"""Who holds something: one line in heartbeat and lock files that says which process of Lakeward wrote it.

A process is *provably dead* when it ran on this host, in this boot and in this process namespace, and no process
with its id and start is left. Its start is the kernel's count of ticks since boot, which is fixed when a process begins
and which no setting of the clock moves. (A start by the wall clock does move: the kernel works it out from the time of
boot, so after a step of one second every live process looks like another one.) Anything else, a missing line included,
counts as alive; but for an attempt of this very process that ended without being able to remove what it held, which its
process would hold for ever.

Touches: the process table.
Keeps:   1. a live process is never called dead, whatever its clock is set to, and whether it runs, sleeps or is
            stopped; a dead one may be called alive (elsewhere, or unreadable);
         2. no difference of wall-clock times proves anything.
See:     docs/decisions/0017-what-clocks-prove.md
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from lakeward.protocol.times.stillness import Stillness

MAX_ATTEMPT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Owner:
    """One attempt of one process."""

    attempt: int
    """Random, 31 bits; also the middle part of the write tokens of its files."""
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: float
    """When the process started, seconds since the epoch: for people."""
    start_ticks: int | None
    """When the process started, in the kernel's ticks since boot; tells a reused process id apart. None where the
    kernel does not say."""
    time_namespace: str
    """The namespace in which the ticks were read; in another one they may be counted from another moment."""

    @property
    def shown(self) -> str:
        """The text for a process that waits for it."""
        return f"Lakeward's process {self.pid} on {self.host}"

    def to_line(self) -> bytes:
        return orjson.dumps(asdict(self)) + b"\n"


class Processes:
    """What this machine knows about processes. A process has one of these, for all its attempts."""

    def __init__(self) -> None:
        self._given_up: set[int] = set()
        self.stillness = Stillness()
        """How long the heartbeats and locks did not change of those processes of which nothing is known."""

    def new_owner(self) -> Owner:
        found = _find(os.getpid())
        return Owner(
            attempt=secrets.randbelow(MAX_ATTEMPT) + 1,
            host=socket.gethostname(),
            boot_id=_boot_id(),
            pid_namespace=_namespace("pid"),
            pid=os.getpid(),
            started=_psutil().Process().create_time(),
            start_ticks=None if found is None else found.start_ticks,
            time_namespace=_namespace("time"),
        )

    def give_up(self, owner: Owner) -> None:
        """The attempt is over, and something that it holds could not be removed."""
        self._given_up.add(owner.attempt)

    def is_provably_dead(self, owner: Owner) -> bool:
        """True where no process acts for `owner` any more."""
        if owner.attempt in self._given_up:
            return True
        here = (socket.gethostname(), _boot_id(), _namespace("pid"))
        if (owner.host, owner.boot_id, owner.pid_namespace) != here:
            return False
        found = _find(owner.pid)
        if found is None:
            return not _answers(owner.pid)
        if found.has_ended:
            return True
        is_comparable = owner.start_ticks is not None and owner.time_namespace == _namespace("time")
        return is_comparable and owner.start_ticks != found.start_ticks


@dataclass(frozen=True, slots=True)
class _Found:
    """A process, as the kernel shows it."""

    has_ended: bool
    """True when it ended and its parent did not wait for it; nothing of it runs any more."""
    start_ticks: int


def _find(pid: int) -> _Found | None:
    """None where there is no such process, or nothing is shown of it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The second field, the program's name in brackets, may hold anything; after it they are numbers (proc_pid_stat(5)).
    fields = line.rpartition(b")")[2].split()
    state, threads, start_ticks = fields[0], int(fields[17]), int(fields[19])
    # Its first thread may have ended while another one is still in a call.
    return _Found(state in (b"Z", b"X") and threads <= 1, start_ticks)


def _answers(pid: int) -> bool:
    # Where /proc hides the processes of other users (hidepid, systemd's ProtectProc), a live one looks as if it were
    # not there. A signal that is never sent decides: a hidden process refuses it, a dead one is not found.
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def parse_owner(line: bytes) -> Owner | None:
    """The owner in a heartbeat or lock file; None when another program wrote it, or we did and it is torn."""
    try:
        fields = orjson.loads(line)
        ticks = fields["start_ticks"]
        return Owner(
            **{name: kind(fields[name]) for name, kind in _FIELDS.items()},
            start_ticks=None if ticks is None else int(ticks),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


_FIELDS: dict[str, type] = {
    "attempt": int,
    "host": str,
    "boot_id": str,
    "pid_namespace": str,
    "pid": int,
    "started": float,
    "time_namespace": str,
}


def _psutil() -> Any:
    """Loaded where an attempt begins."""
    import psutil

    return psutil


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return str(int(_psutil().boot_time()))


def _namespace(kind: str) -> str:
    # Two containers of one machine can share host name and boot id, but never see each other's process ids.
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except FileNotFoundError:
        return ""
