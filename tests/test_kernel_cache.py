"""Compiled kernels that are read where nothing may be written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakeward import kernel_cache

SOURCE = Path(kernel_cache.__file__).parent
LOCATORS = "lakeward.kernel_cache.BuiltKernels,UserWideCacheLocator"


KERNEL = re.compile(r"^@kernel\(", re.MULTILINE)


def run(cache: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.run(
        [sys.executable, "-m", "lakeward.kernel_cache", *arguments],
        env=clean
        | {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache.parent / "user")}
        | environment,
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("image") / "kernels"
    done = run(cache)
    assert done.returncode == 0, done.stderr
    return cache


@pytest.mark.slow
def test_what_was_built_is_read_and_not_touched(built: Path) -> None:
    """With the locator every kernel there is, in whatever room below, comes from the folder, and no file changes."""
    before = {path: path.stat().st_mtime_ns for path in built.rglob("*")}
    done = run(built, "--check", NUMBA_CACHE_LOCATOR_CLASSES=LOCATORS)
    assert done.returncode == 0, done.stderr
    assert ": 0 compiled now" in done.stdout
    kernels = sum(len(KERNEL.findall(path.read_text())) for path in SOURCE.rglob("*.py"))
    assert done.stdout.startswith(f"{kernels} kernels "), done.stdout
    assert {path: path.stat().st_mtime_ns for path in built.rglob("*")} == before


@pytest.mark.slow
def test_another_processor_compiles_its_own(built: Path) -> None:
    """Code for another processor is not taken over: it goes to the user's cache folder."""
    done = run(built, "--check", NUMBA_CACHE_LOCATOR_CLASSES=LOCATORS, NUMBA_CPU_FEATURES="+sse3")
    assert done.returncode == 1
    assert ": 0 compiled now" not in done.stdout
    assert list((built.parent / "user").rglob("*.nbi"))


def test_a_build_names_its_processor(tmp_path: Path) -> None:
    """Without a name, code would be compiled for whichever machine builds the image."""
    assert run(tmp_path / "kernels", NUMBA_CPU_NAME="").returncode == 2
    assert run(tmp_path / "kernels", NUMBA_CPU_NAME="x86-64-v2").returncode == 2
    assert not (tmp_path / "kernels").exists()


def test_every_kernel_is_in_a_room_that_is_compiled_and_has_the_decorator() -> None:
    """A kernel elsewhere, or one that Numba is asked for otherwise, would be compiled in every process of a container,
    or would hold the interpreter while it runs.
    """
    found = 0
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        room = ".".join(path.relative_to(SOURCE.parent).parts[:2])
        if KERNEL.search(text):
            found += 1
            assert room in kernel_cache.ROOMS, path
        if re.search(r"\bnumba\b.*\bimport\b|\bimport numba\b", text):
            assert path.name in ("kernel.py", "kernel_cache.py", "addresses.py"), path
    assert found
