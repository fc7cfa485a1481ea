"""Tables of version 6 as Hudi 0.15.0 left them after each step (tests/golden/v6_lives)."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.golden_tables import GOLDEN

LIVES = GOLDEN / "v6_lives"


class RecordedLife:
    def __init__(self, name: str, folder: Path) -> None:
        self.base = folder / "table"
        self.steps: list[dict[str, object]] = json.loads((LIVES / f"{name}.json").read_text())
        self._states = folder / "states"
        with tarfile.open(LIVES / f"{name}.tar.xz") as archive:
            archive.extractall(self._states, filter="data")

    def state(self, number: int) -> dict[str, str]:
        """The table is as it was behind that step. Returns the partition path of each key, by Hudi's query."""
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.copytree(self._states / f"{number:02}", self.base)
        places = self.steps[number]["places"]
        assert isinstance(places, dict)
        return places

    def lived(self) -> Iterator[tuple[str, dict[str, str]]]:
        """One step after the other: what was done, and the partition path of each key."""
        for number in range(len(self.steps)):
            yield f"step {number}: {self.steps[number]['what']}", self.state(number)
