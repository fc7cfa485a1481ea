"""Compile all kernels, in processes side by side, into a folder where every process finds them.

A module is imported after those whose kernels it calls, so that nothing is compiled twice.

    python -m lakeward.base.kernel_build     builds what is missing, and says on standard error how far it is; with
    --counts
                                        on standard output, in lines for the process that started it (`kernel_process`)

Touches: the first of `places()` that can be written; a process for each core, four at most.
Keeps:   1. `made-for` is written last: a build that was stopped goes on later, and no process takes half of it;
         2. what is there already and fits is not compiled again, and of two builds at a time one waits for the other;
         3. kernels of older sources do not stay, also where a source that they call or take constants from changed;
         4. a process that compiles ends when that which started it did.
"""

from __future__ import annotations

import ast
import fcntl
import importlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from multiprocessing import get_context, parent_process
from pathlib import Path

from lakeward.base.errors import LakewardError
from lakeward.base.kernel_folder import (
    BEING_MADE,
    MADE_FOR,
    PACKAGE,
    digest_of,
    find_compiled,
    fingerprint,
    places,
    read_sources,
    write_sources,
)
from lakeward.base.kernel_process import COUNTS, Report, report_on_stderr

PROCESSES_MAX = 4
"""Each takes 270 MB, which a container of many cores may not have; more would spare a few seconds, once."""


@dataclass(frozen=True, slots=True)
class Built:
    folder: Path
    kernels: int
    compiled: int
    """The kernels among them that were not there, or not made of these sources."""


def build(*, report: Report = lambda done, total: None, is_needed: Callable[[], bool] = lambda: True) -> Built | None:
    """Compile what is missing, by processes side by side.

    Args:
        is_needed: asked once no other build is at work; where it says no, nothing is done.

    Raises `LakewardError` where neither folder can be written.
    """
    folder, modules = _writable(), kernel_modules()
    report(0, sum(_numbers(modules).values()))  # another build may be at work for a while
    with _alone(folder):
        if not is_needed():
            return None
        sources = {name: _sources(name) for name in modules}
        digests = {source: digest_of(source) or "" for each in sources.values() for source in each}
        _remove_changed(folder, sources, digests)
        built = _all_in(folder, modules, report)
        _remove_stale(folder, modules)
        write_sources(folder / MADE_FOR, digests)
        (folder / BEING_MADE).unlink()
    return built


def check() -> Built:
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
    return _all_in(folder, kernel_modules())


def kernel_modules() -> dict[str, ast.Module]:
    """The modules that have kernels, parsed, by their names."""
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): ast.parse(text)
        for path, text in texts.items()
        if "\n@kernel(" in text
    }


