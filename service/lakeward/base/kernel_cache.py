"""Have Numba take compiled kernels from the folder in which they lie (`kernel_folder`), and keep new ones there.

They are compiled for any processor of an architecture, so that a kernel that was compiled once is found everywhere.
Code for the machine's own processor is faster by less than a tenth (`benchmarks/portable_kernels.py`).

Touches: Numba's settings, of this process alone; the folder; a process that builds kernels where none are found.
Keeps:   Numba's own variables, where a process has them, decide about the processor and the place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import config as numba_config
from numba.core.caching import UserProvidedCacheLocator

from lakeward.base import kernel_process
from lakeward.base.kernel_folder import PACKAGE, find_compiled

config: Any = numba_config
"""Its attributes are made when it is imported, from the environment, so no type checker sees them."""


class CompiledKernels(UserProvidedCacheLocator):
    """A folder that is taken (`take`), for the modules of this package; other functions go where Numba puts them."""

    folder: Path

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(self.folder / Path(py_file).parent.relative_to(PACKAGE))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> CompiledKernels | None:
        return cls(py_func, py_file) if Path(py_file).is_relative_to(PACKAGE) else None


_REST = ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator", "IPythonCacheLocator")
"""The locators that Numba asks by default."""


def is_decided_elsewhere() -> bool:
    """True where the environment says so, or where nothing is compiled at all."""
    return bool(config.DISABLE_JIT or config.CPU_NAME or config.CACHE_LOCATOR_CLASSES)


def use_or_build() -> None:
    """Comes before the first kernel of a process is made.

    Kernels that are nowhere are built by a process of its own (`kernel_process`); where that fails, this process
    compiles what it needs, and Numba keeps it where it likes.
    """
    if is_decided_elsewhere() or use_compiled():
        return
    kernel_process.build_missing()
    use_compiled()


def use_compiled() -> bool:
    """Take the first folder with kernels for this process."""
    folder = find_compiled()
    if folder is not None:
        take(folder)
    return folder is not None


def take(folder: Path) -> None:
    """Kernels that are made from here on come from this folder, and go there."""
    CompiledKernels.folder = folder
    # Both, or the processor's own features would be asked for, and nothing found on any other.
    config.CPU_NAME, config.CPU_FEATURES = "generic", ""
    config.CACHE_LOCATOR_CLASSES = ",".join([f"{__name__}.{CompiledKernels.__name__}", *_REST])
