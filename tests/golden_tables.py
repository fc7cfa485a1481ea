"""The golden tables under tests/golden: tiny, written by Hudi 1.2.0, with a pending compaction plan where it says so.

Their instants are in UTC; a checkout does not keep file times, and the time zone is inferred from them, so a copy
sets the times of timeline files to what their names say.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from datetime import UTC
from pathlib import Path
from typing import Any

from lakeward.format.timeline.instant import parse_instant, parse_instant_time

GOLDEN = Path(__file__).parent / "golden"


def copy_golden(version: str, target: Path, *, pending: bool = False) -> Path:
    """A copy of tests/golden/<version>; without its pending plan unless `pending`."""
    if (archive := GOLDEN / version / "table.tar.xz").exists():
        with tarfile.open(archive) as files:
            files.extractall(target, filter="data")
    else:
        shutil.copytree(GOLDEN / version / "table", target)
    layout = 1 if version.startswith("v6") else 2
    folder = target / ".hoodie" if layout == 1 else target / ".hoodie" / "timeline"
    for path in sorted(folder.iterdir()):
        instant = parse_instant(path.name, layout)
        if instant is None:
            continue
        if instant.action == "compaction" and not pending:
            path.unlink()
            continue
        seconds = parse_instant_time(instant.completion_time or instant.time, UTC) / 1000
        os.utime(path, (seconds, seconds))
    return target


def expected_rows(version: str) -> list[dict[str, Any]]:
    """What a snapshot query returns, by key, without the file name (a compaction changes it)."""
    rows = json.loads((GOLDEN / version / "expected.json").read_text())
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in rows]
