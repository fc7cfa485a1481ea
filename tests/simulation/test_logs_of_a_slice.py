"""A slice stays bounded for ever, whatever the layout, the version and the type of compaction: `make long-life` lives
10,000 commits of each kind, CI some hundred."""

from __future__ import annotations

import os
import secrets
from random import Random
from typing import Any

import pytest

from lakeward.services.compaction.plan.decision import Choice
from tests.runs import runs
from tests.simulation.logs_of_a_slice import (
    BY_COMMIT_TIME,
    LSM_TREE,
    MIB,
    PARTIAL_UPDATES,
    VERSION_8,
    VERSION_10,
    SliceLife,
)

COMMITS = 400
RETIRES = {"retires": True}
LOG = {"only": Choice.LOG}

KINDS: dict[str, tuple[dict[str, Any], int, int, float]] = {
    # what it is, live logs, files of logs, how often LOG writes a byte
    "default": ({"properties": {}}, 20, 340, 8),
    "default, small base": ({"properties": {}, "base_bytes": 120 * MIB, "log_bytes_max": 20_000}, 25, 120, 8),
    "default, retiring": ({"properties": {}, **RETIRES}, 20, 40, 8),
    "default, log": ({"properties": {}, **LOG}, 20, 340, 8),
    "default, log, retiring": ({"properties": {}, **LOG, **RETIRES}, 20, 40, 14),
    "version 10": ({"properties": VERSION_10}, 20, 340, 8),
    "version 10 by commit time, log, retiring": (
        {"properties": VERSION_10 | BY_COMMIT_TIME, **LOG, **RETIRES},
        20,
        40,
        14,
    ),
    "deletes that always win": ({"properties": {}, "is_whole": True}, 26, 340, 16),
    "deletes that always win, log, retiring": ({"properties": {}, "is_whole": True, **LOG, **RETIRES}, 26, 60, 20),
    "lsm_tree": ({"properties": LSM_TREE, **RETIRES}, 20, 40, 8),
    "lsm_tree, log": ({"properties": LSM_TREE, **LOG, **RETIRES}, 20, 40, 14),
    "lsm_tree, readers of an hour": ({"properties": LSM_TREE, **RETIRES, "retained": 60}, 20, 100, 8),
    "lsm_tree, nothing retires": ({"properties": LSM_TREE}, 20, 260, 8),
    "lsm_tree, log, nothing retires": ({"properties": LSM_TREE, **LOG}, 20, 260, 8),
    "version 8": ({"properties": VERSION_8}, 25, 25, 0),
    "version 8, log": ({"properties": VERSION_8, **LOG}, 25, 25, 0),
    "partial updates": ({"properties": PARTIAL_UPDATES}, 25, 25, 0),
    "partial updates, log": ({"properties": PARTIAL_UPDATES, **LOG}, 25, 25, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_files_and_bytes_are_bounded(kind: str) -> None:
    """A log of about 1 MiB a commit onto a base of 1 GiB: few logs are live and few files are there at any time, LOG
    writes each byte a few times, and without LOG, or where merged logs stay, FULL comes."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    given, live_max, files_max, times_max = KINDS[kind]
    life = SliceLife(Random(seed), **given).live(runs(COMMITS))
    print(f"{kind}: {life}")
    assert life.live_max <= live_max
    assert life.files_max <= files_max
    assert life.times <= times_max
    assert life.full <= life.commits // 20 + 1
    stays = not given.get("retires") and life.files_max > 25
    assert life.full or life.commits < 1000 or not (stays or life.merges == 0)


def test_what_is_forgotten_is_written_again() -> None:
    """Without the plans of archived log compactions each LOG takes what earlier ones merged: here is why they are read
    from the history."""
    given: dict[str, Any] = {"properties": {}, "only": Choice.LOG, "retires": True}
    known = SliceLife(Random(1), **given).live(1000)
    forgotten = SliceLife(Random(1), **given, archived_after=30).live(1000)
    assert forgotten.times > 2 * known.times
