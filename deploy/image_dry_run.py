"""`make image-dry-run`: carry out the Dockerfile's own commands in an empty folder. No image is built.

Of the stage that builds, everything runs as it is written, with /opt and /build under a temporary folder: the wheels
by their hashes, this package's wheel, the virtual environment, the compiled kernels. What the final stage checks is
then run with the environment that the Dockerfile gives it, as a user who may write nothing there; the entry point says
its version and makes a store. Not run: the distribution's packages (apt-get), the user's creation, Docker itself.

Touches: a temporary folder, removed at the end; the package index, through pip.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from deploy.dockerfile import DOCKERFILE, Instruction, ancestry, read_stages

PROJECT = DOCKERFILE.parent
NOBODY = 65534
NOT_HERE = ("apt-get ",)


def main() -> int:
    root = Path(tempfile.mkdtemp(prefix="lakeward-image-"))
    root.chmod(0o755)
    try:
        return dry_run(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def dry_run(root: Path) -> int:
    stages = read_stages(DOCKERFILE.read_text())
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NUMBA", "VIRTUAL_ENV"))
    }
    build = Steps(root, environment)
    (root / "build").mkdir()
    for instruction in next(stage for stage in stages if stage.name == "builder").instructions:
        build.carry_out(instruction)

    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o777)
    run = Steps(root, environment | {"TMPDIR": str(root / "tmp")}, reads_only=True)
    for stage in ancestry(stages, "daemon")[1:]:
        for instruction in stage.instructions:
            if instruction.keyword != "COPY":
                run.carry_out(instruction)
    daemon = stages[-1]
    entry = daemon.last("ENTRYPOINT").words
    run.execute([*entry, "version"])
    run.execute([*entry, "state", "migrate", "--url", f"sqlite:///{root}/tmp/lakeward.db"])
    print("All of it ran. That was a dry run: no image was built.")
    return 0


class Steps:
    """Carries instructions out under `root`, which stands for /."""

    def __init__(self, root: Path, environment: Mapping[str, str], *, reads_only: bool = False) -> None:
        self._root = root
        self._environment = dict(environment)
        self._reads_only = reads_only

    def carry_out(self, instruction: Instruction) -> None:
        if instruction.keyword == "ENV":
            for pair in instruction.words:
                name, _, value = self._moved(pair).partition("=")
                self._environment[name] = value.replace("$PATH", self._environment.get("PATH", ""))
        elif instruction.keyword == "COPY":
            *sources, target = instruction.words
            for source in sources:
                self._copy(PROJECT / source, self._root / "build" / target)
        elif instruction.keyword == "RUN":
            if instruction.text.startswith(NOT_HERE):
                print(f"-- not run here: {instruction.text[:90]} ...")
            elif instruction.text.startswith("["):
                self.execute(instruction.words)
            else:
                self.execute(["bash", "-o", "pipefail", "-c", instruction.text])

    def execute(self, command: list[str]) -> None:
        command = [self._moved(word) for word in command]
        print("--", " ".join(command)[:200], flush=True)
        begin = time.monotonic()
        # Root may write everywhere; the container's user may not, and neither may an unprivileged user.
        user = NOBODY if self._reads_only and nobody_can_run() else None
        folder = self._root / ("tmp" if self._reads_only else "build")
        command[0] = shutil.which(command[0], path=self._environment["PATH"]) or command[0]
        subprocess.run(command, cwd=folder, env=self._environment, user=user, group=user, check=True)
        print(f"   {time.monotonic() - begin:.1f} s", flush=True)

    def _moved(self, text: str) -> str:
        moved = re.sub(r"(?<![\w./-])/(?=(opt|tmp)/)", f"{self._root}/", text)
        return moved.replace("python3.11 -m venv", f"{sys.executable} -m venv")

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        if source.is_dir():
            # As .dockerignore has it.
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.py[cod]", "compiled"))
        else:
            shutil.copy2(source, target / source.name if target.is_dir() else target)


@functools.cache
def nobody_can_run() -> bool:
    if os.geteuid() != 0:
        return False
    python = Path(sys.executable).resolve()
    try:
        subprocess.run([python, "-c", ""], cwd="/", user=NOBODY, group=NOBODY, check=True, capture_output=True)
    except (PermissionError, subprocess.CalledProcessError):
        print(f"   {python} cannot be run without privileges: what follows runs as root, who may write everywhere.")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
