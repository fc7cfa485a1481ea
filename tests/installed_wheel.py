"""An environment with nothing of this project but its wheel with compiled kernels; what the wheel asks for is lent.

Touches: a folder; pip, without an index.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Installed:
    packages: Path
    """Its site-packages."""

    @property
    def python(self) -> Path:
        return self.packages.parents[2] / "bin" / "python"

    @property
    def command(self) -> Path:
        return self.python.with_name("lakeward")

    @property
    def environment(self) -> dict[str, str]:
        """That of a user who never ran it: nothing in the cache, no state, and no variables for Numba or Python."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))}
        return kept | {
            "XDG_CACHE_HOME": str(self.packages / "cache"),
            "XDG_STATE_HOME": str(self.packages / "state"),
        }


def install(wheel: Path, folder: Path, *, python: Path | None = None, lent: Path | None = None) -> Installed:
    """
    Args:
        python: what the environment is made of; the one that runs this.
        lent: the folder with the packages that the wheel asks for; that of the Python that runs this.
    """
    subprocess.run([python or sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    lent = lent or Path(next(path for path in sys.path if path.endswith("site-packages")))
    (packages / "lent.pth").write_text(f"{lent}\n")
    return Installed(packages)
