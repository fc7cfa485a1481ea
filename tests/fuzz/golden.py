"""Bytes that released Hudi wrote, to start from."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from tests.golden_tables import copy_golden


@functools.cache
def _table(version: str) -> Path:
    return copy_golden(version, Path(tempfile.mkdtemp()) / "table", pending=True)


def files(version: str, pattern: str) -> list[bytes]:
    """The content of a golden table's files whose paths fit the pattern."""
    found = [path.read_bytes() for path in sorted(_table(version).glob(pattern)) if path.is_file()]
    assert found, f"the golden table {version} has {pattern}"
    return [data for data in found if data]
