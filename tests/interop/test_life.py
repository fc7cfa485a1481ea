"""Real Hudi writes, and every service of Lakeward runs between its writes: Hudi finds the rows of now, and as
of each instant that is retained, after every step; in the end it reads, cleans and archives the table further itself.

The steps are drawn by a seed, which a failure names, as `LAKEWARD_SEED` chooses it: what `tests/life` plays by the
thousand against a model of Hudi is played here against Hudi, a few times.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.services.rollback.run.failed_tables import fail_last_write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1200)]

KEYS = 12
RETAINED = 2
PAST = 3
"""So many of the newest instants are read again after each step, and those with a savepoint."""
HUDI_SERVICES = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
    # Or Hudi archives nothing.
    "hoodie.metadata.compact.max.delta.commits": "1",
}
Found = dict[str, str]


class History:
    def __init__(self, spark: SparkSession, table: HudiTable, seed: int) -> None:
        self._spark = spark
        self.table = table
        self.chance = random.Random(seed)
        self.number = 0
        self.rows: Found = {}
        self.past: dict[str, Found] = {}
        """What Hudi found as of an instant when it was the newest one."""
        self.log: list[str] = []
        self.saved: set[str] = set()

    def step(self) -> None:
        names = ["write"] * 4 + ["overwrite", "fail", "compact", "compact", "clean", "undo", "archive", "savepoint"]
        name = self.chance.choice(names)
        self.log.append(name)
        getattr(self, name)()
        self.check()

    # Hudi writes

    def write(self, keys: list[int] | None = None, **options: str) -> None:
        chosen = keys if keys is not None else self.chance.sample(range(KEYS), 4)
        self._write(chosen, "upsert", **options)
        self.rows |= {f"k{key}": f"v{self.number}" for key in chosen}
        self._remember()

    def overwrite(self) -> None:
        part = self.chance.randrange(2)
        keys = list(range(part, KEYS, 4))
        self._write(keys, "insert_overwrite")
        kept = {key: value for key, value in self.rows.items() if int(key[1:]) % 2 != part}
        self.rows = kept | {f"k{key}": f"v{self.number}" for key in keys}
        self._remember()

    def fail(self) -> None:
        """A write that never completed, which we roll back."""
        self._write(self.chance.sample(range(KEYS), 4), "upsert")
        fail_last_write(self.table.path)
        self._run("rollback")

    # We service

    def compact(self) -> None:
        kind = self.chance.choice(["full", "hybrid", "log"])
        self._run("compact", "--type", kind, "--engine", "local")
        self._remember()

    def clean(self, *options: str) -> dict[str, object]:
        self.past = {time: found for time, found in self.past.items() if time in self._retained() | self.saved}
        retain = ("--policy", "commits", "--retain", str(RETAINED), "--reader-window", "0s")
        return self._run("clean", *retain, *options)

    def undo(self) -> None:
        """What a clean took away is brought back, and what was retained before it can be read again."""
        before = dict(self.past)
        done = self.clean("--keep-deleted", "1d")
        self.check()
        cleans = [each for each in done["cleans"] if each["completion_time"]]  # type: ignore[attr-defined]
        if len(cleans) == 1:
            self._run("quarantine restore", cleans[0]["instant"])
            self.past = before

    def archive(self) -> None:
        self._run("archive", "--keep-min", "4", "--keep-max", "5", "--commits-retained", str(RETAINED))

    def savepoint(self) -> None:
        instant = max(self.past)
        if instant not in self.saved:
            exit_code, printed = lakeward("savepoint", "create", str(self.table.path), "--writers", "stopped")
            assert exit_code == 0, printed
            self.saved.add(instant)

    def check(self) -> None:
        assert self._found() == self.rows, self.log
        for time, found in sorted(self.past.items()):
            assert self._found(time) == found, (self.log, time)

    def _run(self, verb: str, *options: str) -> dict[str, object]:
        exit_code, printed = lakeward(*verb.split(), str(self.table.path), "--writers", "stopped", *options)
        assert exit_code == 0, (self.log, printed)
        return printed

    def _write(self, keys: list[int], operation: str, **options: str) -> None:
        self.number += 1
        rows = ",".join(f"('k{key}', 'p{key % 2}', {self.number}L, 'v{self.number}')" for key in sorted(keys))
        frame = self._spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, part, ts, v)")
        self.table.write(frame, operation, **options)

    def _found(self, as_of: str | None = None) -> Found:
        options = {} if as_of is None else {"as.of.instant": as_of}
        return {row["id"]: row["v"] for row in self.table.frame(**options).select("id", "v").collect()}

    def _remember(self) -> None:
        self.past[max(time for time, _ in self.table.completed_instants())] = dict(self.rows)
        newest = sorted(self.past)[-PAST:]
        self.past = {time: found for time, found in self.past.items() if time in newest or time in self.saved}

    def _retained(self) -> set[str]:
        return set(sorted(time for time, _ in self.table.completed_instants())[-RETAINED:])


@pytest.mark.wide
@pytest.mark.parametrize(
    ("seed", "steps", "metadata"),
    [
        (1, 6, True),
        (2, 15, False),
        (3, 15, True),
    ],
)
def test_hudi_lives_on_a_table_that_is_serviced(
    seed: int, steps: int, metadata: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """Every reader that is promised anything finds it, and Hudi goes on where we stop."""
    seed = int(os.environ.get("LAKEWARD_SEED", seed))
    shape = TableShape(partition_fields="part", options={"hoodie.metadata.enable": str(metadata).lower()})
    history = History(spark, HudiTable(spark, tmp_path / "t", shape), seed)
    try:
        history.write(list(range(KEYS)))
        for _ in range(steps):
            history.step()
        files = set(history.table.data_files())
        instants = history.table.completed_instants()
        for instant in sorted(history.saved):
            exit_code, printed = lakeward(
                "savepoint", "delete", str(history.table.path), instant, "--writers", "stopped"
            )
            assert exit_code == 0, printed
        for _ in range(4):
            history.write(**HUDI_SERVICES)
        history.past.clear()
        history.check()
        exit_code, printed = lakeward("verify", str(history.table.path), "--all")
        assert exit_code == 0, printed
        assert files - set(history.table.data_files()), "Hudi has cleaned"
        assert set(instants) - set(history.table.completed_instants()), "Hudi has archived"
    except BaseException as error:
        error.add_note(f"LAKEWARD_SEED={seed} repeats this history: {history.log}")
        raise
