"""A Spark Connect that refuses each URL and repeats it whole, as PySpark does with one that it cannot read.

Run as a script, it is `lakeward` in a process with that client.
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Builder:
    def __init__(self) -> None:
        self._url = ""

    def remote(self, url: str) -> _Builder:
        self._url = url
        return self

    def getOrCreate(self) -> None:  # PySpark's name
        raise ValueError(f"[INVALID_CONNECT_URL] Invalid URL for Spark Connect: {self._url}")


class _SparkSession:
    builder = _Builder()


def leaky_module() -> ModuleType:
    module = ModuleType("pyspark.sql.connect.session")
    module.SparkSession = _SparkSession  # type: ignore[attr-defined]
    return module


if __name__ == "__main__":
    sys.modules["pyspark.sql.connect.session"] = leaky_module()
    from lakeward.cli.main import main

    main()
