"""Reads that Spark's event logs name, counted in the store as if engines had reported them.

    files of event logs --by application--> scans (`scan/spark_event_log`) --watched tables--> partitions --> the store

A log may be counted again at any time, also while its application runs: a read counts once. One that is older than a
day is left out, since the store does not know for longer what it has counted.

Touches: the files; the tables, reading only; the store.
Keeps:   1. lines are read one after the other, whatever a log's size;
         2. what cannot be read is named, and keeps nothing else from being counted.
See:     docs/decisions/0200-reads-by-spark-event-logs.md
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError, UsageError
from lakeward.scan.scan_plan import known_schema
from lakeward.scan.spark_event_log import SparkRead, asked_partitions, reads_of
from lakeward.services.compaction.plan.learned_reads import READ_AGE_SECONDS_MAX, WHOLE_TABLE, is_reader
from lakeward.state.reads import Reads
from lakeward.table.snapshot import TableSnapshot

PARTITIONS_MAX = 1000
"""A read of more partitions counts as one of the whole table."""

_ROLLED = re.compile(r"events_(?P<number>\d+)_")
_UNDER_WAY = ".inprogress"
_CODECS = (".lz4", ".snappy", ".lzf")
_SCHEME = re.compile(r"^(?:file:/*(?=/)|s3[an]?://)")


@dataclass(slots=True)
class LearnedLogs:
    """What came of a run."""

    applications: int = 0
    reads: int = 0
    """Scans of watched tables by readers within the last day."""
    counted: Counter[str] = field(default_factory=Counter)
    """New reads of partitions by table, as `planner.reads` counts them."""
    not_watched: int = 0
    not_readers: int = 0
    too_old: int = 0
    problems: list[LakewardError] = field(default_factory=list)


class EventLogReads:
    def __init__(
        self,
        *,
        reads: Reads,
        tables: Mapping[str, str],
        not_readers: Callable[[str, str], Sequence[str]],
        snapshot: Callable[[str], TableSnapshot],
        clock: Clock,
    ) -> None:
        """
        Args:
            tables: base paths of watched tables by their names.
            not_readers: of a table by its name and base path: patterns of names whose reads do not count.
            snapshot: a scan of the table at a base path.
        """
        self._reads, self._clock = reads, clock
        self._tables = {_place(base_path): (name, base_path) for name, base_path in tables.items()}
        self._not_readers, self._take_snapshot = not_readers, snapshot
        self._known: dict[str, tuple[TableSnapshot, pa.Schema] | None] = {}

    def count(self, logs: Sequence[Path]) -> LearnedLogs:
        """Raises `UsageError` for a path that holds no event logs."""
        learned = LearnedLogs()
        for files in [files for path in logs for files in applications_of(path)]:
            learned.applications += 1
            try:
                for read in reads_of(line for file in files for line in lines_of(file)):
                    self._count(read, learned)
            except (UsageError, ValueError, OSError) as error:
                learned.problems.append(
                    error
                    if isinstance(error, UsageError)
                    else UsageError(f"{files[0]} cannot be read to its end.", why=str(error), remedy=_REMEDY)
                )
        return learned

    def _count(self, read: SparkRead, learned: LearnedLogs) -> None:
        found = self._tables.get(_place(read.location))
        if found is None:
            learned.not_watched += 1
        elif read.at < self._clock.now() - READ_AGE_SECONDS_MAX:
            learned.too_old += 1
        elif not is_reader(read.requester, read.application, self._not_readers(*found)):
            learned.not_readers += 1
        elif (partitions := self._partitions(*found, read.partition_filters, learned)) is not None:
            learned.reads += 1
            who = {"requester": read.requester, "application": read.application}
            if partitions:
                learned.counted[found[0]] += self._reads.record(found[0], partitions, at=read.at, **who)

    def _partitions(self, name: str, base_path: str, filters: str, learned: LearnedLogs) -> tuple[str, ...] | None:
        """None where the table cannot be read."""
        if filters == "[]":
            return (WHOLE_TABLE,)
        if name not in self._known:
            try:
                snapshot = self._take_snapshot(base_path)
                self._known[name] = snapshot, known_schema(snapshot)
            except LakewardError as error:
                self._known[name] = None
                learned.problems.append(error)
        if (known := self._known[name]) is None:
            return None
        asked = asked_partitions(filters, known[0].partitions, config=known[0].config, schema=known[1])
        return (WHOLE_TABLE,) if asked is None or len(asked) > PARTITIONS_MAX else asked


def applications_of(path: Path) -> Iterator[tuple[Path, ...]]:
    """The files of each application, in their order: one file, or a folder of rolled ones. Raises `UsageError`."""
    if not path.exists():
        raise UsageError(f"There is nothing at {path}.", remedy="Name a file of spark.eventLog.dir, or that folder.")
    if path.is_file():
        yield (path,)
        return
    rolled = [(int(found["number"]), file) for file in path.iterdir() if (found := _ROLLED.match(file.name))]
    if rolled:
        yield tuple(file for _, file in sorted(rolled))
        return
    for entry in sorted(path.iterdir()):
        if entry.name.startswith("eventlog_v2_") or (entry.is_file() and not entry.name.startswith((".", "appstatus"))):
            yield from applications_of(entry)


def lines_of(file: Path) -> Iterator[bytes]:
    """The complete lines of a log. One that is still written ends where it is complete. Raises `UsageError`."""
    name = file.name.removesuffix(_UNDER_WAY)
    if name.endswith(_CODECS):
        raise UsageError(
            f"{file} is compressed in a way that is not read.",
            why="Event logs are read as text, and compressed by zstd, which is Spark's default.",
            remedy="Set spark.eventLog.compression.codec to zstd.",
        )
    opened: IO[bytes] = file.open("rb")
    if name.endswith(".zstd"):
        opened = io.BufferedReader(pa.input_stream(opened, compression="zstd"))
    with opened:
        try:
            for line in opened:
                if line.endswith(b"\n"):
                    yield line
        except OSError:
            if not file.name.endswith(_UNDER_WAY):
                raise


_REMEDY = "Copy the log again, or leave it out; what its other lines say is counted."


def _place(location: str) -> str:
    """Equal for what is one place, however Spark and the configuration spell it."""
    return _SCHEME.sub(lambda found: "s3://" if found[0].startswith("s3") else "", location).rstrip("/")
