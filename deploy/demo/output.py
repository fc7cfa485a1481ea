"""How the demos report what they do: headlines, commands in processes of their own, and a verdict.

Touches: stdout; `lakeward` in a process of its own; a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from tests.hudi.spark import HUDI_VERSION, HudiMissing

console = Console(highlight=False)
T = TypeVar("T")


def lakeward(*arguments: str, standard_input: bytes | None = None) -> None:
    console.print("\n[bold]$ lakeward " + " ".join(arguments) + "[/bold]", soft_wrap=True)
    # A process of its own, as on a machine where Hudi's jars are not: none of them is on its class path.
    subprocess.run([sys.executable, "-m", "lakeward.cli.main", *arguments], check=True, input=standard_input)


@contextlib.contextmanager
def output_into(file: Path) -> Iterator[None]:
    """What processes started in here print goes to `file`: Hudi's JVM is chatty all its life."""
    sys.stdout.flush()
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    with file.open("wb") as log:
        for stream in kept:
            os.dup2(log.fileno(), stream)
    try:
        yield
    finally:
        for stream, original in kept.items():
            os.dup2(original, stream)
            os.close(original)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def megabytes(files: dict[str, int]) -> str:
    return f"{sum(files.values()) / 1e6:.1f} MB"


def say(text: str) -> None:
    console.print(text)


def headline(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def verdict(same: bool) -> int:
    if same:
        console.print("[green]The same rows.[/green]")
        return 0
    console.print("[red]The rows differ. This is a bug; please keep the table and report it.[/red]")
    return 1


def demo_in_a_folder(command: str, about: str | None, introduction: str, demo: Callable[[Path], int]) -> int:
    """Runs a demo that is nothing without released Hudi, in a folder that is removed at the end. Returns the exit code.

    Args:
        about: what `--help` says.
    """
    parser = argparse.ArgumentParser(prog=command, description=about)
    parser.add_argument("--keep", action="store_true", help="leave the table where it is, to inspect")
    arguments = parser.parse_args()
    say(introduction)
    folder = Path(tempfile.mkdtemp(prefix="lakeward-demo-"))
    try:
        return demo(folder)
    except HudiMissing:
        console.print(f"Hudi {HUDI_VERSION} cannot be fetched here, and without it nothing can be compared.")
        return 1
    finally:
        if arguments.keep:
            console.print(f"The table is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
