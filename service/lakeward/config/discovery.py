"""Finds tables below a root: folders that hold `.hoodie/hoodie.properties`.

    /data                       the root
    ├── sales/orders            a table: found, not entered (neither its partitions nor .hoodie/metadata)
    ├── sales/.trash/old        hidden folders are not entered
    ├── latest -> sales/orders  links to what lies below the root are not followed, so that a table has one name
    └── stock -> /mnt/stock     other links are

Globs are those of `fnmatch` (a `*` matches `/` too), over the path below the root and over the whole base path; either
will do. An excluded folder is not entered.

Touches: storage, reading only, a question for its properties of each folder and a listing of those that are no table;
         and the links of the local disk.
Keeps:   1. a folder that cannot be read is a problem with its own sentence, and the search goes on beside it;
         2. no folder lies deeper than `depth` below the root, and no more than a bounded number is scanned;
         3. a folder that is met by two ways is entered once (by its real path, and by device and inode, as bind mounts
            share them), so that links in a circle end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lakeward.base.errors import LakewardError
from lakeward.base.paths import join
from lakeward.config.settings import Settings
from lakeward.storage.storage import Storage
from lakeward.table.table_config import BACKUP_FILE, PROPERTIES_FILE, hoodie_folder

DEPTH_MAX = 4
"""How many folders below a root a table may lie; a root nearer to the tables finds deeper ones."""

FOLDERS_MAX = 100_000
"""Folders below one root; a root over a lake that is not Hudi's should not be walked for hours."""


@dataclass(frozen=True, slots=True)
class DiscoveryProblem:
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Discovered:
    tables: tuple[str, ...]
    """Base paths, sorted."""
    problems: tuple[DiscoveryProblem, ...]


def find_tables(settings: Settings, *, open_root: Callable[[str], tuple[Storage, str]]) -> Discovered:
    """Find the tables below all configured roots. A root that cannot be opened is a problem beside the others."""
    tables: set[str] = set()
    problems: list[DiscoveryProblem] = []
    where = settings.discovery
    for location in where.roots:
        try:
            storage, root = open_root(location)
        except LakewardError as error:
            problems.append(DiscoveryProblem(location, str(error)))
            continue
        found = discover(storage, root, include=where.include, exclude=where.exclude)
        tables |= set(found.tables)
        problems += found.problems
    return Discovered(tuple(sorted(tables)), tuple(problems))


def discover(
    storage: Storage, root: str, *, include: Sequence[str] = (), exclude: Sequence[str] = (), depth: int = DEPTH_MAX
) -> Discovered:
    """Tables at `root` itself and up to `depth` folders below it."""
    tables: list[str] = []
    problems: list[DiscoveryProblem] = []
    entered: set[str | tuple[int, int]] = set()
    real_root = os.path.realpath(root)
    scanned_at = 0
    waiting: list[tuple[str, int, tuple[int, int] | None]] = [("", depth, None)]
    while waiting:
        below, deeper, identity = waiting.pop()
        path = join(root, below)
        if scanned_at >= FOLDERS_MAX:
            problems.append(DiscoveryProblem(root, f"There are more than {FOLDERS_MAX} folders; the others were left."))
            break
        scanned_at += 1
        # A link to what lies below the root is left: the table there has a name, which must not depend on links.
        real = os.path.realpath(path)
        if (
            real in entered
            or identity in entered
            or (real != join(real_root, below) and f"{real}/".startswith(f"{real_root}/"))
        ):
            continue
        entered.add(real)
        if identity is not None:
            entered.add(identity)
        try:
            if _is_table(storage, path):
                if not include or _matches(path, below, include):
                    tables.append(path)
                continue
            entries = storage.list(path) if deeper or not below else []
        except (OSError, LakewardError) as error:
            problems.append(DiscoveryProblem(path, str(error) or type(error).__name__))
            continue
        if not entries and not below and storage.stat(path) is None:
            problems.append(DiscoveryProblem(path, "There is no such folder."))
        if deeper == 0:
            continue
        for entry in reversed(entries):
            name = join(below, entry.name)
            if entry.is_folder and not entry.name.startswith(".") and not _matches(join(root, name), name, exclude):
                waiting.append((name, deeper - 1, entry.identity))
    return Discovered(tuple(sorted(tables)), tuple(sorted(problems, key=lambda problem: problem.path)))


def _is_table(storage: Storage, path: str) -> bool:
    """Decides by the properties alone: a table's partitions are not listed for it, of which there may be thousands."""
    # While a writer replaces its properties, a table has their backup only.
    return any(storage.stat(join(hoodie_folder(path), name)) is not None for name in (PROPERTIES_FILE, BACKUP_FILE))


def _matches(path: str, below: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(below, glob) or fnmatchcase(path, glob) for glob in globs)
