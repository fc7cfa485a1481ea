"""Which data file of a table a path or a name means, as an operator gives it: below the table, from the current folder,
the whole path, or the name alone.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.base.errors import UsageError
from lakeward.format.file_name import check_relative_path, parse_any_data_file
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import HOODIE_FOLDER


def find_path(
    given: str,
    *,
    base_path: str,
    snapshot: TableSnapshot,
    gone: Iterable[str] = (),
    from_here: str | None = None,
) -> str:
    """The path below the table of the file that `given`, a path or a name, means. Raises `UsageError`.

    Args:
        gone: paths that are known, and may not be there any more.
        from_here: the path below the table that it is as one from the current folder; None where that is not below it.
    """
    known = {path for files in snapshot.files for path, _ in files.sizes}.union(gone)
    path = _below(given, base_path)
    if from_here is not None and path not in known and (from_here in known or not _is_in_partition(path, snapshot)):
        path = from_here
    if path.split("/", 1)[0] == HOODIE_FOLDER:
        raise UsageError(
            f"{given} is a file of the table's own metadata.",
            why="A file of rows is explained by its path, what is on the timeline by its instant.",
            remedy="Pass --instant with the digits at the beginning of its name.",
        )
    partition, _, name = path.rpartition("/")
    if parse_any_data_file(name, native=snapshot.config.version.has_native_logs) is None:
        raise UsageError(
            f"{given} is not the name of a data file.",
            why="Base files are called <file id>_<token>_<instant>.parquet, logs .<file id>_<instant>.log.<n>_<token>. "
            "Any other file is left alone.",
            remedy="Pass a data file of the table.",
        )
    if partition:
        return check_relative_path(path)
    paths = sorted(each for each in known if each.rpartition("/")[2] == name)
    if len(paths) > 1:
        raise UsageError(
            f"{len(paths)} files are called {name}.",
            why=f"They are {', '.join(paths[:5])}.",
            remedy="Pass the path of the one that you mean.",
        )
    return paths[0] if paths else name


def _below(given: str, base_path: str) -> str:
    """`given` below the base path. Raises `UsageError` for an absolute path that is not."""
    for root in (base_path, f"file://{base_path}", f"file:{base_path}"):
        if given.startswith(f"{root.rstrip('/')}/"):
            return given.removeprefix(f"{root.rstrip('/')}/").strip("/")
    if given.startswith("/") or "://" in given:
        raise UsageError(
            f"{given} is not below {base_path}.",
            why="A file is explained by what its own table says.",
            remedy="Pass the table that it is of, or the path below the table.",
        )
    return given.removeprefix("./").rstrip("/")


def _is_in_partition(path: str, snapshot: TableSnapshot) -> bool:
    """A name alone is, too: it is looked for in all of them."""
    partition = path.rpartition("/")[0]
    return not partition or partition in snapshot.partitions