def kernels_of(module: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module that have the decorator."""
    functions = (node for node in module.body if isinstance(node, ast.FunctionDef))
    return [each for each in functions if any(ast.unparse(it).startswith("kernel(") for it in each.decorator_list)]


def _numbers(modules: Mapping[str, ast.Module]) -> dict[str, int]:
    """How many kernels each module has."""
    return {name: len(kernels_of(module)) for name, module in modules.items()}


def _all_in(folder: Path, modules: Mapping[str, ast.Module], report: Report = lambda done, total: None) -> Built:
    numbers, done, compiled = _numbers(modules), 0, 0
    total = sum(numbers.values())
    for name, number in _compiled_in(folder, modules):
        done, compiled = done + numbers[name], compiled + number
        report(done, total)
    return Built(folder, total, compiled)


def _compiled_in(folder: Path, modules: Mapping[str, ast.Module]) -> Iterator[tuple[str, int]]:
    """Each module when its kernels are in the folder, with how many were not there before."""
    order = TopologicalSorter({name: _needs(module, modules) for name, module in modules.items()})
    order.prepare()
    processes = min(PROCESSES_MAX, len(os.sched_getaffinity(0)))
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


def _remove_changed(folder: Path, sources: Mapping[str, set[str]], digests: Mapping[str, str]) -> None:
    """Kernels go that were made of another source, or of one that is not known, so that they are compiled again."""
    made, being_made = folder / MADE_FOR, folder / BEING_MADE
    before = read_sources(made if made.exists() else being_made)
    changed = {source for source, digest in digests.items() if before.get(source) != digest}
    made.unlink(missing_ok=True)
    for name, own in sources.items():
        if own & changed:
            path = folder.joinpath(*name.split(".")[1:])
            for file in path.parent.glob(f"{path.name}.*.nb[ci]"):
                file.unlink()
    # A build that is stopped from here on goes on later: what is there is of these sources.
    write_sources(being_made, digests)


def _sources(name: str) -> set[str]:
    """The files that the code of a module's kernels comes from, by their paths in the package."""
    found, left = {name}, {name}
    while left:
        used = _used_in_kernels(left.pop()) - found
        found |= used
        left |= used
    return {_path(each).relative_to(PACKAGE).as_posix() for each in found}


@cache
def _used_in_kernels(name: str) -> set[str]:
    """The modules of this package from which a module has names that its kernels use, or its constants."""
    module = ast.parse(_path(name).read_text())
    imported = {
        alias.asname or alias.name: (node.module, f"{node.module}.{alias.name}")
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE.name
        for alias in node.names
    }
    classes = (statement for node in module.body if isinstance(node, ast.ClassDef) for statement in node.body)
    constants = (node for node in (*module.body, *classes) if isinstance(node, ast.Assign | ast.AnnAssign))
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    names: set[str] = set()
    left: list[ast.AST] = [*kernels_of(module), *constants]
    while left:
        more = {node.id for node in ast.walk(left.pop()) if isinstance(node, ast.Name)} - names
        names |= more
        left += [functions[name] for name in more & functions.keys()]  # what makes a constant
    return {each for used in names & imported.keys() for each in imported[used] if each and _path(each).exists()}


def _path(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def _remove_stale(folder: Path, modules: Mapping[str, ast.Module]) -> None:
    """Kernels of older sources go: Numba names a file by its function and the line on which that begins."""
    known = set()
    for name, module in modules.items():
        _, *folders, stem = name.split(".")
        place = Path(*folders)
        known |= {(place, f"{stem}.{each.name}-{each.decorator_list[0].lineno}") for each in kernels_of(module)}
    for path in folder.rglob("*.nb[ci]"):
        if (path.relative_to(folder).parent, path.name.partition(".py")[0]) not in known:
            path.unlink(missing_ok=True)


def _take(folder: Path) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from lakeward.base.kernel_cache import take  # loads Numba, which only these processes need

    take(folder)


def _end_with_parent() -> None:
    """A pool's process waits for work for ever where the pool's own process was killed."""
    parent = parent_process()
    assert parent is not None, "a pool started this process"
    parent.join()
    os._exit(1)


def _compile_module(name: str) -> int:
    """Import a module, and with it make its kernels. Returns how many were compiled rather than found."""
    module = importlib.import_module(name)
    own = (value for value in vars(module).values() if getattr(value, "__module__", None) == name)
    return sum(sum(each.stats.cache_misses.values()) for each in own if hasattr(each, "stats"))


def _needs(module: ast.Module, modules: Iterable[str]) -> set[str]:
    """The modules with kernels that this one imports from."""
    imported = {node.module for node in ast.walk(module) if isinstance(node, ast.ImportFrom)}
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


def main() -> int:
    """Build for a process that found no kernels."""
    for_another = COUNTS in sys.argv[1:]
    report = (lambda done, total: _report_to_parent(done=done, total=total)) if for_another else report_on_stderr()
    try:
        build(report=report, is_needed=lambda: find_compiled() is None)
    except LakewardError as error:
        if for_another:
            _report_to_parent(what=error.what, why=error.why, remedy=error.remedy)
        else:
            print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        return 1  # the other process was killed
    return 0


def _report_to_parent(**what: str | int) -> None:
    os.write(sys.stdout.fileno(), f"{json.dumps(what)}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
