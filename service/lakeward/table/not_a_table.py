"""Why a place that was given as a table is none: what is there instead, and what to give.

    nothing at all          a file            a folder that may not be read
    an Iceberg table        a Delta table     a folder inside of a Hudi table: a partition, say

Touches: storage: a listing of `.hoodie`, and where that is missing, of the folder and of those above it.
"""

from __future__ import annotations

from lakeward.base.errors import NoCredentials, NotATable
from lakeward.base.paths import join, parent
from lakeward.storage.credentials import REMEDIES, asks_machine, no_credentials
from lakeward.storage.object_url import is_object_url, parse_object_url
from lakeward.storage.storage import Storage
from lakeward.table.table_config import BACKUP_FILE, HOODIE_FOLDER, PROPERTIES_FILE, hoodie_folder

_REMEDY = "Lakeward services Apache Hudi tables; give the base path of one, the folder that contains .hoodie."


def check_is_table(storage: Storage, base_path: str) -> None:
    """Raises `NotATable`, with what is there instead, and `NoCredentials`."""
    try:
        if not storage.list(hoodie_folder(base_path)):
            raise _why_none(storage, base_path)
    except NotADirectoryError as error:
        raise _is_file(storage, base_path) from error
    except PermissionError as error:
        if is_object_url(base_path):
            raise _refused_by_store(base_path, error) from error
        raise NotATable(
            f"{base_path} may not be read.",
            why=f"Permission is denied at {error.filename or base_path}.",
            remedy="Run as the user of the table's writers, or as another who may read the folder, and write for "
            "verbs that write.",
        ) from error
    except OSError as error:
        if is_object_url(base_path) and asks_machine(str(error)):
            provider = parse_object_url(base_path).provider
            why = "and this machine's metadata address gives it no role"
            raise no_credentials(provider, base_path, why) from error
        if is_object_url(base_path) and "region" in str(error):
            raise _refused_by_store(base_path, error) from error
        raise


def _refused_by_store(base_path: str, error: OSError) -> NoCredentials:
    """The error where who we are may not list the bucket, or it is in another region than we ask."""
    return NoCredentials(
        f"The object store does not let us list {base_path}.",
        why=f"It answered: {error.strerror}.",
        remedy=f"Check credentials and region. {REMEDIES[parse_object_url(base_path).provider]}",
    )


def _why_none(storage: Storage, base_path: str) -> NotATable:
    entries = storage.list(base_path)
    is_object = is_object_url(base_path)
    found = None if is_object else storage.stat(base_path)
    if found is not None and not found.is_folder:
        return _is_file(storage, base_path)
    if not entries and found is None:
        remedy = "Check how it is written."
        if is_object:
            remedy += " A bucket of another region or endpoint than the environment names is another place."
        return NotATable(f"{base_path} does not exist.", why="There is nothing of that name.", remedy=remedy)
    if (above := _table_above(storage, base_path)) is not None:
        table, below = above
        narrowed = "" if below.startswith(HOODIE_FOLDER) else f", and for this partition alone --partition {below}"
        return NotATable(
            f"{base_path} is a folder inside of a table.",
            why="What is serviced is a whole table.",
            remedy=f"Give the table's base path, {table}{narrowed}.",
        )
    names = {entry.name for entry in entries}
    if "_delta_log" in names:
        return NotATable(f"{base_path} is a Delta table.", why="It has a _delta_log.", remedy=_REMEDY)
    if "metadata" in names and any(
        entry.name.endswith(".metadata.json") for entry in storage.list(join(base_path, "metadata"))
    ):
        return NotATable(f"{base_path} is an Iceberg table.", why="It has metadata/*.metadata.json.", remedy=_REMEDY)
    return NotATable(
        f"{base_path} holds no Hudi table.", why=f"There is no {HOODIE_FOLDER}/{PROPERTIES_FILE} in it.", remedy=_REMEDY
    )


def _is_file(storage: Storage, path: str) -> NotATable:
    found = _table_above(storage, path)
    remedy = _REMEDY if found is None else f"Give the base path of the table that it is in, {found[0]}."
    return NotATable(f"{path} is a file.", why="A table is a folder.", remedy=remedy)


def _table_above(storage: Storage, path: str) -> tuple[str, str] | None:
    """The base path of the table that a place lies in, and the path from there; None where it lies in none."""
    base_path = parent(path)
    while base_path not in ("", "/") and not base_path.endswith(":/"):
        try:
            entries = storage.list(hoodie_folder(base_path))
        except OSError:
            return None  # what may not be read is not Lakeward's to name
        if any(entry.name in (PROPERTIES_FILE, BACKUP_FILE) for entry in entries):
            return base_path, path[len(base_path) + 1 :]
        base_path = parent(base_path)
    return None
