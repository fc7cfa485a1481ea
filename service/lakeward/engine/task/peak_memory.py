"""How much memory the process of an operation needed at its worst, interpreter included.

Linux keeps the largest resident set of a process and lets the process set it back, so a Python worker of Spark that
runs one task after the other can say it of each. Where that is not allowed (a sandbox, another system) the largest
since the process began is all there is.

The pool that Arrow takes memory from while an operation runs.

Its own choice, mimalloc, keeps what was freed: a merge of one row of 100 MB ended with 130 MiB that nothing held, and
one of wide rows had 544 MiB at its peak where a fifth was not in use. jemalloc gives it back, at the same cost.

The environment asks for jemalloc before Arrow is loaded (`lakeward/__init__`). Where Arrow was loaded before that, as
by Spark in an executor, only what Python asks for comes from the pool that is set here. Builds of Arrow without
jemalloc keep their own.

Touches: /proc/self/clear_refs and /proc/self/status.
"""

from __future__ import annotations

import re
import resource
import sys

import pyarrow as pa

_CLEAR_REFS = "/proc/self/clear_refs"
_STATUS = "/proc/self/status"
_RESET_PEAK = "5"


class PeakMemory:
    """Starts counting when it is made."""

    def __init__(self) -> None:
        self._is_reset = _reset()

    def peak_bytes(self) -> int:
        """The peak since the last reset; 0 where it is unknown."""
        return (_since_reset() if self._is_reset else None) or _since_start()


def _reset() -> bool:
    try:
        with open(_CLEAR_REFS, "w", encoding="ascii") as file:
            file.write(_RESET_PEAK)
    except OSError:
        return False
    return True


def _since_reset() -> int | None:
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            found = re.search(r"^VmHWM:\s*(\d+) kB$", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


def _since_start() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


_WANTED = "jemalloc"


def use_tight_pool() -> None:
    if _WANTED in pa.supported_memory_backends() and pa.default_memory_pool().backend_name != _WANTED:
        pa.set_memory_pool(pa.jemalloc_memory_pool())
