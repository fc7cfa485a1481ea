"""Which daemon a verb asks: --server, else the one whose configuration is named.

Touches: the configuration and the environment, reading only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lakeward.api.client import Client
from lakeward.base.errors import UsageError
from lakeward.cli.options.store import read_settings
from lakeward.cli.verb_help import SharedPanel
from lakeward.config.listen_address import local_address

TOKEN_VARIABLE = "LAKEWARD_TOKEN"

_NAME_A_FILE = "Name a file that holds the token."

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        rich_help_panel=SharedPanel.SERVER,
        envvar="LAKEWARD_SERVER",
        metavar="URL",
        help="The daemon to ask, like http://lakeward:8490. Not given: the one on this machine that the configuration "
        "is of.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        rich_help_panel=SharedPanel.SERVER,
        metavar="FILE",
        help=f"A file with the daemon's token. Not given: {TOKEN_VARIABLE}, or the token of the configuration.",
    ),
]


def asked_daemon(server: str | None, token_file: Path | None, config: Path | None) -> Client:
    """Raises `ConfigurationError`, and `UsageError` for a file that has no token."""
    token = os.environ.get(TOKEN_VARIABLE) if token_file is None else _token_in(token_file)
    if server is not None:
        return Client(server, token=token)
    settings = read_settings(config)
    return Client(f"http://{local_address(settings.service.listen)}", token=token or settings.http_token)


def _token_in(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read.", why=f"{error}.", remedy=_NAME_A_FILE) from error
    if not token:
        raise UsageError(f"{file} is empty.", remedy=_NAME_A_FILE)
    return token
