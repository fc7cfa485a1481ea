"""`lakeward config`: is the configuration right, what are the effective values, and which keys are there.

Touches: stdout; the configuration, and the places and the store that it names, which are only read.
Keeps:   no secret is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.errors import StoreUnavailable, UsageError
from lakeward.cli.configured_table import ConfigOption, resolve_table
from lakeward.cli.options.pairs import parse_pairs
from lakeward.cli.options.store import AWAY, TIMEOUT_SECONDS, has_store
from lakeward.cli.result import print_json
from lakeward.cli.views.config import all_settings, table_settings
from lakeward.config.file import ConfigProblem, load_settings, read_config, wrong_configuration
from lakeward.config.places import find_missing, where_of
from lakeward.config.settings import Settings
from lakeward.storage.opening import open_storage

if TYPE_CHECKING:
    from lakeward.config.file import Reading


FileArgument = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The TOML file, unless --config names it.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A key as a flag sets it, for example service.tick=2s. Repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]


def check(
    file: FileArgument = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Do not look whether the tables, folders and store it names are there."),
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say everything that is wrong with a configuration, each with its line. Exit 2 if anything is.

    It also looks whether what it names is there: folders to search, tables named outright, and a store that answers.
    """
    path = file or config
    if path is None:
        raise UsageError(
            "No configuration to check.", why="No file is named.", remedy="Name it, or set LAKEWARD_CONFIG to it."
        )
    overrides = parse_pairs(settings, like="--set service.tick=2s")
    reading = read_config(path, os.environ, overrides)
    loaded, found = reading.settings, reading.problems
    if loaded is not None:
        found = find_missing(loaded, reading, path, offline=offline)
        if not offline:
            found += tuple(_silent_store(loaded, reading, path))
    if as_json:
        problems = [
            {"where": problem.where, "what": problem.what, "why": problem.why, "remedy": problem.remedy}
            for problem in found
        ]
        print_json({"file": str(path), "ok": not problems, "problems": problems})
        if problems:
            raise typer.Exit(2)
        return
    if loaded is None or found:
        raise wrong_configuration(path, found)
    typer.echo(
        f"{path} is valid: folders to search {len(loaded.discovery.roots)}, tables named outright "
        f"{len(loaded.named_tables)}, overrides {len(loaded.tables)}."
    )
    if loaded.locks.writers is None and all(
        table.locks is None or table.locks.writers is None for table in loaded.tables
    ):
        typer.echo(f"Nothing will be written: {loaded.locks.why_nothing_is_written}", err=True)


def _silent_store(settings: Settings, reading: Reading, path: Path) -> Iterator[ConfigProblem]:
    """A problem where a store is named and does not answer. A file that is not there yet is made by the daemon."""
    if settings.state.url is None:
        return
    try:
        if has_store(settings):
            from lakeward.state.engine import open_database

            open_database(settings.store_url, timeout=TIMEOUT_SECONDS, create=False).close()
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
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Print the effective configuration: defaults, file, environment and flags. Secrets are hidden."""
    path, overrides = file or config, parse_pairs(settings, like="--set service.tick=2s")
    reading = read_config(path, os.environ, overrides)
    loaded = reading.settings or load_settings(path, os.environ, overrides)
    if table is None:
        lines, document = all_settings(loaded, reading)
    else:
        _, base_path = open_storage(resolve_table(table, loaded))
        lines, document = table_settings(loaded, reading, base_path)
    if as_json:
        print_json(document)
        return
    width = max((len(text) for text, _ in lines if not text.startswith(("[", "#"))), default=0)
    for text, where in lines:
        typer.echo(f"{text:<{min(width, 60)}}  # {where}" if origin and where else text)


def schema(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the JSON schema of the configuration file, for editors."""
    print_json(Settings.model_json_schema())
