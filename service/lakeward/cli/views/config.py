"""The effective configuration, for people and as JSON: the result of `lakeward config show`.

Touches: nothing.
Keeps:   no secret is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from lakeward.base.printable import HIDDEN, names_secret, printable, printable_url
from lakeward.config.file import Origin, Reading
from lakeward.config.reference import given_keys, kind_of, write_key, write_value
from lakeward.config.settings import KeyPath, Settings, TableSettings

Line = tuple[str, str]
"""What is printed, and where it comes from."""


def all_settings(settings: Settings, reading: Reading) -> tuple[list[Line], dict[str, Any]]:
    """Every section of the configuration: as lines, and as JSON."""
    lines: list[Line] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in Settings.model_fields:
        if name == "tables":
            continue
        section = getattr(settings, name)
        keys = [key for key in type(section).model_fields if (name, key) != ("defaults", "locks")]
        lines.append((f"[{name}]", ""))
        values[name] = {}
        for key in keys:
            value = _shown(settings, name, key, getattr(section, key))
            where = _where(reading.origins, (name, key), value)
            lines.append((_line(type(section), key, value), where))
            values[name][key] = _plain(value)
            origins[f"{name}.{key}"] = where
        lines.append(("", ""))
    values["tables"] = []
    for index, override in enumerate(settings.tables):
        lines.append(("[[tables]]", ""))
        values["tables"].append({})
        for key in given_keys(override):
            value = _shown(settings, "tables", key, getattr(override, key))
            where = _where(reading.origins, ("tables", index, key), value)
            lines.append((_line(type(override), key, value), where))
            values["tables"][index][key] = _plain(value)
            origins[f"tables[{index + 1}].{key}"] = where
        lines.append(("", ""))
    return lines[:-1], {"settings": values, "origins": origins}


def table_settings(settings: Settings, reading: Reading, base_path: str) -> tuple[list[Line], dict[str, Any]]:
    """How one table is serviced, all overrides applied: as lines, and as JSON."""
    name = settings.name_of(base_path)
    table = settings.table(name, base_path)
    sources = settings.table_sources(name, base_path)
    lines: list[Line] = [(f"# {name} at {base_path}" if name != base_path else f"# {base_path}", "")]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}

    def add(label: KeyPath, text: str, value: Any) -> None:
        source = sources.get(label)
        where = _from(source, reading.origins)
        lines.append((text, where))
        origins[".".join(str(part) for part in label)] = where

    for key in TableSettings.model_fields:
        value = getattr(table, key)
        if key == "planner":
            values["planner"] = dict(value)
            for setting, given in value.items():
                add((key, setting), f"planner.{write_key(setting)} = {write_value(given)}", given)
            if not value:
                lines.append(("planner = {}", "default"))
        elif isinstance(value, BaseModel):
            values[key] = {}
            for inner in type(value).model_fields:
                given = getattr(value, inner)
                values[key][inner] = _plain(given)
                add((key, inner), _line(type(value), inner, given, prefix=f"{key}."), given)
        else:
            values[key] = _plain(value)
            add((key,), _line(TableSettings, key, value), value)
    why_not = table.locks.why_nothing_is_written if table.locks is not None else None
    if why_not is not None:
        lines.append((f"# Nothing is written to this table. {why_not}", ""))
    document = {"name": name, "base_path": base_path, "settings": values, "origins": origins, "shadow": why_not}
    return lines, document


def _line(model: type[BaseModel], key: str, value: Any, *, prefix: str = "") -> str:
    field = model.model_fields[key]
    if (value is None and field.default is None) or (isinstance(value, BaseModel) and not given_keys(value)):
        return f"# {prefix}{key} is not set"
    return f"{prefix}{key} = {write_value(value, kind_of(field))}"


def _shown(settings: Settings, section: str, key: str, value: Any) -> Any:
    """The effective value, fit to be seen."""
    if (section, key) == ("state", "url"):
        return printable_url(settings.store_url)
    if (section, key) == ("http", "token") and value is not None:
        return HIDDEN
    if isinstance(value, SecretStr):
        return printable_url(value.get_secret_value())
    if (section, key) == ("spark", "conf"):
        return {name: HIDDEN if names_secret(name) else printable(text) for name, text in value.items()}
    return value


def _where(origins: Mapping[KeyPath, Origin], place: KeyPath, value: Any) -> str:
    """All the places that a table was put together from."""
    own = origins.get(place)
    keys = given_keys(value) if isinstance(value, BaseModel) else value if isinstance(value, Mapping) else ()
    if keys:
        places = dict.fromkeys(origins[(*place, key)].where for key in keys if (*place, key) in origins)
        if places:
            return ", ".join(places)
    by_file = (place[0], f"{place[1]}_file")
    if place in (("state", "url"), ("http", "token")) and own is None and by_file in origins:
        return origins[by_file].where
    return "default" if own is None else own.where


def _from(source: KeyPath | None, origins: Mapping[KeyPath, Origin]) -> str:
    """`tables[2] lakeward.toml:12:3`; what a table has from [defaults] or [locks] is as for all."""
    if source is None or source not in origins:
        return "default"
    where = origins[source].where
    return f"tables[{int(source[1]) + 1}] {where}" if source[0] == "tables" else where


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {key: _plain(getattr(value, key)) for key in given_keys(value)}
    if isinstance(value, Path):
        return str(value)
    return value
