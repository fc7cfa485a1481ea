"""Rows of the crash series, run with one kind of fault at one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from tests.crash.harness import Place, Prepared, Row, prepare, survive
from tests.faults import FaultKind


class Survives(Protocol):
    def __call__(
        self, row: Row, place: Place, kind: FaultKind, /, *, see: Callable[[Path], None] = lambda base: None
    ) -> None: ...


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, Place], Prepared]:
    """The table of a row is made once for all faults."""
    return {}


@pytest.fixture
def survives(
    kept: dict[tuple[str, Place], Prepared],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Survives:
    def run(row: Row, place: Place, kind: FaultKind, /, *, see: Callable[[Path], None] = lambda base: None) -> None:
        for name, value in row.patches.items():
            monkeypatch.setattr(name, value)
        if (row.name, place) not in kept:
            kept[row.name, place] = prepare(row, place, tmp_path_factory.mktemp("row"))
        survive(kept[row.name, place], kind, tmp_path, see=see)

    return run
