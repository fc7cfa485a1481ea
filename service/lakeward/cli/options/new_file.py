"""A file that an option names, and that a command makes: a file that is there is never written over.

Touches: that file.
"""

from __future__ import annotations

from pathlib import Path

from lakeward.base.errors import UsageError


def write_new(option: str, file: Path, content: bytes) -> None:
    """Raises `UsageError`, with the name of the option."""
    try:
        with file.open("xb") as opened:
            opened.write(content)
    except OSError as error:
        raise UsageError(f"{option} {file} cannot be written.", why=str(error), remedy="Name a new file.") from error
