"""`lakeward warm`: compile the kernels before the first work needs them, or check that they are compiled.

Touches: stdout, stderr; the folder of compiled kernels, through `kernel_build`.
Keeps:   `--check` writes nothing where all kernels fit, and says so with an exit code.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.base import kernel_build
from lakeward.base.errors import LakewardError
from lakeward.base.kernel_folder import find_compiled
from lakeward.base.kernel_process import report_on_stderr
from lakeward.cli.result import DebugOption, JsonOption, print_json


def warm(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only check that every kernel is compiled: exit code 1 where one is not.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compile Lakeward's kernels, once on a machine, so that no command has to.

    A wheel for this machine and the image bring them along. Without them the first command that reads rows compiles
    them, for a quarter of a minute.
    """
    if check or find_compiled() is not None:
        built = kernel_build.check()
    else:
        built = kernel_build.build(report=report_on_stderr()) or kernel_build.check()
    if as_json:
        print_json({"folder": str(built.folder), "kernels": built.kernels, "compiled": built.compiled})
    else:
        typer.echo(f"{built.kernels} kernels are in {built.folder}; {built.compiled} of them were compiled now.")
    if check and built.compiled:
        raise LakewardError(
            f"{built.compiled} of {built.kernels} kernels had to be compiled again.",
            why="Their sources are not those that were compiled.",
            remedy="`lakeward warm` compiles them, once on this machine.",
        )
