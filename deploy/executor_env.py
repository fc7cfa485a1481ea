"""`make executor-env`: the packages that executors need, as an archive for `spark.archives`.

It holds what `requirements-run.lock` names, by hash, and this package with its compiled kernels, without Spark itself,
which executors have.
Python is not in it: the machines need the same minor version, architecture and C library as the one that packs.

    python -m deploy.executor_env [--output FILE] [--with PACKAGE]

Touches: the output; a temporary folder; the package index, through pip.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from deploy.wheels import compile_into

PROJECT = Path(__file__).parent.parent
ARCHIVE = PROJECT / "dist" / "lakeward-executor-env.tar.gz"
SPARK = ("py4j", "pyspark")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make executor-env", description=__doc__)
    parser.add_argument("--output", type=Path, default=ARCHIVE)
    parser.add_argument("--with", dest="more", action="append", default=[], metavar="PACKAGE")
    arguments = parser.parse_args()
    output: Path = arguments.output.resolve()
    with tempfile.TemporaryDirectory(prefix="lakeward-executor-env-") as folder:
        packages, lock = Path(folder, "packages"), Path(folder, "executor.lock")
        lock.write_text(without((PROJECT / "requirements-run.lock").read_text(), SPARK))
        install("--target", str(packages), "--no-deps", "--require-hashes", "--requirement", str(lock))
        install("--target", str(packages), "--no-deps", "--no-build-isolation", str(PROJECT))
        if arguments.more:  # for example one that has a hash of the operator's own
            install("--target", str(packages), "--no-deps", *arguments.more)
        compile_into(packages)
        output.parent.mkdir(parents=True, exist_ok=True)
        # At level 6 it is an eighth smaller, and takes three times as long.
        with tarfile.open(output, "w:gz", compresslevel=1) as archive:
            for path in sorted(packages.iterdir()):
                archive.add(path, path.name, filter=lambda member: None if "__pycache__" in member.name else member)
    version = ".".join(map(str, sys.version_info[:2]))
    print(f"{output} ({output.stat().st_size / 1e6:.0f} MB) is for executors with Python {version}.")
    return 0


def without(lock: str, names: tuple[str, ...]) -> str:
    """The lock file without these packages."""
    entries = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)
    return "".join(entry for entry in entries if entry.split("==")[0] not in names)


def install(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
