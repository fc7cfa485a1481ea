"""The unit: systemd's own check where it is installed, and what must stand in it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, run

UNIT = DEPLOY / "systemd" / "lakeward.service"


def test_systemd_understands_it(tmp_path: Path) -> None:
    """`systemd-analyze verify` accepts it, with a program that exists in place of Lakeward."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/lakeward/bin/lakeward", "/bin/true"))
    assert run("systemd-analyze", "verify", unit).strip() == ""


def test_kernels_are_compiled_before_the_daemon_starts() -> None:
    """The configuration is checked first; kernels that cannot be kept are no reason not to start."""
    before = re.findall(r"^ExecStartPre=(-?)\S*/lakeward (\w+)", UNIT.read_text(), re.MULTILINE)
    assert before == [("", "config"), ("-", "warm")]


def test_what_a_stop_and_a_restart_mean() -> None:
    """SIGTERM reaches the daemon alone, with more than the grace time; a refused configuration is not retried."""
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert settings["KillMode"] == "mixed"
    assert float(settings["TimeoutStopSec"].removesuffix("s")) > 60
    assert settings["RestartPreventExitStatus"] == "2"
    assert settings["User"] != "root"
    assert settings["ExecReload"].endswith("-HUP $MAINPID")
    # The JVM and the kernels need the first; the second would make live processes look dead.
    assert "MemoryDenyWriteExecute" not in settings and "ProtectProc" not in settings
