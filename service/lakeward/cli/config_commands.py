"""`lakeward config`: is the configuration right, what does it come to, and what may stand in it.

Touches: stdout; the configuration, which is only read.
Keeps:   no secret is shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, SecretStr

from lakeward.cli.configured_table import ConfigOption, resolve_table
from lakeward.cli.pairs import parse_pairs
from lakeward.cli.store_options import print_json
from lakeward.config.file import Origin, Reading, load_settings, read_config
from lakeward.config.reference import given_keys, kind_of, write_key, write_value
from lakeward.config.settings import KeyPath, Settings, TableSettings
from lakeward.errors import UsageError
from lakeward.printable import HIDDEN, names_secret, printable, printable_url
from lakeward.storage.opening import open_storage

config_app = typer.Typer(help="The daemon's configuration: check it, see what it comes to.", no_args_is_help=True)

FileArgument = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The TOML file, unless --config names it.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A key as a flag sets it, for example service.tick=2s. Repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]


@config_app.command()
def check(
    file: FileArgument = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say everything that is wrong with a configuration, each with its line. Exit 2 if anything is."""
    path = file or config
    if path is None:
        raise UsageError(
            "There is no file to check.", why="None was named.", remedy="Name it, or set LAKEWARD_CONFIG to it."
        )
    overrides = parse_pairs(settings, like="--set service.tick=2s")
    reading = read_config(path, os.environ, overrides)
    if as_json:
        problems = [
            {"where": problem.where, "what": problem.what, "why": problem.why, "remedy": problem.remedy}
            for problem in reading.problems
        ]
        print_json({"file": str(path), "ok": not problems, "problems": problems})
        if problems:
            raise typer.Exit(2)
        return
    loaded = reading.settings or load_settings(path, os.environ, overrides)  # the latter raises what is wrong
    typer.echo(
        f"{path} is right: folders to search {len(loaded.discovery.roots)}, tables named outright "
        f"{len(loaded.named_tables)}, overrides {len(loaded.tables)}."
    )
    if loaded.locks.writers is None and all(
        table.locks is None or table.locks.writers is None for table in loaded.tables
    ):
        typer.echo(f"Nothing will be written: {loaded.locks.why_nothing_is_written}", err=True)


@config_app.command()
def show(
    file: FileArgument = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME_OR_PATH", help="How this table is serviced, all overrides applied.")
    ] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say of every value where it comes from.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Print what the configuration comes to: defaults, file, environment and flags. Secrets are hidden."""
    path, overrides = file or config, parse_pairs(settings, like="--set service.tick=2s")
    reading = read_config(path, os.environ, overrides)
    loaded = reading.settings or load_settings(path, os.environ, overrides)
    if table is None:
        lines, document = _of_all(loaded, reading)
    else:
        lines, document = _of_table(loaded, reading, table)
    if as_json:
        print_json(document)
        return
    width = max((len(text) for text, _ in lines if not text.startswith(("[", "#"))), default=0)
    for text, where in lines:
        typer.echo(f"{text:<{min(width, 60)}}  # {where}" if origin and where else text)


@config_app.command()
def schema(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the JSON schema of the configuration file, for editors."""
    print_json(Settings.model_json_schema())


Line = tuple[str, str]
"""What is printed, and where it comes from."""


def _of_all(settings: Settings, reading: Reading) -> tuple[list[Line], dict[str, Any]]:
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


def _of_table(settings: Settings, reading: Reading, text: str) -> tuple[list[Line], dict[str, Any]]:
    base_path = open_storage(resolve_table(text, settings))[1]
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
        elif key == "locks":
            values["locks"] = {}
            for lock_key in type(value).model_fields:
                given = getattr(value, lock_key)
                values["locks"][lock_key] = _plain(given)
                add((key, lock_key), _line(type(value), lock_key, given, prefix="locks."), given)
        else:
            values[key] = _plain(value)
            add((key,), _line(TableSettings, key, value), value)
    why_not = table.locks.why_nothing_is_written if table.locks is not None else None
    if why_not is not None:
        lines.append((f"# Nothing is written to this table. {why_not}", ""))
    document = {"name": name, "base_path": base_path, "settings": values, "origins": origins, "shadow": why_not}
    return lines, document


def _line(model: type[BaseModel], key: str, value: Any, *, prefix: str = "") -> str:
    if value is None or (isinstance(value, BaseModel) and not given_keys(value)):
        return f"# {prefix}{key} is not set"
    return f"{prefix}{key} = {write_value(value, kind_of(model.model_fields[key]))}"


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
