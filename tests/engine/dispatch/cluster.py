"""A standalone Spark cluster of the installed PySpark on the loopback: a master, and workers that can be killed.

Its processes have nothing of Lakeward in their environment, so that executors find only what an application sends them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark

from lakeward.engine.dispatch.java import ensure_java
from tests.servers import Server

SPARK_HOME = os.path.dirname(pyspark.__file__)
TIMEOUT_SECONDS = 60.0


class Daemon:
    """A process of the cluster, with what it says."""

    def __init__(self, local: Path, *words: str) -> None:
        """
        Args:
            local: the folder for what executors fetch.
        """
        kept = ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "TMPDIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._process = subprocess.Popen(
            [os.path.join(SPARK_HOME, "bin", "spark-class"), *words],
            env=environment | {"SPARK_HOME": SPARK_HOME, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(local)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self.lines.append(line)
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()

    def wait_for(self, pattern: str, *, times: int = 1) -> re.Match[str]:
        """The last of so many matches in what it says."""

        def found() -> list[re.Match[str]]:
            return [match for line in self.lines if (match := re.search(pattern, line))]

        with self._more:
            self._more.wait_for(lambda: len(found()) >= times or self._ended, TIMEOUT_SECONDS)
            assert len(found()) >= times, f"{pattern} is not in:\n{''.join(self.lines)}"
            return found()[times - 1]

    def tree(self) -> list[psutil.Process]:
        """It and the processes below it."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        return []

    def kill(self) -> None:
        """With -9, and nothing else: what is below it sees to itself."""
        self._process.kill()
        self._process.wait()


class Cluster(Server):
    """Each worker has one core, and a folder of its own below `folder`."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._known: list[psutil.Process] = []
        self._workers: dict[Path, Daemon] = {}
        self._registered = 0
        ensure_java()
        ui = ("--webui-port", "0")
        self._master = Daemon(
            folder, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", *ui
        )
        self._workers_wanted = workers

    def _start(self) -> None:
        self.url = self._master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        self._master.wait_for("New state: ALIVE")
        self.fill()

    def fill(self) -> None:
        """Start workers in the place of those that were killed."""
        while len(self._workers) < self._workers_wanted:
            self._registered += 1
            folder = self._folder / f"worker-{self._registered}"
            size = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
            words = ("--host", "127.0.0.1", *size, "--work-dir", str(folder), self.url)
            self._workers[folder] = Daemon(self._folder, "org.apache.spark.deploy.worker.Worker", *words)
        self._master.wait_for("Registering worker", times=self._registered)

    def kill_worker(self, place: Path) -> list[psutil.Process]:
        """Kill the worker in whose folder `place` is. Returns it and what was below it."""
        folder = next(folder for folder in self._workers if place.is_relative_to(folder))
        worker = self._workers.pop(folder)
        tree = worker.tree()
        self._known += tree
        worker.kill()
        return tree

    def stop(self) -> None:
        for daemon in (*self._workers.values(), self._master):
            self._known += daemon.tree()
        for process in self._known:
            with suppress(psutil.NoSuchProcess):
                process.kill()  # only where it is still the process that was seen
        psutil.wait_procs(self._known, timeout=TIMEOUT_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)  # each executor has unpacked half a GB of packages
