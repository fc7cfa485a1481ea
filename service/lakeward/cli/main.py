"""The command line: words in, one call down, data out, an exit code.

Data goes to stdout, everything else to stderr. Exit codes are a stable contract: 0 ok; 1 failure; 2 usage,
configuration or a refused table; 3 nothing to do (only with --exit-code); 5 lock held; 6 verification found
problems; 75 temporary, try again; 130 interrupted.

Touches: stdout, stderr; everything else happens below.
Keeps:   no secret that the process was given, in its environment or its arguments, is in an error that it prints.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType

import orjson
import typer

from lakeward.cli.compact_command import compact as compact_table
from lakeward.cli.config_commands import config_app
from lakeward.cli.control_commands import register as register_controls
from lakeward.cli.inspect_command import inspect as inspect_table
from lakeward.cli.metadata_commands import metadata_app
from lakeward.cli.plan_command import explain as explain_plan
from lakeward.cli.plan_command import plan as plan_table
from lakeward.cli.run_command import run as run_daemon
from lakeward.cli.state_commands import state_app
from lakeward.cli.store_options import DebugOption, JsonOption, print_json
from lakeward.cli.unschedule_command import unschedule as unschedule_plan
from lakeward.cli.verify_command import verify as verify_table
from lakeward.errors import LakewardError
from lakeward.printable import encodings, printable, secrets_around

app = typer.Typer(
    name="lakeward",
    help="Table services for Apache Hudi tables: inspect a table, compact it, know why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.command(name="inspect")(inspect_table)
app.command(name="plan")(plan_table)
app.command(name="explain")(explain_plan)
app.command(name="compact")(compact_table)
app.command(name="unschedule")(unschedule_plan)
app.command(name="verify")(verify_table)
app.command(name="run")(run_daemon)
app.add_typer(metadata_app, name="metadata")
app.add_typer(config_app, name="config")
app.add_typer(state_app, name="state")


@app.command()
def version(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the versions of Lakeward and of what must agree on every machine."""
    from lakeward.dispatch.dispatcher import own_versions

    versions = own_versions()
    if as_json:
        print_json({"python": versions.python, **dict(versions.packages)})
    else:
        for name, number in (*versions.packages, ("python", versions.python)):
            typer.echo(f"{name} {number}")


register_controls(app)


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line. Returns the exit code; never raises for expected trouble."""
    arguments = list(arguments)
    try:
        app(args=arguments, prog_name="lakeward")
    except SystemExit as ended:  # how the command-line library returns, with usage errors explained
        return ended.code if isinstance(ended.code, int) else 0
    except LakewardError as error:
        _print_error(error, arguments)
        return error.exit_code
    except OSError as error:
        told = LakewardError(
            f"The storage failed{f' at {error.filename}' if error.filename else ''}.",
            why=f"{error.strerror or error}.",
            remedy="Nothing half-done stays visible; when the storage works again, run the command again.",
        )
        told.__cause__ = error
        _print_error(told, arguments)
        return told.exit_code
    return 0


def _print_error(error: LakewardError, arguments: Sequence[str]) -> None:
    from lakeward.cli.views.terminal import shown

    known = _known_secrets(arguments)
    if "--debug" in arguments:
        typer.echo(shown(printable("".join(traceback.format_exception(error)), known)), err=True)
    what, why, remedy, *notes = (
        printable(text, known) for text in (error.what, error.why, error.remedy, *getattr(error, "__notes__", []))
    )
    if "--json" in arguments:
        fields = {"code": error.code, "what": what, "why": why, "remedy": remedy, "notes": notes}
        typer.echo(orjson.dumps({"error": fields}).decode(), err=True)
    else:
        lines = [f"{error.code}: {what}", why, remedy, *notes]
        typer.echo(shown("\n".join(line for line in lines if line)), err=True)


def _print_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A bug of ours, as Python itself would print it, but for the secrets."""
    from lakeward.cli.views.terminal import shown

    typer.echo(
        shown(printable("".join(traceback.format_exception(kind, error, trace)), _known_secrets(sys.argv[1:]))),
        err=True,
    )


def _known_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """Whatever text of others an error brings along, these are in none that is printed."""
    return encodings(secrets_around(os.environ, arguments))


def main() -> None:
    sys.excepthook = _print_uncaught
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
