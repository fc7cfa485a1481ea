"""What the tests of the configuration share: a file with some text, and what came of reading it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from lakeward.config.file import Reading, read_config
from lakeward.config.settings import Settings


def write(folder: Path, text: str) -> Path:
    path = folder / "lakeward.toml"
    path.write_text(textwrap.dedent(text))
    return path


def read(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> Reading:
    return read_config(write(folder, text), environ or {}, flags)


def settings_of(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> Settings:
    reading = read(folder, text, environ, flags)
    assert reading.settings is not None, "\n".join(str(problem) for problem in reading.problems)
    return reading.settings


def problems_of(reading: Reading) -> dict[str, str]:
    """Maps the place of every problem to its text; places are without the folder."""
    assert reading.settings is None
    places = [problem.where.rpartition("/")[2].removeprefix("lakeward.toml:") for problem in reading.problems]
    assert len(set(places)) == len(places), "nothing is reported twice"
    return dict(zip(places, (problem.what for problem in reading.problems), strict=True))
