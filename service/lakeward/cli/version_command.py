"""`lakeward version`: the versions of Lakeward and of what it runs on.

Touches: stdout; the versions of installed packages, reading only.
"""

from __future__ import annotations

import typer

from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.engine.dispatch.dispatcher import own_versions


def version(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the versions of Lakeward and of what must agree on every machine."""
    versions = own_versions()
    if as_json:
        print_json({"python": versions.python, **dict(versions.packages)})
    else:
        for name, number in (*versions.packages, ("python", versions.python)):
            typer.echo(f"{name} {number}")
