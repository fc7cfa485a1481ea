"""What follows for Spark from the memory of an operation: a task is one operation, and its rows are outside of Java.

    master              tasks at once                              what must hold their Python workers
    yarn, k8s://        spark.executor.cores / spark.task.cpus   the container: spark.executor.memoryOverhead, and on
                        of each executor                         YARN spark.executor.pyspark.memory where it is set
    local[n]            n / spark.task.cpus                      what operations may take of this machine
    spark://, others    as on YARN                               the machine, of which Spark counts Java's heap alone

The overhead holds what Java takes beside its heap, too: a tenth of the heap, 384 MiB at least, unless a factor is set.
`spark.executor.pyspark.memory` is never set here: each worker gets its share of it as a limit of addresses, which
Arrow, allocators and threads take many more of than they use.

Touches: nothing.
Keeps:   1. what is set stays, whatever it is; what it lacks is said;
         2. what is derived holds what Spark would have added by itself, and the budgets of all tasks of an executor;
         3. `local[*]` has no more tasks at once than have their memory.
Source:  Spark 3.5: `ResourceProfile.calculateOverHeadMemory`, `BasicExecutorFeatureStep` (the pod of a driver in client
         mode has no pyspark.memory), `PythonRunner.getWorkerMemoryMb`, `LocalEndpoint`, `worker.py`;
         `spark.executor.minMemoryOverhead` is of Spark 4.
See:     docs/decisions/0056-spark-and-processes-within-the-budget.md
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lakeward.base.quantities import format_size
from lakeward.engine.dispatch.local import Places

Setting = Callable[[str], str | None]
"""From a key of Spark's to what it is set to; None: it is not set."""

OVERHEAD = "spark.executor.memoryOverhead"
PYSPARK_MEMORY = "spark.executor.pyspark.memory"
ADDRESSES_BYTES = 1024**3
"""What a worker takes of addresses beyond its budget: for libraries, for what allocators reserve, for the stacks of its
threads. On two cores it was 565 MiB, and threads are as many as cores."""

_MIB = 1024 * 1024
_UNITS = {"b": 1, "k": 1024, "m": _MIB, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_SIZE = re.compile(r"(\d+)([bkmgtp])?b?")
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


@dataclass(frozen=True, slots=True)
class SparkMemory:
    """What the operations of a session may take."""

    operation_bytes: int
    """Peak memory of one."""
    here_bytes: int
    """What all of them may take on this machine."""
    here_at_once: int
    """How many that is, and no more than it has cores."""

    @classmethod
    def on(cls, places: Places, operation_bytes: int) -> SparkMemory:
        """For operations that take no more of this machine than those places have."""
        return cls(operation_bytes, places.memory_bytes, places.at_once(operation_bytes))

    def local_master(self, master: str) -> str:
        """The master to start for this one."""
        return re.sub(r"(?<=^local\[)\*", str(self.here_at_once), master)

    def derived(self, setting: Setting) -> dict[str, str]:
        """Settings for what is not set."""
        if not _has_containers(setting) or setting(OVERHEAD) is not None:
            return {}
        needed = self._needed_overhead(setting)
        return {} if needed is None else {OVERHEAD: f"{-(-needed // _MIB)}m"}

    def shortfall(self, setting: Setting) -> str | None:
        """What the settings of a session lack, and what would be enough, in sentences; None: nothing is known of it."""
        return self._of_this_machine(setting) or self._of_containers(setting) or self._of_addresses(setting)

    def _of_this_machine(self, setting: Setting) -> str | None:
        found = _LOCAL.fullmatch(setting("spark.master") or "")
        if found is None or found[1] == "*":
            return None
        tasks = max(1, int(found[1] or 1) // max(1, _number(setting("spark.task.cpus"))))
        if tasks == 1 or tasks * self.operation_bytes <= self.here_bytes:
            return None
        return (
            f"{found[0]} runs {tasks} operations at once, which may take {format_size(tasks * self.operation_bytes)}; "
            f"{format_size(self.here_bytes)} is what they have here. local[{self.here_at_once}] or local[*] fits."
        )

    def _of_containers(self, setting: Setting) -> str | None:
        said = _size(setting(OVERHEAD))
        if not _has_containers(setting) or said is None:
            return None
        needed = self._needed_overhead(setting)
        if needed is None or said >= needed:
            return None
        return (
            f"{OVERHEAD} is {format_size(said)}, and an executor with {_tasks(setting)} operations of "
            f"{format_size(self.operation_bytes)} at once needs {format_size(needed)} beside Java's heap. What is "
            f"killed for it fails its attempt; leave it out to have it set, or give {-(-needed // _MIB)}m."
        )

    def _of_addresses(self, setting: Setting) -> str | None:
        said = _size(setting(PYSPARK_MEMORY))
        if said is None:
            return None
        each, needed = said // max(1, _number(setting("spark.executor.cores"))), self.operation_bytes + ADDRESSES_BYTES
        if each >= needed:
            return None
        return (
            f"{PYSPARK_MEMORY} leaves each worker {format_size(each)} of addresses, of which an operation of "
            f"{format_size(self.operation_bytes)} may take {format_size(needed)}. Leave it out: the operation holds "
            "itself to its memory."
        )

    def _needed_overhead(self, setting: Setting) -> int | None:
        """Bytes; None where a setting cannot be read, which Spark will refuse."""
        heap = _size(setting("spark.executor.memory") or "1g")
        least = _size(setting("spark.executor.minMemoryOverhead") or "384m")
        try:
            factor = float(_factor(setting))
        except ValueError:
            return None
        if heap is None or least is None:
            return None
        in_workers = _tasks(setting) * self.operation_bytes
        if (setting("spark.master") or "").startswith("yarn"):
            in_workers -= min(in_workers, _size(setting(PYSPARK_MEMORY)) or 0)
        return max(int(heap * factor), least) + in_workers


def _has_containers(setting: Setting) -> bool:
    """A cluster manager that gives an executor so much memory and no more."""
    return (setting("spark.master") or "").startswith(("yarn", "k8s://"))


def _tasks(setting: Setting) -> int:
    return max(1, _number(setting("spark.executor.cores")) // max(1, _number(setting("spark.task.cpus"))))


def _factor(setting: Setting) -> str:
    of_executors = setting("spark.executor.memoryOverheadFactor")
    if of_executors is None and (setting("spark.master") or "").startswith("k8s://"):
        of_executors = setting("spark.kubernetes.memoryOverheadFactor")
    return of_executors or "0.1"


def _number(text: str | None) -> int:
    """1, which is the default, also where it is no number."""
    return int(text) if text is not None and text.isdecimal() else 1


def _size(text: str | None) -> int | None:
    """Bytes; a number without a unit is of MiB. None where it is not set, or no size."""
    found = _SIZE.fullmatch((text or "").strip().lower())
    return None if found is None else int(found[1]) * _UNITS[found[2] or "m"]
