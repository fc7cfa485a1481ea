"""Compiled kernels that were built once and are read where nothing may be written: inside a container image.

Numba keeps compiled code in a folder only where it may also write to it, and refuses to import a cached kernel when it
finds no such folder. A container with a read-only root has its kernels in the image, so Numba is told to look there
with this module's locator:

    NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=DIR python -m lakeward.kernel_cache            # compiles, at build
    NUMBA_CACHE_LOCATOR_CLASSES=lakeward.kernel_cache.BuiltKernels,UserWideCacheLocator   # reads, at run time

Touches: NUMBA_CACHE_DIR; written by the build only.
Keeps:   1. code built for another processor, Python or Numba is never read: such a process compiles its own, in the
            user's cache folder;
         2. a build names its processor; code compiled for whichever machine built the image could not run elsewhere.
"""

from __future__ import annotations

import importlib
import pkgutil
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from numba.core import config as numba_config
from numba.core.caching import UserProvidedCacheLocator
from numba.core.dispatcher import Dispatcher

config: Any = numba_config
"""Its attributes are made when it is imported, from the environment, so no type checker sees them."""

ROOMS = ("lakeward.format", "lakeward.index", "lakeward.merge", "lakeward.write")
"""Rooms in which kernels live. Each states its signatures, so that importing its module compiles it."""

BUILT_FOR = "built-for"


class BuiltKernels(UserProvidedCacheLocator):
    """NUMBA_CACHE_DIR without the demand that it can be written, if it was built for this process."""

    def ensure_cache_path(self) -> None:
        # An OSError makes Numba ask the next locator; a missing file is one already.
        if Path(config.CACHE_DIR, BUILT_FOR).read_text() != fingerprint():
            raise OSError(f"{config.CACHE_DIR} was built for something else")


def fingerprint() -> str:
    """What has to be equal for compiled code to be taken over."""
    return (
        f"{platform.machine()}, processor {config.CPU_NAME} {config.CPU_FEATURES}, "
        f"Python {platform.python_version()}, Numba {numba.__version__}\n"
    )


def main() -> int:
    checks_only = "--check" in sys.argv[1:]
    if not config.CACHE_DIR or not config.CPU_NAME or config.CPU_FEATURES is None:
        print("Set NUMBA_CACHE_DIR, NUMBA_CPU_NAME and, unless that is generic, NUMBA_CPU_FEATURES.", file=sys.stderr)
        return 2
    kernels = [kernel for module in _modules() for kernel in _kernels(module)]
    compiled = sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels)
    elsewhere = [kernel for kernel in kernels if not Path(kernel.stats.cache_path).is_relative_to(config.CACHE_DIR)]
    print(f"{len(kernels)} kernels for {fingerprint().strip()}: {compiled} compiled now, in {config.CACHE_DIR}")
    if elsewhere or not kernels or (checks_only and compiled):
        print("These kernels are not all in NUMBA_CACHE_DIR.", file=sys.stderr)
        return 1
    if not checks_only:
        Path(config.CACHE_DIR, BUILT_FOR).write_text(fingerprint())
    return 0


def _modules() -> list[ModuleType]:
    return [
        importlib.import_module(found.name)
        for room in ROOMS
        for found in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}.")
    ]


def _kernels(module: ModuleType) -> list[Any]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__
    ]


if __name__ == "__main__":
    sys.exit(main())
