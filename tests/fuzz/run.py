"""One fuzz target in a process of its own, on atheris: `python -m tests.fuzz.run log_blocks --seconds 10 --seed 7`.

A target is a module beside this one with `corpus()`, real bytes to start from, and `one_input(data)`, which may raise
the project's own errors and nothing else. libFuzzer ends the process at the first other one, at an input that takes too
long, and when the process takes too much memory; what did it is left in a file whose path is printed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from pathlib import Path

import atheris

import lakeward

SECONDS_OF_AN_INPUT = 5
MEBIBYTES = 1024
"""The limit of the whole process, which has some 400 with its libraries."""
BYTES_OF_AN_INPUT = 64 * 1024

LAKEWARD = Path(lakeward.__file__).parent


def compiled_modules() -> list[str]:
    """Modules with compiled kernels, which cannot be instrumented."""
    sources = (path for path in LAKEWARD.rglob("*.py") if "from lakeward.base.kernel import" in path.read_text())
    return [".".join(path.relative_to(LAKEWARD.parent).with_suffix("").parts) for path in sources]


def main() -> None:
    # libFuzzer looks at the peak of the process, which a program inherits from what started it: a pytest process of
    # more than a gigabyte would end each target at once. A child that is forked begins its own count.
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    with atheris.instrument_imports(include=["lakeward"], exclude=compiled_modules()):
        target = importlib.import_module(f"tests.fuzz.{arguments.target}")
    folder = Path(tempfile.mkdtemp(prefix=f"lakeward-fuzz-{arguments.target}-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(target.corpus()):
        (corpus / f"{number:03}").write_bytes(data)
        target.one_input(data)  # compiles what has to be compiled, before anybody looks at the clock
    options = [
        f"-max_total_time={arguments.seconds}",
        f"-seed={arguments.seed}",
        f"-timeout={SECONDS_OF_AN_INPUT}",
        f"-rss_limit_mb={MEBIBYTES}",
        f"-max_len={BYTES_OF_AN_INPUT}",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
