"""Clusterings that die at one call to the storage or another, beside released Hudi that writes, cleans and archives on.

Twelve deaths, each in a copy of one table. Four of them leave something else on storage each (`STATES`), and have sixty
commits after them; the others, at equal distances between first call and last, have fifteen, which is enough for the
archiver to pass what died, and for the metadata table to be compacted. Four tables are written to at once.

With a load of 10 to 14 on two cores the first four took 21 minutes, the others 8 and 7.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.services.clustering.plan.pack_options import PackOptions
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.table import HudiTable
from tests.interop.test_clustering import BY_LISTING, CLEANING, RECORD_INDEX, SHARED, Rows, check, made, write
from tests.services.clustering.run.packing import pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(2400)]

DEATHS, AT_ONCE, LOOKS_EVERY = 12, 4, 5
FEW_INDEXES = RECORD_INDEX | {
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
ARCHIVING = {
    **CLEANING,
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
STATES = (
    ("create ", ".replacecommit.requested", 0),
    ("close ", ".parquet", 0),
    ("move ", ".parquet", -1),
    ("link ", ".replacecommit", 0),
)
"""The calls after which something else is left on storage: a requested instant without a file, some of the files, all
of them in their places and nothing published, and what is published and not cleared away; each by how the call begins
and ends, and which of those it is."""


def moment(calls: Sequence[str], death: int) -> int:
    """The call after which this death is: those of `STATES` first, then others at equal distances."""
    if death < len(STATES):
        begins, ends, place = STATES[death]
        return [at for at, call in enumerate(calls) if call.startswith(begins) and call.endswith(ends)][place]
    others = DEATHS - len(STATES)
    return len(calls) * (2 * (death - len(STATES)) + 1) // (2 * others)


@pytest.mark.parametrize("first", range(0, DEATHS, AT_ONCE))
def test_commits_with_archiving_after_each_death(spark: SparkSession, tmp_path: Path, first: int) -> None:
    """A clustering dies; Hudi's writers, which share the lock, write, clean and archive on. Once the archiver has
    passed what died, which it does here, listing readers would take its files for committed: no row comes twice, and
    none is missing, by listing, by the metadata table and by Lakeward."""
    table, rows = made(spark, tmp_path / "t", "COPY_ON_WRITE", FEW_INDEXES | SHARED)
    died = [died_in(table, tmp_path, death) for death in range(first, first + AT_ONCE)]
    commits, began = 60 if first < len(STATES) else 15, time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for done in [threads.submit(write_on, spark, *each, dict(rows), commits) for each in died]:
            done.result()
    print(f"{AT_ONCE} x {commits} commits in {time.monotonic() - began:.0f} s")


def died_in(table: HudiTable, folder: Path, death: int) -> tuple[HudiTable, str]:
    """A copy in which a clustering died, and the call after which it did."""
    storage, packing = FaultyStorage(), PackOptions(groups_min=2)
    pack(table.copy_to(folder / f"trial-{death}").path, storage, clock=SystemClock(), packing=packing)
    at, copy = moment(storage.calls, death), table.copy_to(folder / f"died-{death}")
    with pytest.raises(Killed):
        pack(copy.path, FaultyStorage(Fault(FaultKind.KILL, at)), clock=SystemClock(), packing=packing)
    (copy.path / ".hoodie" / "lock").unlink(missing_ok=True)  # which the operator would do, or its expiry
    for beat in (copy.path / ".hoodie" / ".heartbeat").glob("*"):
        os.utime(beat, (beat.stat().st_mtime - 900,) * 2)
    return copy, storage.calls[at].replace(str(folder), "")


def write_on(spark: SparkSession, table: HudiTable, died_after: str, rows: Rows, commits: int) -> None:
    newest = max(timeline(table))
    for turn in range(commits):
        new: Rows = {f"n{turn}-{n}": (1, f"p{n}", "new") for n in range(2)}
        known: Rows = {"k20": (10 + turn, "p0", "updated")} if turn % 2 else {}
        write(spark, table, rows, new | known, "upsert", **ARCHIVING)
        if turn % LOOKS_EVERY == LOOKS_EVERY - 1:
            for options in ({}, BY_LISTING):
                found = table.frame(**options).select("id", "ts", "part", "v").collect()
                where = f"after {turn + 1} commits, {options}, died after {died_after}"
                assert len(found) == len(rows), where
                assert {row["id"]: (row["ts"], row["part"], row["v"]) for row in found} == rows, where
    assert not table.pending_instants(), died_after
    assert min(timeline(table)) > newest, f"not archived: died after {died_after}"
    check(table, rows)


def timeline(table: HudiTable) -> list[str]:
    """The times of its instants."""
    return [path.name[:17] for path in (table.path / ".hoodie" / "timeline").glob("2*")]
