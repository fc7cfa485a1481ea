"""What several interop tests look at and a Hudi takes long to make: made once for all processes of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import IN_CI
from tests.hudi.hbase_hfiles import MISSING
from tests.hudi.hfile_java import write_entries
from tests.hudi.metadata_table import write_table_with_metadata
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION_OF_8, HudiMissing
from tests.interop.hfile_cases import HUDIS, OWN, probes, write_own
from tests.interop.hybrid_table import Reported, kept_once
from tests.interop.made_once import made_once
from tests.interop.test_hybrid_compaction import COMMIT, EVENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def by_hbase(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which Hudi 1.0.2 left what it read and wrote by HBase's code, a table among it (`table`)."""
    return made_once(tmp_path_factory, "by_hbase", _run_hbase)


def _run_hbase(folder: Path) -> None:
    for name in ("own", "hudis", "scratch"):
        (folder / name).mkdir(parents=True)
    for name, (entries, codec, block_bytes) in OWN.items():
        write_own(folder / "own" / f"{name}.hfile", entries, codec, block_bytes)
        write_entries(folder / "own" / f"{name}.keys", [(key, b"") for key in probes(entries)])
    for name, entries in HUDIS.items():
        write_entries(folder / "hudis" / f"{name}.entries", entries)
    done = subprocess.run(
        [sys.executable, "-m", "tests.hudi.hbase_hfiles", str(folder), str(folder / "scratch")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode == MISSING:
        (pytest.fail if IN_CI else pytest.skip)(done.stderr[-1000:])
    assert done.returncode == 0, done.stderr[-5000:]


@pytest.fixture(scope="session")
def table_with_metadata(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table by released Hudi with every partition of its metadata table. A test that changes it works on a copy."""

    def make(folder: Path) -> None:
        write_table_with_metadata(request.getfixturevalue("spark"), folder / "table")

    return made_once(tmp_path_factory, "metadata", make) / "table"


@pytest.fixture(scope="session", params=[COMMIT, pytest.param(EVENT, marks=pytest.mark.wide)])
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Reported:
    """The table of `hybrid_table.py` with the plan pending, for copies."""
    return kept_once(spark, tmp_path_factory, request.param)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherRelease]:
    """Hudi 1.0.2, the oldest release of table version 8."""
    try:
        release = OtherRelease(OLDEST_VERSION_OF_8, tmp_path_factory.mktemp("older"))
    except HudiMissing as missing:
        (pytest.fail if IN_CI else pytest.skip)(str(missing))
    with release:
        yield release


@pytest.fixture
def planned(kept: Reported, tmp_path: Path) -> Reported:
    return kept.copy_to(tmp_path / "table")


@pytest.fixture
def twin(kept: Reported, tmp_path: Path) -> Reported:
    """The same table without the plan, which was unscheduled."""
    twin = kept.copy_to(tmp_path / "twin")
    twin.unschedule()
    return twin
