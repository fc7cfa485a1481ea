"""`lakeward version` and `lakeward warm`: what is installed on this machine, and its kernels compiled before they are
needed.

Touches: the versions of installed packages, reading only; stderr; the folder of compiled kernels, through
         `kernel_build`.
Keeps:   `warm --check` writes nothing where all kernels fit, and says so with an exit code.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.base import kernel_build
from lakeward.base.errors import LakewardError
from lakeward.base.kernel_folder import find_compiled
from lakeward.base.kernel_process import report_on_stderr
from lakeward.cli.result import Result
from lakeward.engine.dispatch.dispatcher import own_versions


def version() -> Result:
    """Print the versions of Lakeward and of what must agree on every machine."""
    versions = own_versions()
    return Result(
        document={"python": versions.python, **dict(versions.packages)},
        lines=[f"{name} {number}" for name, number in (*versions.packages, ("python", versions.python))],
    )


def warm(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only check that every kernel is compiled: exit code 1 where one is not.")
    ] = False,
) -> Result:
    """Compile Lakeward's kernels, once on a machine, so that no command has to.

    A wheel for this machine and the image bring them along. Without them the first command that reads rows compiles
    them, for a quarter of a minute.
    """
    if check or find_compiled() is not None:
        built = kernel_build.check()
    else:
        built = kernel_build.build(report=report_on_stderr()) or kernel_build.check()
    error = None
    if check and built.compiled:
        error = LakewardError(
            f"{built.compiled} of {built.kernels} kernels had to be compiled again.",
            why="Their sources are not those that were compiled.",
            remedy="`lakeward warm` compiles them, once on this machine.",
        )
    return Result(
        document={"folder": str(built.folder), "kernels": built.kernels, "compiled": built.compiled},
        lines=[f"{built.kernels} kernels are in {built.folder}; {built.compiled} of them were compiled now."],
        error=error,
    )
