"""How the demos report what they do: headlines, commands in processes of their own, and a verdict.

Touches: stdout; `lakeward` in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rich.console import Console

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
