"""The daemon says how far builds of indexes are, and of none that its process goes on with one that died."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from lakeward.cli.main import run
from lakeward.daemon.metrics.specs import TABLE_GAUGES
from lakeward.daemon.status import TableStatus
from lakeward.index.build_state import BuildProgress, build_folder
from lakeward.index.index_type import IndexType
from lakeward.index.record.record_options import RECORD_OPTIONS
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.run import index_build
from tests.daemon.serving import Serving
from tests.faults import Killed
from tests.index.builds import in_process
from tests.index.record.reopened_record_index import new_record_index
from tests.our_reader import scan
from tests.write.own_record_index import STORAGE
from tests.write.writing import new_table, write


class Building:
    """A table, a build of an index that died once all keys were read, and a daemon."""

    def __init__(self, folder: Path) -> None:
        (folder / "tables").mkdir()
        given = {"defaults.interval": "10s", "defaults.services": '["index"]', "defaults.timezone": "UTC"}
        self.serving = Serving(folder / "tables", folder / "state", settings=given)
        self.base = new_table(folder / "tables" / "orders")
        write(self.base, [("k1", 1, "a", "x"), ("k2", 1, "b", "x"), ("k3", 1, "c", "x")])
        index = RECORD_OPTIONS.folder(str(self.base))
        new_record_index(Path(index), buckets=1)
        opens = partial(RecordIndexWriter.of, STORAGE, folder=index)
        self.folder = self.folder_of(IndexType.RECORD)
        work = replace(in_process(self.base), folder=str(self.folder))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(index_build, "make_bucket_files", self._die)
            with pytest.raises(Killed):
                index_build.build_index(STORAGE, opens, lambda: scan(self.base), work)

    @staticmethod
    def _die(*given: object) -> None:
        raise Killed("the build")

    def folder_of(self, kind: IndexType) -> Path:
        return Path(build_folder(str(self.base), kind, RECORD_OPTIONS))

    @property
    def table(self) -> TableStatus:
        (found,) = self.serving.status().tables
        return found

    def gauge(self, name: str) -> object:
        (gauge,) = (each for each in TABLE_GAUGES if each.spec.name == f"lakeward_table_index_build_{name}")
        return gauge.read(self.table, self.serving.clock.now())


@pytest.mark.slow
def test_a_build_that_died(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is read of it is shown as `index list` shows it, and when the last of that was read, which stays what it is;
    no such index is there, and nothing is due of it."""
    died = Building(tmp_path)
    died.serving.run(20.0)
    found = died.serving.index_memory().builds[IndexType.RECORD]
    assert (
        (found.read, found.of) == (3, 3) and died.serving.index_memory().indexes == () and died.table.last_job is None
    )
    assert (died.gauge("file_groups"), died.gauge("read_file_groups")) == ({"record": 3.0}, {"record": 3.0})
    assert died.gauge("progress_timestamp_seconds") == {"record": found.newest_at}
    capfd.readouterr()
    assert run(["index", "list", str(died.base), "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)["indexes"]
    assert any("A build has read 3 of 3 file groups, the last one " in each["note"] for each in listed)

    write(died.base, [("k3", 2, "c", "y"), ("k4", 2, "d", "x")])
    died.serving.run(3700.0, step=10.0)
    assert died.serving.index_memory().builds == {IndexType.RECORD: BuildProgress(2, 4, found.newest_at)}
    shown = died.serving.index_memory().builds[IndexType.RECORD].describe(died.serving.clock.now())
    assert shown.startswith("A build has read 2 of 4 file groups, the last one 1 h ")


def test_a_build_that_goes_on(tmp_path: Path) -> None:
    """While something is read, it is looked at each minute, though nothing of the table changes; one that is there
    takes what it read away."""
    begun = Building(tmp_path)
    kept = sorted(begun.folder.iterdir())
    data = kept[0].read_bytes()
    kept[0].unlink()
    begun.serving.run(10.0)
    assert begun.serving.index_memory().builds[IndexType.RECORD].read == 2
    kept[0].write_bytes(data)
    now = begun.serving.clock.now()
    os.utime(kept[0], (now, now))
    copytree(begun.folder, begun.folder_of(IndexType.POSTGRES))
    begun.serving.run(70.0)
    assert {kind: each.read for kind, each in begun.serving.index_memory().builds.items()} == dict.fromkeys(
        (IndexType.RECORD, IndexType.POSTGRES), 3
    )
    assert begun.serving.index_memory().builds[IndexType.RECORD].newest_at == pytest.approx(now, rel=0, abs=0.01)
    rmtree(begun.folder)
    begun.serving.run(70.0)
    assert begun.serving.index_memory().builds.keys() == {IndexType.POSTGRES}
