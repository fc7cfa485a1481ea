"""How much memory an operation needed."""

from __future__ import annotations

import pytest

from lakeward.engine.task import peak_memory
from lakeward.engine.task.peak_memory import PeakMemory

MIB = 1024 * 1024


def can_reset() -> bool:
    return peak_memory._reset()


@pytest.mark.skipif(not can_reset(), reason="this system lets no process reset its peak")
def test_a_peak_is_that_of_the_operation_alone() -> None:
    """What was needed before does not count, what was needed and given back since does."""
    before = bytearray(300 * MIB)
    before[::4096] = b"x" * len(before[::4096])
    del before
    quiet = PeakMemory()
    small = quiet.peak_bytes()
    loud = PeakMemory()
    block = bytearray(200 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    del block
    assert loud.peak_bytes() - small > 190 * MIB
    assert small > 0


def test_where_nothing_can_be_reset_it_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is too much rather than nothing."""
    monkeypatch.setattr(peak_memory, "_CLEAR_REFS", "/proc/no/such/file")
    memory = PeakMemory()
    assert not memory._is_reset
    assert memory.peak_bytes() > 10 * MIB
