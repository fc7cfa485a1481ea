"""The daemon keeps the cache of filters: it brings it up to date, holds it against the files, and says how much of the
table it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.daemon.metrics.specs import TABLE_GAUGES
from lakeward.index.bloom import log_coverage
from lakeward.index.bloom.cache_manifest import cache_folder
from lakeward.index.bloom.filter_cache import usable_cache
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.update_choice import UpdateDecision, UpdateReason
from lakeward.protocol.index.filter_cache_writer import create_filter_cache
from lakeward.services.indexing.index_memory import IndexStatus
from lakeward.services.indexing.judge.index_list import ListedIndex, list_indexes
from lakeward.services.indexing.upkeep.tasks import IndexSpec, IndexUpdated, update_index_at
from lakeward.write.request import FileSizes
from tests.daemon.serving import Serving
from tests.index.bloom.caches import STORAGE, cache_files, mislead_cache, rebuilt
from tests.our_reader import scan
from tests.write.writing import new_table, write

pytestmark = pytest.mark.slow

ROUND = 3600.0


class Kept:
    """A table with a cache of filters, its writers, and a daemon."""

    def __init__(self, folder: Path, *, with_logs: bool = False, **settings: str) -> None:
        (folder / "tables").mkdir()
        given = {
            "defaults.interval": "10s",
            "defaults.services": '["index"]',
            "defaults.timezone": "UTC",
        }
        self.serving = Serving(folder / "tables", folder / "state", settings=given | settings)
        self.updates = 0
        self.serving.run_index_update = self._update
        self.base = new_table(folder / "tables" / "orders")
        self.insert("k1")
        rebuilt(scan(self.base), with_logs=with_logs)
        self.serving.run(70.0)

    def insert(self, *keys: str) -> None:
        """Another writer commits a new base file, at the time that the daemon has."""
        rows = [(key, 1, "p", "x") for key in keys]
        write(self.base, rows, "insert", clock=self.serving.clock, sizes=FileSizes(small_file=0))

    def change(self, key: str) -> None:
        """Another writer commits a log."""
        write(self.base, [(key, 2, "p", "y")], clock=self.serving.clock)

    @property
    def index(self) -> IndexStatus:
        (found,) = (each for each in self.serving.index_memory().indexes if each.type is IndexType.BLOOM)
        return found

    def listed(self) -> ListedIndex:
        found = list_indexes(STORAGE, scan(self.base), clock=self.serving.clock)
        return next(each for each in found if each.type == "bloom")

    def covered(self) -> tuple[int, int]:
        """What page and gauges say that it has of the table's base files, and of how many, as `index list` does."""
        coverage, listed = self.index.coverage, self.listed()
        assert coverage is not None and self.index.behind is not None
        assert (coverage.bases, coverage.of_bases) == (listed.covered, listed.of)
        assert (self.index.behind.commits, self.index.behind.bytes) == (listed.behind_commits, listed.behind_bytes)
        assert self.gauge("lakeward_table_index_behind_commits") == listed.behind_commits
        assert self.gauge("lakeward_table_index_coverage_ratio") == coverage.bases / coverage.of_bases
        return coverage.bases, coverage.of_bases

    def gauge(self, name: str) -> float:
        (gauge,) = (each for each in TABLE_GAUGES if each.spec.name == name)
        found = gauge.read(self.serving.status().tables[0], self.serving.clock.now())
        assert isinstance(found, dict)
        return found["bloom"]

    def _update(self, location: str, spec: IndexSpec, attempt: int) -> IndexUpdated:
        self.updates += 1
        return update_index_at(location, spec, attempt)

    def events(self) -> str:
        return "\n".join(each.text for each in self.serving.store.events.latest(str(self.base), 50))


def test_a_table_that_another_writer_writes(tmp_path: Path) -> None:
    """A base file that comes waits for a minute, and is then in the cache; a log, which the cache is not to have, is
    nothing that it lacks, and begins no job. Keeps of index/bloom/cache_coverage."""
    kept = Kept(tmp_path)
    assert kept.covered() == (1, 1) and kept.index.behind == Staleness()
    kept.insert("k2")
    kept.serving.run(30.0)
    assert kept.covered() == (1, 2) and kept.index.behind is not None and kept.index.behind.commits == 1
    assert kept.index.update is not None and kept.index.update.reason is UpdateReason.YOUNG
    kept.serving.run(60.0)
    assert kept.covered() == (2, 2)
    assert (kept.index.behind, kept.index.update) == (Staleness(), UpdateDecision(UpdateReason.CURRENT))
    job = kept.serving.status().tables[0].last_job
    assert job is not None and (job.service, job.result, job.figures["index_commits"]) == ("index", "committed", 1)

    files = cache_files(kept.base)
    kept.change("k1")
    kept.serving.run(200.0)
    assert kept.covered() == (2, 2) and (kept.updates, cache_files(kept.base)) == (1, files)

    for number in range(8):
        kept.insert(f"new {number}")
    kept.serving.run(25.0)
    assert kept.covered() == (10, 10), "once eight commits wait, none waits longer"


