"""The short name of a table without a configured one: the last folder of its base path, where no other table has it.

Pages and metrics show it, and people type it. The store, leases and logs use the name itself, which does not change
when another table comes.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping


def find_by_short_name(text: str, tables: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the tables that are meant, of a map from name to base path. Where there are several, the text says
    too little. A name goes before a short one."""
    if text in tables:
        return (text,)
    return tuple(sorted(name for name, base_path in tables.items() if _last_folder(base_path) == text))


def short_name(name: str, tables: Mapping[str, str]) -> str:
    """What the table of that name is to be called among `tables`, a map from name to base path."""
    folder = _last_folder(tables[name])
    is_free = name == tables[name] and find_by_short_name(folder, tables) == (name,)
    return folder if is_free else name


def names_of(tables: Mapping[str, str]) -> list[str]:
    """All that people may type for one of `tables`, a map from name to base path."""
    return sorted({*tables, *(short_name(name, tables) for name in tables)})


def _last_folder(base_path: str) -> str:
    return base_path.rstrip("/").rpartition("/")[2]
