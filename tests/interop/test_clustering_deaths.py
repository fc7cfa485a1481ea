"""Clusterings that die at one call to the storage after the other, beside released Hudi that writes and archives on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.services.clustering.plan.pack_options import PackOptions
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.interop.test_clustering import BY_LISTING, CLEANING, RECORD_INDEX, SHARED, Rows, check, made, write
from tests.services.clustering.run.packing import pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(2400)]

DEATHS, COMMITS_AFTER = 12, 5
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


def test_sixty_commits_with_archiving_after_deaths(spark: SparkSession, tmp_path: Path) -> None:
    """Clusterings of one table die one after the other, each at another call to the storage; after each of them Hudi's
    writers, which share the lock, write, clean and archive on. Once the archiver has passed what died, listing readers
    would take its files for committed: no row comes twice, and none is missing."""
    table, rows = made(spark, tmp_path / "t", "COPY_ON_WRITE", RECORD_INDEX | SHARED)
    archiving = {**CLEANING, "hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "3"}
    archiving["hoodie.keep.max.commits"] = "4"
    packing = PackOptions(groups_min=2)
    for death in range(DEATHS):
        storage = FaultyStorage()
        pack(table.copy_to(tmp_path / f"trial-{death}").path, storage, clock=SystemClock(), packing=packing)
        at = moment(storage.calls, death)
        with pytest.raises(Killed):
            pack(table.path, FaultyStorage(Fault(FaultKind.KILL, at)), clock=SystemClock(), packing=packing)
        (table.path / ".hoodie" / "lock").unlink(missing_ok=True)  # which the operator would do, or its expiry
        for beat in (table.path / ".hoodie" / ".heartbeat").glob("*"):
            os.utime(beat, (beat.stat().st_mtime - 900,) * 2)
        for turn in range(COMMITS_AFTER):
            new: Rows = {f"n{death}-{turn}-{n}": (1, f"p{n}", storage.calls[at][:40]) for n in range(2)}
            known: Rows = {"k20": (10 + death * COMMITS_AFTER + turn, "p0", "updated")} if turn % 2 else {}
            write(spark, table, rows, new | known, "upsert", **archiving)
        for options in ({}, BY_LISTING):
            found = table.frame(**options).select("id", "ts", "part", "v").collect()
            assert len(found) == len(rows), (options, storage.calls[at])
            assert {row["id"]: (row["ts"], row["part"], row["v"]) for row in found} == rows, (
                options,
                storage.calls[at],
            )
    assert not table.pending_instants()
    check(table, rows)