def test_one_with_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are lacking where the cache is to have them, and are taken in. A plan reads the cache once, also to say how
    many bytes of logs are cached."""
    kept = Kept(tmp_path, with_logs=True)
    monkeypatch.setattr(log_coverage, "usable_cache", lambda *_: pytest.fail("the cache is read once more"))
    kept.change("k1")
    kept.serving.run(30.0)
    assert kept.index.behind is not None and kept.index.behind.commits == 1 and kept.covered() == (1, 1)
    assert kept.index.coverage is not None and (kept.index.coverage.logs, kept.index.coverage.of_logs) == (0, 1)
    kept.serving.run(60.0)
    assert kept.covered() == (1, 1) and kept.index.coverage.logs == 1 and kept.index.behind == Staleness()
    monkeypatch.undo()
    seen = kept.serving.index_memory().logs
    assert seen is not None and seen == log_coverage.look_at_logs(STORAGE, scan(kept.base))
    assert seen.coverage.cached_bytes == seen.coverage.log_bytes > 0


def test_one_that_is_not_built(tmp_path: Path) -> None:
    """To build it is an operator's word: neither footers alone, nor a build that only began, is a cache."""
    kept = Kept(tmp_path)
    folder = cache_folder(str(kept.base))
    STORAGE.delete_folder(folder)
    kept.insert("k2")
    kept.serving.run(70.0)
    assert kept.serving.index_memory().indexes == () and not cache_files(kept.base)
    create_filter_cache(STORAGE, folder, with_logs=False)
    kept.insert("k3")
    kept.serving.run(70.0)
    assert kept.serving.index_memory().indexes == () and "footers were opened" in kept.listed().note
    assert rebuilt(scan(kept.base)).covered == 3


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A base file whose footer is broken is reported once, and not tried without end. What happened to the cache's own
    file is read again."""
    kept = Kept(tmp_path)
    kept.insert("k2")
    broken = max(kept.base.glob("p/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    broken.write_bytes(b"PAR1" + b"\0" * (broken.stat().st_size - 4))
    kept.serving.run(90.0)
    assert kept.covered() == (1, 2) and kept.index.coverage is not None and kept.index.coverage.unread == 1
    assert kept.index.update is not None and kept.index.update.reason is UpdateReason.CURRENT
    assert broken.name in kept.events() and "1 of the table's files could not be read" in kept.listed().note
    kept.serving.run(1000.0, step=10.0)
    assert kept.updates == 1

    for lost in cache_files(kept.base):
        if lost.suffix == ".keys":
            lost.unlink()
    kept.serving.run(1000.0, step=10.0)
    assert kept.covered() == (1, 2) and "It is not there" in kept.events()


@pytest.mark.slow
def test_one_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found within a round, named, and out of use for lookups until it is made again; until then it is not
    brought up to date."""
    monkeypatch.setattr("lakeward.services.indexing.upkeep.checks.ROUND_SECONDS", ROUND)
    kept = Kept(tmp_path)
    kept.serving.run(ROUND, step=10.0)
    assert kept.index.checked_at is not None and (kept.index.checked, kept.index.wrong) == (1, 0)
    mislead_cache(kept.base, "range")
    kept.serving.run(ROUND, step=10.0)
    assert kept.index.wrong == 1 and "1 of 1 entries were found wrong" in kept.index.out_of_use
    assert kept.gauge("lakeward_table_index_wrong_keys") == kept.gauge("lakeward_table_index_out_of_use") == 1
    assert "the cache says that its keys are" in kept.events()
    assert usable_cache(STORAGE, str(kept.base)) is None and "it is out of use" in kept.listed().note

    kept.insert("k2")
    kept.serving.run(90.0)
    assert kept.covered() == (1, 2)
    assert kept.index.update is not None and kept.index.update.reason is UpdateReason.OUT_OF_USE
    rebuilt(scan(kept.base))
    again = kept.serving.clock.now()
    kept.insert("k3")
    kept.serving.run(90.0)
    assert (kept.index.out_of_use, kept.index.wrong, kept.covered()) == ("", 0, (3, 3))
    assert kept.index.checked_at is None or kept.index.checked_at > again


def test_one_whose_manifest_cannot_be_read(tmp_path: Path) -> None:
    """That is reported, and nothing is made of it: whether it is to have logs is not known any more."""
    kept = Kept(tmp_path)
    max(path for path in cache_files(kept.base) if path.suffix == ".json").write_text("{}")
    kept.insert("k2")
    kept.serving.run(90.0)
    assert "The manifest" in kept.index.problem and (kept.index.coverage, kept.index.behind) == (None, None)
    assert kept.index.update is not None and kept.index.update.reason is UpdateReason.UNREADABLE
    assert kept.gauge("lakeward_table_index_unreadable") == 1
    assert "is broken" in kept.listed().note


@pytest.mark.parametrize("what", ["update", "rebuild"])
def test_another_process_at_the_same_time(tmp_path: Path, what: str) -> None:
    """Neither harms the other: all is there afterwards, and the job does not fail."""
    kept = Kept(tmp_path)

    def run(location: str, spec: IndexSpec, attempt: int) -> IndexUpdated:
        if what == "update":
            update_index_at(location, spec, attempt)
        else:
            rebuilt(scan(kept.base))
        return update_index_at(location, spec, attempt)

    kept.serving.run_index_update = run
    kept.insert("k2")
    kept.serving.run(90.0)
    assert kept.covered() == (2, 2)
    job = kept.serving.status().tables[0].last_job
    assert job is not None and job.result == "nothing"
