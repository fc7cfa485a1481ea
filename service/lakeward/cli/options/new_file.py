"""A file that an option names, and that a command makes: a file that is there is never written over.

Touches: that file.
"""

from __future__ import annotations

import os
from pathlib import Path

from lakeward.base.errors import UsageError


def write_new(option: str, file: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Raises `UsageError`, with the name of the option.

    Args:
        mode: who may read and write it, as far as the process' mask lets them.
    """
    try:
        with open(file, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as opened:
            opened.write(content)
    except OSError as error:
        raise UsageError(f"{option} {file} cannot be written.", why=str(error), remedy="Name a new file.") from error
