"""Who holds something: one line in heartbeat and lock files that says which process of ours wrote it.

A process is *provably dead* when it ran on this host, in this boot and in this process namespace, and no process
with its id and start time is left. Anything else, a missing line included, counts as alive; but for an attempt of
this very process that ended without being able to remove what it held, which its process would hold for ever.

Touches: the process table.
Keeps:   a live process is never called dead; a dead one may be called alive (elsewhere, or unreadable).
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import asdict, dataclass

import orjson
import psutil

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
    """When the process started, seconds since the epoch; tells a reused process id apart."""

    @property
    def shown(self) -> str:
        """To who waits for it."""
        return f"Lakeward's process {self.pid} on {self.host}"

    def to_line(self) -> bytes:
        return orjson.dumps(asdict(self)) + b"\n"


class Processes:
    """What this machine knows about processes. A process has one of these, for all its attempts."""

    def __init__(self) -> None:
        self._given_up: set[int] = set()

    def new_owner(self) -> Owner:
        return Owner(
            attempt=secrets.randbelow(MAX_ATTEMPT) + 1,
            host=socket.gethostname(),
            boot_id=_boot_id(),
            pid_namespace=_pid_namespace(),
            pid=os.getpid(),
            started=psutil.Process().create_time(),
        )

    def give_up(self, owner: Owner) -> None:
        """The attempt is over, and something that it holds could not be removed."""
        self._given_up.add(owner.attempt)

    def is_provably_dead(self, owner: Owner) -> bool:
        """Nobody acts for `owner` any more."""
        if owner.attempt in self._given_up:
            return True
        here = (socket.gethostname(), _boot_id(), _pid_namespace())
        if (owner.host, owner.boot_id, owner.pid_namespace) != here:
            return False
        try:
            process = psutil.Process(owner.pid)
            return bool(process.create_time() != owner.started or process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return not _answers(owner.pid)


def _answers(pid: int) -> bool:
    # Where /proc hides the processes of other users (hidepid, systemd's ProtectProc), a live one looks as if it were
    # not there. A signal that is never sent tells: a hidden process refuses it, a dead one is not found.
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
        return Owner(**{name: kind(fields[name]) for name, kind in _FIELDS.items()})
    except (ValueError, KeyError, TypeError):
        return None


_FIELDS: dict[str, type] = {
    "attempt": int,
    "host": str,
    "boot_id": str,
    "pid_namespace": str,
    "pid": int,
    "started": float,
}


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return str(int(psutil.boot_time()))


def _pid_namespace() -> str:
    # Two containers of one machine can share host name and boot id, but never see each other's process ids.
    try:
        return os.readlink("/proc/self/ns/pid")
    except FileNotFoundError:
        return ""
