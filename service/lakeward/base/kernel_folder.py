"""The folder in which compiled kernels lie: beside the modules, or in the user's cache.

A wheel and an image bring them along, `make setup` makes them, and where none are there the first command does.

    lakeward/compiled/                          where the package's folder can be written, or the wheel had it
    $XDG_CACHE_HOME/lakeward/kernels/HASH/      else; each installation has its own
        made-for                                what has to be equal for the code to be taken; written last
            x86_64, Python 3.11, Numba 0.68.1
            DIGEST  format/murmur.py            a line for each source that goes into a kernel
        being-made                              the same, of a build that is at work, or was stopped
        FOLDER/NAME.nbi, .nbc                   as Numba writes them, by the folder of the module

Numba is not loaded here: a process that only asks whether kernels are there does without.

Numba itself looks at a kernel's own file alone. 2026-11-28: a kernel that calls one of another file was taken from disk
after that one had changed, with the old one inside; so would be one that was left by an older release of Lakeward.

Touches: both folders; writes `made-for` and `being-made` only.
Keeps:   1. code for another architecture, minor version of Python or version of Numba is never taken;
         2. nor is code of other sources, those that a kernel calls or takes constants from included.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
MADE_FOR = "made-for"
BEING_MADE = "being-made"


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
    sources = read_sources(folder / MADE_FOR)
    return bool(sources) and all(digest_of(name) == digest for name, digest in sources.items())


def read_sources(file: Path) -> dict[str, str]:
    """The digests of the sources that kernels in its folder are made of; none where they are for another machine."""
    try:
        first, *lines = file.read_text().splitlines(keepends=True)
        return {name: digest for digest, name in map(str.split, lines)} if first == fingerprint() else {}
    except (OSError, ValueError):
        return {}


def write_sources(file: Path, sources: Mapping[str, str]) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(handle, "w") as temporary:
        temporary.write(fingerprint())
        temporary.writelines(f"{digest}  {source}\n" for source, digest in sorted(sources.items()))
    os.chmod(name, 0o644)
    os.replace(name, file)


def digest_of(name: str) -> str | None:
    """The digest of a source, by its path in the package; None where it is not there."""
    try:
        return hashlib.blake2b((PACKAGE / name).read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return None
