"""Indexes of Lakeward on tables of version 6 that Hudi 0.15.0 writes and services, in whatever order, with a metadata
table and without, with keys in buckets, and with its logs in Parquet."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import IN_CI
from tests.hudi.golden_version_6 import BY_EVENT_TIME, SHAPE, completed
from tests.hudi.golden_version_6_lives import COPIED, MOVING, TIDYING, rows_of, with_options
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import OLDEST_VERSION_OF_6, HudiMissing
from tests.hudi.table import TableShape
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import truth
from tests.index.version_6_indexes import Kept, outside, record
from tests.our_reader import scan
from tests.runs import runs

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

WITH_METADATA = {"hoodie.metadata.enable": "true"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
KINDS: dict[str, TableShape] = {
    "merged, with a metadata table": with_options(SHAPE, **MOVING, **WITH_METADATA),
    "copied, with a metadata table": with_options(BY_EVENT_TIME, **MOVING, **COPIED, **WITH_METADATA),
    "in buckets": with_options(SHAPE, **BUCKETS),
    "in buckets, by event time, logs in Parquet": with_options(
        BY_EVENT_TIME, **BUCKETS, **{"hoodie.logfile.data.block.format": "parquet"}
    ),
}
MERGED_ARCHIVE = {
    "hoodie.archive.merge.enable": "true",
    "hoodie.archive.merge.files.batch.size": "2",
    "hoodie.archive.merge.small.file.limit.bytes": "100000000",
}


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherRelease]:
    try:
        started = OtherRelease(OLDEST_VERSION_OF_6, tmp_path_factory.mktemp("release"))
    except HudiMissing as missing:
        (pytest.fail if IN_CI else pytest.skip)(str(missing))
    with started:
        yield started


@dataclass
class Life:
    table: OtherTable
    chance: random.Random
    kept: list[Kept] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    ts: int = 10

    @property
    def is_in_buckets(self) -> bool:
        return self.table.shape.options.get("hoodie.index.type") == "BUCKET"

    def write(self, operation: str, **options: str) -> None:
        """Some keys into one partition, which may move them; in buckets a key is of one partition."""
        self.ts += 1
        number = self.chance.randrange(3)
        keys = self.chance.sample(range(30), self.chance.randint(1, 8))
        if self.is_in_buckets:
            keys = [key - key % 3 + number for key in keys]
        if operation == "insert_overwrite":
            places = dict(truth(self.table.path))
            keys = [key for key in keys if places.get(f"k{key}", (f"p{number}", ""))[0] == f"p{number}"]
        if not keys:
            return
        keys = sorted(set(keys))
        self.told.append(f"{operation} {keys} in p{number} {sorted(options)}")
        ts = self.ts if operation == "delete" else self.ts + self.chance.choice([0, 0, -3])
        self.table.write(rows_of(keys, f"p{number}", ts, f"v{self.ts}"), operation, **options)

    def upsert(self) -> None:
        self.write("upsert")

    def delete(self) -> None:
        self.write("delete")

    def overwrite(self) -> None:
        self.write("insert_overwrite")

    def clean(self) -> None:
        """Cleaned and archived, and its archive merged now and then."""
        self.write("upsert", **TIDYING, **self.chance.choice([{}, MERGED_ARCHIVE]))

    def compact(self) -> None:
        if any(slice_.log_files for slice_ in scan(self.table.path).latest_slices):
            self.told.append("compact")
            self.table.compaction("op => 'scheduleAndExecute'")

    def cluster(self) -> None:
        if self.is_in_buckets:
            return
        self.told.append("cluster")
        self.table.procedure("run_clustering(path => '{path}', op => 'scheduleAndExecute')", **self.settings)

    def die(self) -> None:
        """A write that dies before it is complete; the next one rolls it back."""
        self.upsert()
        newest = self._newest()
        self.told.append("which died")
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)

    def roll_back(self) -> None:
        """What was complete, by name."""
        self.write("upsert")
        self.check()
        self.told.append("which is rolled back")
        what = f"rollback_to_instant(table => '{{table}}', instant_time => '{self._newest().stem}')"
        self.table.procedure(what, **self.settings)

    @property
    def settings(self) -> dict[str, str]:
        return {"hoodie.metadata.enable": self.table.shape.options["hoodie.metadata.enable"]}

    def _newest(self) -> Path:
        found = [path for action in ("commit", "deltacommit") for path in completed(self.table.path, action)]
        return max(found, key=lambda path: path.name)

    def check(self) -> None:
        rows = truth(self.table.path)
        read = [json.loads(row) for row in self.table.snapshot(with_meta=True)]
        hudis = {str(row["_hoodie_record_key"]): str(row["_hoodie_partition_path"]) for row in read}
        assert {key: place[0] for key, place in rows} == hudis, "\n".join(self.told)
        for index in self.kept:
            assert index.found() == rows, "\n".join([*self.told, index.name])
            if self.chance.random() < index.pace:
                index.update()
                assert index.found(bytes_max=0) == rows, "\n".join([*self.told, index.name, "up to date"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(runs(1)))
def test_a_life(oldest: OtherRelease, tmp_path: Path, kind: str, seed: int) -> None:
    """Each key is found where 0.15.0 reads it, after whatever it did."""
    chance = random.Random(f"{kind} {seed}")
    table = oldest.table(tmp_path / "table", KINDS[kind])
    life = Life(table, chance, told=[f"{kind} {seed=}"])
    life.write("upsert")
    life.kept = [
        record(table.path, "at-pace", 1.0),
        record(table.path, "late", 0.2),
        record(table.path, "by-partition", 0.5, is_global=False),
        outside(table.path, MemoryEntries(is_global=True), 0.3),
    ]
    for index in life.kept:
        index.build()
    acts = [life.upsert] * 4 + [life.delete] * 2 + [life.clean] * 5 + [life.die, life.die, life.roll_back]
    acts += [life.compact, life.compact, life.cluster, life.overwrite]
    if life.settings["hoodie.metadata.enable"] == "true":
        # What its metadata table has compacted Hudi does not roll back.
        acts = [act for act in acts if act not in (life.die, life.roll_back)]
    chance.shuffle(acts)
    for act in acts:
        act()
        life.check()
