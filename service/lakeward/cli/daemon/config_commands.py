"""`lakeward config`: is the configuration right, what are the effective values, and which keys are there.

Touches: stdout; the configuration, and the places and the store that it names, which are only read.
Keeps:   no secret is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, SecretStr

from lakeward.base.errors import StoreUnavailable, UsageError
from lakeward.base.printable import HIDDEN, names_secret, printable, printable_url
from lakeward.cli.configured_table import ConfigOption, resolve_table
from lakeward.cli.options.store import AWAY, check_answers, has_store
from lakeward.cli.options.values import parse_pairs
from lakeward.cli.result import Result, json_text
from lakeward.config.effective import Line, plain, table_settings, write_line
from lakeward.config.file import ConfigProblem, Origin, Reading, load_settings, read_config, wrong_configuration
from lakeward.config.places import find_missing, where_of
from lakeward.config.reference import given_keys
from lakeward.config.settings import KeyPath, Settings
from lakeward.storage.storage_of_url import open_storage

FileArgument = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The TOML file, unless --config names it.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A key as a flag sets it, for example service.grace=2s. Repeatable."
    ),
]


def check(
    file: FileArgument = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Do not look whether the tables, folders and store it names are there."),
    ] = False,
) -> Result:
    """Say everything that is wrong with a configuration, each with its line. Exit 2 if anything is.

    It also looks whether what it names is there: folders to search, tables named outright, and a store that answers.
    """
    path = file or config
    if path is None:
        raise UsageError(
            "No configuration to check.", why="No file is named.", remedy="Name it, or set LAKEWARD_CONFIG to it."
        )
    overrides = parse_pairs(settings, like="--set service.grace=2s")
    reading, found = checked_file(path, overrides, offline=offline)
    loaded = reading.settings
    lines, notes = [], []
    if loaded is not None:
        lines.append(
            f"{path} is valid: folders to search {len(loaded.discovery.roots)}, tables named outright "
            f"{len(loaded.named_tables)}, overrides {len(loaded.tables)}."
        )
        if (why_not := why_nothing_is_written(loaded)) is not None:
            notes.append(f"Nothing will be written: {why_not}")
    problems = [
        {"where": problem.where, "what": problem.what, "why": problem.why, "remedy": problem.remedy}
        for problem in found
    ]
    is_wrong = loaded is None or bool(found)
    return Result(
        document={"file": str(path), "ok": not problems, "problems": problems},
        lines=[] if is_wrong else lines,
        notes=[] if is_wrong else notes,
        error=wrong_configuration(path, found) if is_wrong else None,
    )


def checked_file(
    path: Path, overrides: Mapping[str, str], *, offline: bool
) -> tuple[Reading, tuple[ConfigProblem, ...]]:
    """All that is wrong with a configuration, and with what it names unless `offline`."""
    reading = read_config(path, os.environ, overrides)
    if (loaded := reading.settings) is None:
        return reading, reading.problems
    found = find_missing(loaded, reading, path, offline=offline)
    return reading, found if offline else (*found, *_silent_store(loaded, reading, path))


def why_nothing_is_written(settings: Settings) -> str | None:
    """Why no table is written to; None where the configuration allows it for one."""
    is_silent = settings.locks.writers is None and all(
        table.locks is None or table.locks.writers is None for table in settings.tables
    )
    return settings.locks.why_nothing_is_written if is_silent else None


def _silent_store(settings: Settings, reading: Reading, path: Path) -> Iterator[ConfigProblem]:
    """A problem where a store is named and does not answer. A file that is not there yet is made by the daemon."""
    if settings.state.url is None:
        return
    try:
        if has_store(settings):
            check_answers(settings)
    except AWAY as error:
        what = "The store does not answer." if isinstance(error, StoreUnavailable) else error.what
        yield ConfigProblem(where_of(reading, ("state", "url"), path), what, error.why, error.remedy)


def show(
    file: FileArgument = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME_OR_PATH", help="How this table is serviced, all overrides applied.")
    ] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say of every value where it comes from.")] = False,
) -> Result:
    """Print the effective configuration: defaults, file, environment and flags. Secrets are hidden."""
    path, overrides = file or config, parse_pairs(settings, like="--set service.grace=2s")
    reading = read_config(path, os.environ, overrides)
    loaded = reading.settings or load_settings(path, os.environ, overrides)
    if table is None:
        lines, document = all_settings(loaded, reading)
    else:
        _, base_path = open_storage(resolve_table(table, loaded))
        lines, document = table_settings(loaded, reading.origins, base_path)
    width = min(60, max((len(text) for text, _ in lines if not text.startswith(("[", "#"))), default=0))
    return Result(
        document=document,
        lines=[f"{text:<{width}}  # {where}" if origin and where else text for text, where in lines],
    )


def schema() -> Result:
    """Print the JSON schema of the configuration file, for editors."""
    described = Settings.model_json_schema()
    return Result(document=described, lines=[json_text(described)])


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
            lines.append((write_line(type(section), key, value), where))
            values[name][key] = plain(value)
            origins[f"{name}.{key}"] = where
        lines.append(("", ""))
    values["tables"] = []
    for index, override in enumerate(settings.tables):
        lines.append(("[[tables]]", ""))
        values["tables"].append({})
        for key in given_keys(override):
            value = _shown(settings, "tables", key, getattr(override, key))
            where = _where(reading.origins, ("tables", index, key), value)
            lines.append((write_line(type(override), key, value), where))
            values["tables"][index][key] = plain(value)
            origins[f"tables[{index + 1}].{key}"] = where
        lines.append(("", ""))
    return lines[:-1], {"settings": values, "origins": origins}


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
