"""`make release`: build all that a release consists of, and try each part where nothing else of this project is.

    1  dist/lakeward-VERSION.tar.gz, the sources; the wheel that they give has the files of the wheel from this folder
    2  dist/lakeward-VERSION-py3-none-any.whl, and the wheel with compiled kernels for machines like this one
    3  each wheel in an empty environment, with the packages of requirements-run.lock and no more: what README shows
    4  the commands of the Dockerfile, in an empty folder (`make image-dry-run`)

Nothing is uploaded, and no tag is set: docs/inside/releasing.md says what comes before and after.

    python -m deploy.release [--output FOLDER] [--without-image]

Touches: the output; temporary folders, removed at the end; the package index, through pip.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.wheels import PROJECT, make_wheels
from tests.golden_tables import copy_golden
from tests.installed_wheel import Installed, install

LOCK = PROJECT / "requirements-run.lock"
TABLE, NEW = "trips", "orders"
SCHEMA = '{"type": "record", "name": "order", "fields": [{"name": "id", "type": "string"}]}'
README_COMMANDS = (
    ("--help",),
    ("--version",),
    ("warm",),
    ("warm", "--check"),
    ("inspect", TABLE),
    ("plan", TABLE, "--explain"),
    ("compact", TABLE, "--writers", "stopped"),
    ("explain", TABLE),
    ("verify", TABLE),
    ("doctor", TABLE),
    ("read", TABLE),
    ("read", TABLE, "--count", "--explain"),
    ("read", TABLE, "--output", "rows.parquet"),
    ("clean", TABLE, "--dry-run"),
    ("service", TABLE, "--dry-run"),
    ("table", "create", NEW, "--schema", "schema.avsc", "--record-key", "id"),
    ("write", NEW, "--input", "rows.jsonl", "--writers", "stopped"),
    (
        *("init", "--tables", ".", "--engine", "local", "--state", "state"),
        *("--listen", "127.0.0.1:0", "--writers", "stopped"),
    ),
    ("config", "check", "lakeward.toml"),
    ("run", "--config", "lakeward.toml", "--once"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--output", type=Path, default=PROJECT / "dist")
    parser.add_argument("--without-image", action="store_true", help="leave the commands of the Dockerfile out")
    arguments = parser.parse_args()
    output: Path = arguments.output.resolve()
    with tempfile.TemporaryDirectory(prefix="lakeward-release-") as name:
        scratch = Path(name)
        with step("sources and wheels"):
            sources = make_sources(output)
            wheels = make_wheels(output)
            check_sources(sources, wheels[0], scratch)
        with step("an environment of the locked packages"):
            packages = make_environment(scratch / "packages")
        for wheel in wheels:
            with step(f"commands of README.md, from {wheel.name} alone"):
                try_commands(wheel, scratch / wheel.stem, packages)
    if not arguments.without_image:
        with step("the commands of the Dockerfile"):
            subprocess.run([sys.executable, "-m", "deploy.image_dry_run"], cwd=PROJECT, check=True)
    for made in (sources, *wheels):
        print(f"{made} ({made.stat().st_size / 1e6:.1f} MB) sha256 {hashlib.sha256(made.read_bytes()).hexdigest()}")
    print("Nothing was uploaded, and no tag was set.")
    return 0


def make_sources(output: Path) -> Path:
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("lakeward-*.tar.gz"):
        old.unlink()
    build = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(output), str(PROJECT)]
    subprocess.run(build, stdout=sys.stderr, check=True)
    (sources,) = output.glob("lakeward-*.tar.gz")
    return sources


def check_sources(sources: Path, wheel: Path, scratch: Path) -> None:
    """The wheel that pip makes of the sources has the files that the released one has, byte for byte."""
    folder = scratch / "from-sources"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(sources)], stdout=sys.stderr, check=True)
    (made,) = folder.glob("*.whl")
    assert files_of(made) == files_of(wheel), "the wheel from the sources is another one"


def files_of(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as files:
        return {each.filename: each.CRC for each in files.infolist() if not each.filename.endswith("RECORD")}


def make_environment(folder: Path) -> Path:
    """The packages that a wheel asks for, each checked by its hash, and nothing else. Returns where they lie."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--use-pep517", "--require-hashes"]
    subprocess.run([*pip, "--requirement", str(LOCK)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return packages


def try_commands(wheel: Path, folder: Path, packages: Path) -> None:
    installed = install(wheel, folder / "environment", lent=packages)
    copy_golden("v9", folder / TABLE)
    (folder / "schema.avsc").write_text(SCHEMA)
    (folder / "rows.jsonl").write_text('{"id": "a"}\n')
    for command in README_COMMANDS:
        began = time.monotonic()
        run_command(installed, command, folder)
        print(f"   lakeward {' '.join(command)}: {time.monotonic() - began:.1f} s", flush=True)


def run_command(installed: Installed, command: tuple[str, ...], folder: Path) -> None:
    environment = {name: value for name, value in installed.environment.items() if not name.startswith("LAKEWARD")}
    # Of the caller's folder and packages nothing may be found.
    environment["PATH"] = f"{installed.command.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [installed.command, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"lakeward {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


@contextmanager
def step(name: str) -> Iterator[None]:
    print(f"-- {name}", flush=True)
    began = time.monotonic()
    yield
    print(f"   {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    if (
        shutil.which("git")
        and subprocess.run(["git", "status", "--porcelain"], cwd=PROJECT, capture_output=True).stdout
    ):
        print("The working tree has changes that are not committed: they are in what is built.")
    sys.exit(main())
