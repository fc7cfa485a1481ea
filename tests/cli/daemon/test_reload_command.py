"""`lakeward reload` where no daemon hears it; one that does is in tests/daemon/test_app.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.config.listen_address import local_address


def test_no_daemon_answers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It fails, says where the daemon was looked for, and how its process is found."""
    config = tmp_path / "lakeward.toml"
    config.write_text('[service]\nlisten = "127.0.0.1:1"\n')
    assert run(["reload", "--config", str(config)]) == 1
    err = capfd.readouterr().err
    assert "No daemon answers at 127.0.0.1:1." in err and "pgrep -af" in err


def test_a_broken_file_is_shown_before_a_daemon_is_asked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with the line, as `config check` has it."""
    config = tmp_path / "lakeward.toml"
    config.write_text('[service]\nlisten = "127.0.0.1:1"\ngrace = "often"\n')
    assert run(["reload", "--config", str(config)]) == 2
    assert "lakeward.toml:3:1" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:8490", "127.0.0.1:8490"),
        ("0.0.0.0:8490", "127.0.0.1:8490"),
        ("[::]:1", "[::1]:1"),
        ("lake:8490", "lake:8490"),
    ],
)
def test_where_a_daemon_is_reached(listen: str, address: str) -> None:
    """What listens everywhere is reached at this machine's own address."""
    assert local_address(listen) == address
