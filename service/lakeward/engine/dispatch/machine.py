"""What the kernel lets this process have: cores and memory of the machine, or of the control groups that it is in.

    cgroup v2    /sys/fs/cgroup/<path>/memory.max, cpu.max
    cgroup v1    /sys/fs/cgroup/memory/<path>/memory.limit_in_bytes, /sys/fs/cgroup/cpu/<path>/cpu.cfs_quota_us

The path is as /proc/self/cgroup says it, and each that is above it counts, too. In a container the path is often not
there, and its own limits are at the root.

Touches: those files, reading only.
Keeps:   no more is reported than any of these limits allows; a limit that cannot be read is none.
Source:  Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_memory_limits()])


def cores() -> int:
    """One at least, also where less than one is allowed."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([usable, *_core_limits()]))


def _memory_limits() -> Iterator[int]:
    for folder in _folders("", "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            (limit,) = _words(folder / name, 1)
            if limit.isdecimal():
                yield int(limit)


def _core_limits() -> Iterator[int]:
    """A group that may run for 150 of each 100 milliseconds has use for two processes."""
    for folder in _folders("", "cpu"):
        quota, period = _words(folder / "cpu.max", 2)
        if not quota:
            (quota,), (period,) = _words(folder / "cpu.cfs_quota_us", 1), _words(folder / "cpu.cfs_period_us", 1)
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield -(-int(quota) // int(period))


def _folders(*controllers: str) -> Iterator[Path]:
    """The folders of the groups that this process is in: that of its own, and all above."""
    for line in _read(_OWN_GROUPS).splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for controller in set(names.split(",")).intersection(controllers):
            for place in (PurePosixPath(path), *PurePosixPath(path).parents):
                yield _GROUPS / controller / str(place).lstrip("/")


def _words(file: Path, number: int) -> list[str]:
    """So many words, as empty ones where there are others."""
    words = _read(file).split()
    return words if len(words) == number else [""] * number


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
