"""Calling Lakeward as a user does: one command line in, exit code and JSON out."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from lakeward.cli.main import run
from tests.hudi.table import HudiTable


def lakeward(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Run one command in this process (and on this process's Spark). Returns the exit code and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exit_code = run([*arguments, "--json"])
    return exit_code, json.loads(printed.getvalue() or "{}")


def compact(table: HudiTable, *options: str) -> dict[str, Any]:
    """Runs `lakeward compact` of the table alone, on Spark; it must succeed. Without options: no writer is at work."""
    given = ("--engine", "spark", *(options or ("--writers", "stopped")))
    exit_code, printed = lakeward("compact", str(table.path), "--type", "full", "--no-metadata-services", *given)
    assert exit_code == 0, printed
    return printed
