"""The command line: words in, one call down, data out, an exit code.

Data goes to stdout, everything else to stderr. Exit codes are a stable contract: 0 ok; 1 failure; 2 usage,
configuration or a refused table; 3 nothing to do (only with --exit-code); 4 a table or root
could not be serviced (`run --once`, `state rebuild`); 5 lock held; 6 verification found
problems; 75 temporary, try again; 130 interrupted.

Almost nothing is imported before the command line is read: Ctrl-C in the first second is heard like any other.

Touches: stdout, stderr; everything else happens below.
Keeps:   1. no secret that the process was given, in its environment or its arguments, is in an error that it prints;
         2. Ctrl-C ends it with one line and 130, whenever it comes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType

from lakeward.base.errors import Cancelled, LakewardError, storage_failure
from lakeward.base.without_pandas import leave_pandas_out


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line. Returns the exit code; never raises for expected trouble."""
    arguments = list(arguments)
    try:
        from lakeward.cli.verbs import app

        app(args=arguments, prog_name="lakeward")
    except SystemExit as ended:  # how the command-line library returns, with usage errors explained
        return ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:  # before any verb began
        _print_error(Cancelled("Interrupted."), arguments)
        return Cancelled.exit_code
    except LakewardError as error:
        _print_error(error, arguments)
        return error.exit_code
    except OSError as error:
        failure = storage_failure(error)
        failure.__cause__ = error
        _print_error(failure, arguments)
        return failure.exit_code
    return 0


def _error_report() -> ModuleType:
    from lakeward.cli import error_report  # a command that is right prints none

    return error_report


def _print_error(error: LakewardError, arguments: Sequence[str]) -> None:
    _error_report().print_error(error, arguments)


def _print_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A bug in Lakeward, as Python itself would print it, but for the secrets."""
    if issubclass(kind, KeyboardInterrupt):  # while the process was ending
        return
    report = _error_report()
    report.print_traceback(kind, error, trace, report.known_secrets(sys.argv[1:]))


def main() -> None:
    sys.excepthook = _print_uncaught
    leave_pandas_out()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
