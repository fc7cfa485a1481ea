"""`lakeward run`: the daemon, or one pass of it.

Touches: everything below.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.options.values import parse_pairs
from lakeward.daemon.app import App
from lakeward.engine.dispatch.engine_rule import EngineSetting


def run(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", envvar="LAKEWARD_CONFIG", help="The configuration file (TOML)."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the configuration, service.listen=… Repeatable."),
    ] = None,
    engine: Annotated[
        EngineSetting | None,
        typer.Option(
            help="Where jobs run, instead of service.engine: auto (by the bytes that they read), spark (all on "
            "Spark), local (none on Spark).",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Service every table once, without pages and metrics, and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False,
) -> None:
    """Watch all configured tables, decide per file group, compact, and show it, until stopped.

    SIGHUP reloads the configuration. SIGTERM or Ctrl-C lets running jobs end within service.grace and stops;
    a second one stops now. With --once the exit code is 4 when a table could not be serviced.
    """
    overrides = parse_pairs(settings, like="--set service.listen=0.0.0.0:8490")
    if engine is not None:
        overrides |= {"service.engine": engine.value}
    exit_code = App(config, environ=os.environ, overrides=overrides).run(once=once)
    if exit_code:
        raise typer.Exit(exit_code)
