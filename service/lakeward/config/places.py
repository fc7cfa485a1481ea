"""What a configuration names is there: the folders to search, and the tables that are named outright.

Touches: storage, reading only: a listing of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakeward.base.errors import LakewardError
from lakeward.config.file import ConfigProblem, Reading, no_tables
from lakeward.config.settings import KeyPath, Settings
from lakeward.storage.storage_of_url import open_root, open_storage
from lakeward.table.not_a_table import check_is_table

_ROOTS: KeyPath = ("discovery", "roots")


def find_missing(settings: Settings, reading: Reading, path: Path, *, offline: bool) -> tuple[ConfigProblem, ...]:
    """A problem for a configuration without any place, and unless `offline` for each that cannot be read."""
    if not settings.names_tables:
        return (no_tables(path),)
    if offline:
        return ()
    return (*_missing_roots(settings, reading, path), *_missing_tables(settings, reading, path))


def _missing_roots(settings: Settings, reading: Reading, path: Path) -> Iterator[ConfigProblem]:
    where = where_of(reading, _ROOTS, path)
    for location in settings.discovery.roots:
        try:
            storage, root = open_root(location)
            if storage.list(root) or storage.stat(root) is not None:
                continue
            why = "There is nothing of that name."
        except NotADirectoryError:
            why = "It is a file."
        except OSError as error:
            why = f"{error.strerror or error}."
        except LakewardError as error:
            why = f"{error.what} {error.why}"
        yield ConfigProblem(
            where, f"{location} cannot be searched for tables.", why, "Correct discovery.roots, or make the folder."
        )


def _missing_tables(settings: Settings, reading: Reading, path: Path) -> Iterator[ConfigProblem]:
    for index, table in enumerate(settings.tables):
        if table.path is None:
            continue
        try:
            check_is_table(*open_storage(table.path))
        except LakewardError as error:
            where = where_of(reading, ("tables", index, "path"), path)
            yield ConfigProblem(where, error.what, error.why, error.remedy)
        except OSError as error:
            where = where_of(reading, ("tables", index, "path"), path)
            yield ConfigProblem(where, f"{table.path} cannot be read.", f"{error.strerror or error}.", "")


def where_of(reading: Reading, place: KeyPath, path: Path) -> str:
    """The place at which a value was given; the file for one of the defaults."""
    origin = reading.origins.get(place)
    return origin.where if origin is not None else str(path)
