"""Rows of tables of version 6, against what Hudi 0.15.0 read of them after each of its steps: writes, moves, deletes, a
writer that is late, one that dies, compactions, cleans, archiving, replaced groups, rollbacks and restores."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward
from lakeward.base.errors import DamagedFiles, Refused
from tests.index.following import truth
from tests.our_reader import scan
from tests.version_6_lives import RecordedLife


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["merged", pytest.param("by_event_time", marks=pytest.mark.wide), pytest.param("copied", marks=pytest.mark.wide)],
)
def test_each_step_of_hudis(tmp_path: Path, name: str) -> None:
    """Each key has one row, where Hudi reads it; a table whose slices cannot be told apart, which Hudi's upgrade leaves
    with logs of commits that are on no timeline, is frozen, and `lakeward.Table` refuses it: behind its own compaction
    Hudi gives back a row that was deleted before."""
    life = RecordedLife(name, tmp_path)
    for step, places in life.lived():
        if scan(life.base).frozen:
            assert scan(life.base).config.layout == 2, step
            with pytest.raises((DamagedFiles, Refused), match=r"which base file it belongs to|payload-class"):
                lakeward.Table(str(life.base), timezone="UTC").scan().to_arrow()
        else:
            assert {key: place[0] for key, place in truth(life.base)} == places, step
