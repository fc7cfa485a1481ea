"""A Lakeward that stays, as a daemon does: compacts one table after the other in one process.

    stdin   {"table": PATH}, a line each
    stdout  {"seconds": …}, when it is compacted

Touches: the tables; standard error, where the commands say what they do.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from lakeward.cli.main import run


class WarmLakeward:
    """That process, seen from the demo's."""

    def __init__(self, log: Path) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deploy.demo.warm"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def begin(self, table: Path) -> None:
        """Have it compacted; `ended` waits for that."""
        print(json.dumps({"table": str(table)}), file=self._pipe(self._process.stdin), flush=True)

    def ended(self) -> float:
        """The seconds that it took."""
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"the process that compacts ended with {self._process.wait()}")
        return float(json.loads(line)["seconds"])

    def leave(self) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None, "it was asked for"
        return pipe


def main() -> int:
    for line in sys.stdin:
        # Of the metadata table Hudi's own compaction does nothing either.
        words = ["compact", json.loads(line)["table"], "--type", "full", "--writers", "stopped"]
        begin = time.perf_counter()
        with contextlib.redirect_stdout(sys.stderr):
            if code := run([*words, "--no-metadata-services"]):
                return code
        print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
