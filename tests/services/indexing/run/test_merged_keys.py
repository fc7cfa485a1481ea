"""Checkpoints of file groups as one sorted stream of locations."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import NotFound
from lakeward.index.key_checkpoints import KeyCheckpoint, write_keys
from lakeward.index.location import LOCATIONS
from lakeward.merge.runs.whole_keys import whole_keys
from lakeward.services.indexing.run import merged_keys
from lakeward.services.indexing.run.merged_keys import located_keys
from lakeward.storage.local import LocalStorage
from lakeward.table.file_system_view import GroupId
from tests.runs import runs

STORAGE = LocalStorage()
Made = list[tuple[GroupId, KeyCheckpoint]]


def checkpoints(folder: Path, keys: list[list[str]]) -> Made:
    made = []
    for number, each in enumerate(keys):
        checkpoint = KeyCheckpoint(f"{number:032x}", len(each))
        with open(folder / checkpoint.name, "wb") as sink:
            write_keys(sink, [pa.array(each, pa.string())])
        made.append(((f"p={number % 3}", f"f-{number}"), checkpoint))
    return made


def found(folder: Path, made: Made) -> list[tuple[str | None, ...]]:
    table = pa.Table.from_batches(located_keys(STORAGE, str(folder), made, "7"), LOCATIONS)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("seed", range(runs(8)))
def test_merged_by_keys(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of services/indexing/run/merged_keys, Keeps 2 of services/indexing/run/merged_keys: whatever number of
    checkpoints there is, keys come in their order, those of several file groups in the order of these; and no more runs
    are merged at once than may be open."""
    chance = random.Random(seed)
    at_once: list[int] = []

    def watched(given):
        at_once.append(len(given))
        return whole_keys(given)

    monkeypatch.setattr(merged_keys, "OPEN_RUNS_MAX", 3)
    monkeypatch.setattr(merged_keys, "whole_keys", watched)
    groups = (31, 13, 0, 1, 2, 3, 4, 9)[seed % 8]
    keys = [sorted(chance.sample(range(40), chance.randrange(20)), key=str) for _ in range(groups)]
    made = checkpoints(tmp_path, [[str(key) for key in each] for each in keys])
    expected = sorted((str(key), number, group) for number, (group, _) in enumerate(made) for key in keys[number])
    assert found(tmp_path, made) == [(key, *group, "7") for key, _, group in expected], f"seed {seed}"
    assert max(at_once) <= 3


def test_a_broken_one(tmp_path: Path) -> None:
    """It is deleted, and the keys are read once more: the error says that a file is not there."""
    made = checkpoints(tmp_path, [["a", "b"], ["c"]])
    path = tmp_path / made[1][1].name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(NotFound, match="is broken"):
        found(tmp_path, made)
    assert not path.exists() and (tmp_path / made[0][1].name).exists()
