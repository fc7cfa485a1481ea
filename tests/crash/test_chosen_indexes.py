"""The indexes of a table are chosen, held against each other and cut over, stopped at every call to the storage: what
holds is always what was chosen last or what held before it, and the same call goes on from there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.index.index_type import IndexType
from lakeward.index.tee import ComparedCommit, Tee, cut_over, read_tee
from lakeward.protocol.index.choices import publish_choice, publish_compared
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.faults import FaultKind, FaultyStorage, Killed, faults_of
from tests.runs import spread

pytestmark = pytest.mark.crash

STORAGE = LocalStorage()
CLEAN = ComparedCommit("1", "11", keys=3, shadow_wrong=0, primary_wrong=0)
Step = Callable[[Storage, str], None]


def begin(storage: Storage, base: str) -> None:
    """Chosen, unless it is."""
    before = read_tee(storage, base)
    if before.primary is None:
        publish_choice(storage, base, before, Tee(primary=IndexType.SIMPLE, shadow=IndexType.RECORD))


def compare(storage: Storage, base: str) -> None:
    """What is not compared yet."""
    before = read_tee(storage, base)
    if before.through != CLEAN.completed:
        publish_compared(storage, base, before, [CLEAN])


def change_places(storage: Storage, base: str) -> None:
    """Cut over, unless they were."""
    before = read_tee(storage, base)
    if not before.is_cut_over:
        publish_choice(storage, base, before, cut_over(before, after_clean=1))


STEPS: dict[str, Step] = {"begin": begin, "compare": compare, "cut over": change_places}


@pytest.mark.parametrize("name", STEPS)
def test_stopped_anywhere(tmp_path: Path, name: str) -> None:
    base = tmp_path / "table"
    base.mkdir()
    for earlier in STEPS:
        if earlier == name:
            break
        STEPS[earlier](STORAGE, str(base))
    before = read_tee(STORAGE, str(base))
    whole = Path(shutil.copytree(base, tmp_path / "whole"))
    undisturbed = FaultyStorage()
    STEPS[name](undisturbed, str(whole))
    after = read_tee(STORAGE, str(whole))
    assert after != before
    for fault in (fault for kind in FaultKind for fault in spread(faults_of(kind, undisturbed.calls))):
        table = Path(shutil.copytree(base, tmp_path / f"{fault.kind}-{fault.call}"))
        with suppress(LakewardError, OSError, Killed):
            STEPS[name](FaultyStorage(fault), str(table))
        assert read_tee(STORAGE, str(table)) in (before, after), f"{fault} at {undisturbed.calls[fault.call]}"
        STEPS[name](STORAGE, str(table))
        assert read_tee(STORAGE, str(table)) == after, f"{fault} at {undisturbed.calls[fault.call]}"
