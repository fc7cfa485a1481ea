"""How one table is serviced, all overrides applied: each setting with the place that says so.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lakeward.config.file import Origin
from lakeward.config.reference import given_keys, kind_of, write_key, write_value
from lakeward.config.settings import KeyPath, Settings, TableSettings

Line = tuple[str, str]
"""A setting as the file would have it, and the place that it comes from."""

DEFAULT = "default"
"""The place of what nothing says."""


def table_settings(
    settings: Settings, origins_of: Mapping[KeyPath, Origin], base_path: str
) -> tuple[list[Line], dict[str, Any]]:
    """How one table is serviced, all overrides applied: as lines, and as JSON."""
    name = settings.name_of(base_path)
    table = settings.table(name, base_path)
    sources = settings.table_sources(name, base_path)
    lines: list[Line] = [(f"# {name} at {base_path}" if name != base_path else f"# {base_path}", "")]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}

    def add(label: KeyPath, text: str, value: Any) -> None:
        source = sources.get(label)
        where = _from(source, origins_of)
        lines.append((text, where))
        origins[".".join(str(part) for part in label)] = where

    for key in TableSettings.model_fields:
        value = getattr(table, key)
        if key == "planner":
            values["planner"] = dict(value)
            for setting, given in value.items():
                add((key, setting), f"planner.{write_key(setting)} = {write_value(given)}", given)
            if not value:
                lines.append(("planner = {}", DEFAULT))
        elif isinstance(value, BaseModel):
            values[key] = {}
            for inner in type(value).model_fields:
                given = getattr(value, inner)
                values[key][inner] = plain(given)
                add((key, inner), write_line(type(value), inner, given, prefix=f"{key}."), given)
        else:
            values[key] = plain(value)
            add((key,), write_line(TableSettings, key, value), value)
    why_not = table.locks.why_nothing_is_written if table.locks is not None else None
    if why_not is not None:
        lines.append((f"# Nothing is written to this table. {why_not}", ""))
    document = {"name": name, "base_path": base_path, "settings": values, "origins": origins, "shadow": why_not}
    return lines, document


def write_line(model: type[BaseModel], key: str, value: Any, *, prefix: str = "") -> str:
    field = model.model_fields[key]
    if (value is None and field.default is None) or (isinstance(value, BaseModel) and not given_keys(value)):
        return f"# {prefix}{key} is not set"
    return f"{prefix}{key} = {write_value(value, kind_of(field))}"


def _from(source: KeyPath | None, origins: Mapping[KeyPath, Origin]) -> str:
    """`tables[2] lakeward.toml:12:3`; what a table has from [defaults] or [locks] is as for all."""
    if source is None or source not in origins:
        return DEFAULT
    where = origins[source].where
    return f"tables[{int(source[1]) + 1}] {where}" if source[0] == "tables" else where


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {key: plain(getattr(value, key)) for key in given_keys(value)}
    if isinstance(value, Path):
        return str(value)
    return value
