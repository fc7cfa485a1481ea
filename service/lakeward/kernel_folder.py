"""The folder in which compiled kernels lie: beside the modules, or in the user's cache.

A wheel and an image bring them along, `make setup` makes them, and where none are there the first command does.

    lakeward/compiled/                          where the package's folder can be written, or the wheel had it
    $XDG_CACHE_HOME/lakeward/kernels/HASH/      else; each installation has its own
        made-for                                one line: what has to be equal for the code to be taken; written last
        FOLDER/NAME.nbi, .nbc                   as Numba writes them, by the folder of the module

Numba is not loaded here: a process that only asks whether kernels are there does without.

Touches: both folders; writes `made-for` only.
Keeps:   code for another architecture, minor version of Python or version of Numba is never taken.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parent
MADE_FOR = "made-for"


def fingerprint() -> str:
    """What has to be equal. The patch version of Python and the processor's name are not in it."""
    return f"{platform.machine()}, Python {sys.version_info[0]}.{sys.version_info[1]}, Numba {version('numba')}\n"


def places() -> tuple[Path, Path]:
    """Both folders, the one that is asked first in front."""
    what = hashlib.sha256(f"{fingerprint()}{PACKAGE}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return PACKAGE / "compiled", cache / "lakeward" / "kernels" / what


def find_compiled() -> Path | None:
    """The first folder whose kernels are for this machine, Python and Numba."""
    return next((folder for folder in places() if is_made_for_this(folder)), None)


def is_made_for_this(folder: Path) -> bool:
    try:
        return (folder / MADE_FOR).read_text() == fingerprint()
    except (OSError, UnicodeDecodeError):
        return False


def mark(folder: Path) -> None:
    """Say that all kernels are there."""
    handle, name = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w") as file:
        file.write(fingerprint())
    os.chmod(name, 0o644)
    os.replace(name, folder / MADE_FOR)
