"""Compile all kernels, in processes side by side, into a folder where every process finds them.

A module is imported after those whose kernels it calls, so that nothing is compiled twice.

    python -m lakeward.kernel_build     builds what is missing, and says on standard error how far it is

Touches: the first of `places()` that can be written; a process for each core.
Keeps:   1. `made-for` is written last: a build that was stopped goes on later, and no process takes half of it;
         2. what is there already and fits is not compiled again, and of two builds at a time one waits for the other;
         3. kernels of older sources do not stay.
"""

from __future__ import annotations

import ast
import fcntl
import importlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from multiprocessing import get_context
from pathlib import Path

from lakeward.errors import LakewardError
from lakeward.kernel_folder import PACKAGE, find_compiled, fingerprint, mark, places

LINE_SECONDS = 2.0
"""How often a line says how far a build is."""

_KERNEL = re.compile(r"^@kernel\(", re.MULTILINE)

Told = Callable[[int, int], None]
"""(kernels that are done, all kernels)"""


@dataclass(frozen=True, slots=True)
class Built:
    folder: Path
    kernels: int
    compiled: int
    """The kernels among them that were not there, or not made of these sources."""


def build(*, tell: Told = lambda done, total: None, is_needed: Callable[[], bool] = lambda: True) -> Built | None:
    """Compile what is missing, by as many processes as there are cores.

    Args:
        is_needed: asked once no other build is at work; where it says no, nothing is done.

    Raises `LakewardError` where neither folder can be written.
    """
    folder = _writable()
    with _alone(folder):
        if not is_needed():
            return None
        built = _all_in(folder, tell)
        _remove_stale(folder)
        mark(folder)
    return built


def check(*, tell: Told = lambda done, total: None) -> Built:
    """Load all kernels as any process would; `compiled` of the result is 0 where none of them had to be compiled.

    Raises `LakewardError` where no folder has them.
    """
    folder = find_compiled()
    if folder is None:
        raise LakewardError(
            "The kernels are not compiled here.",
            why=f"None of these folders has those for {fingerprint().strip()}: {', '.join(map(str, places()))}.",
            remedy="`lakeward warm` compiles them, once on this machine.",
        )
    return _all_in(folder, tell)


def kernels_by_module() -> dict[str, int]:
    """How many kernels each module has that has any."""
    found: dict[str, int] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if count := len(_KERNEL.findall(path.read_text())):
            found[".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)] = count
    return found


def _all_in(folder: Path, tell: Told) -> Built:
    modules = kernels_by_module()
    total, done, compiled = sum(modules.values()), 0, 0
    tell(0, total)
    for name, number in _compiled_in(folder, modules):
        done, compiled = done + modules[name], compiled + number
        tell(done, total)
    return Built(folder, total, compiled)


def _compiled_in(folder: Path, modules: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Each module when its kernels are in the folder, with how many were not there before."""
    order = TopologicalSorter({name: _needs(name, modules) for name in modules})
    order.prepare()
    processes = len(os.sched_getaffinity(0))
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_take, initargs=(folder,))
    try:
        running: dict[Future[int], str] = {}
        while order.is_active():
            running |= {pool.submit(_compile_module, name): name for name in order.get_ready()}
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                yield name, future.result()
                order.done(name)
    finally:
        pool.shutdown(cancel_futures=True)


def _remove_stale(folder: Path) -> None:
    """Kernels of older sources: Numba names a file by its function and the line on which that begins."""
    known = {
        (path.relative_to(PACKAGE).parent, f"{path.stem}.{node.name}-{node.decorator_list[0].lineno}")
        for path in sorted(PACKAGE.rglob("*.py"))
        if _KERNEL.search(text := path.read_text())
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    }
    for path in folder.rglob("*.nb[ci]"):
        if (path.relative_to(folder).parent, path.name.partition(".py")[0]) not in known:
            path.unlink(missing_ok=True)


def _take(folder: Path) -> None:
    from lakeward.kernel_cache import take  # loads Numba, which only these processes need

    take(folder)


def _compile_module(name: str) -> int:
    """Import a module, and with it make its kernels. Returns how many were compiled rather than found."""
    module = importlib.import_module(name)
    own = (value for value in vars(module).values() if getattr(value, "__module__", None) == name)
    return sum(sum(each.stats.cache_misses.values()) for each in own if hasattr(each, "stats"))


def _needs(name: str, modules: Mapping[str, int]) -> set[str]:
    """The modules with kernels that this one imports from."""
    path = PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {each for each in modules if each in imported}


def _writable() -> Path:
    refused: list[str] = []
    for folder in places():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            refused.append(f"{folder}: {error.strerror}")
        else:
            return folder
    raise LakewardError(
        "The compiled kernels can be kept nowhere.",
        why=f"{'; '.join(refused)}.",
        remedy="Set XDG_CACHE_HOME to a folder that this user may write.",
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def in_lines() -> Told:
    """Says how far a build is on standard error, every few seconds."""
    silent_until = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal silent_until
        now = time.monotonic()
        if now >= silent_until or done == total:
            silent_until = now + LINE_SECONDS
            print(f"compiling kernels, once on this machine: {done} of {total}", file=sys.stderr, flush=True)

    return tell


def main() -> int:
    """Build for a process that found no kernels."""
    try:
        build(tell=in_lines(), is_needed=lambda: find_compiled() is None)
    except LakewardError as error:
        print(error.what, error.why, error.remedy, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
