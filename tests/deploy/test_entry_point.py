"""The container's entry point as a plain process: ENTRYPOINT, CMD, ENV, HEALTHCHECK and STOPSIGNAL of the Dockerfile.

Paths of the image stand for paths of this machine: /opt/lakeward for a folder with this
Python as `python` and `lakeward`, /var/lib/lakeward and /tmp for empty folders.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.dockerfile import DOCKERFILE, ancestry, read_stages
from tests.deploy.tools import PROJECT

STAGES = read_stages(DOCKERFILE.read_text())
DAEMON = STAGES[-1]
TIMEOUT_SECONDS = 120.0

CONFIGURATION = """\
[service]
listen = "127.0.0.1:{port}"
grace = "5s"

[discovery]
roots = ["{data}"]
"""


class Image:
    """The daemon's stage with its paths under `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("opt/lakeward/bin", "var/lib/lakeward", "tmp", "etc/lakeward", "data"):
            (root / folder).mkdir(parents=True)
        source = os.pathsep.join([str(PROJECT / "service"), *filter(None, [os.environ.get("PYTHONPATH")])])
        for name, words in {"python": '"$@"', "lakeward": '-m lakeward.cli.main "$@"'}.items():
            program = root / "opt/lakeward/bin" / name
            program.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(source)} exec {sys.executable} {words}\n")
            program.chmod(0o755)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        (root / "etc/lakeward/lakeward.toml").write_text(CONFIGURATION.format(port=self.port, data=root / "data"))

    def moved(self, text: str) -> str:
        return re.sub(r"(?<![\w./-])/(?=(opt/lakeward|var/lib|etc/lakeward|tmp)\b)", f"{self.root}/", text)

    def environment(self) -> dict[str, str]:
        clean = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME", "LANG") if name in os.environ}
        for stage in ancestry(STAGES, DAEMON.name):
            for instruction in stage.all("ENV"):
                for pair in instruction.words:
                    name, _, value = self.moved(pair).partition("=")
                    clean[name] = value.replace("$PATH", clean["PATH"])
        # This Python brings its own Spark, wherever it lies.
        clean.pop("SPARK_HOME")
        return clean | {"TMPDIR": str(self.root / "tmp")}

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        command = [self.moved(word) for word in words]
        command[0] = str(self.root / "opt/lakeward/bin" / command[0])
        return subprocess.Popen(
            command,
            cwd=self.root / "var/lib/lakeward",
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def is_healthy(self) -> bool:
        _, _, command = DAEMON.last("HEALTHCHECK").text.partition("CMD ")
        words = [word.replace("8490", str(self.port)) for word in json.loads(command)]
        check = self.start(words)
        check.communicate(timeout=30)
        return check.returncode == 0


@pytest.mark.slow
def test_the_entry_point_starts_answers_and_stops(tmp_path: Path) -> None:
    """It is healthy by the image's own check, writes nowhere else, and the stop signal ends it within the grace."""
    image = Image(tmp_path)
    checked = image.start(["lakeward", "warm"])
    assert "kernels are in" in checked.communicate(timeout=300)[0]

    daemon = image.start([*DAEMON.last("ENTRYPOINT").words, *DAEMON.last("CMD").words])
    try:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not image.is_healthy():
            if daemon.poll() is not None or time.monotonic() > end:
                daemon.kill()
                pytest.fail(f"It did not become healthy:\n{daemon.communicate()[0]}")
            time.sleep(0.2)
        daemon.send_signal(signal.Signals[DAEMON.last("STOPSIGNAL").text])
        printed, _ = daemon.communicate(timeout=30)
    finally:
        daemon.kill()
        daemon.wait()
    assert daemon.returncode == 0, printed
    assert (tmp_path / "var/lib/lakeward/lakeward.db").exists()
    written = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert written <= {"opt", "etc", "var", "tmp"}
