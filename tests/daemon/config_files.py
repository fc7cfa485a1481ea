"""What the tests of the configuration share: a file with some text, and what came of reading it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from lakeward.daemon.config import Settings
from lakeward.daemon.config_file import Reading, read_config


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


def told(reading: Reading) -> dict[str, str]:
    """Where to what, of every problem; places without the folder."""
    assert reading.settings is None
    places = [problem.where.rpartition("/")[2].removeprefix("lakeward.toml:") for problem in reading.problems]
    assert len(set(places)) == len(places), "nothing is told twice"
    return dict(zip(places, (problem.what for problem in reading.problems), strict=True))
