"""The demo where Hudi cannot be fetched; with Hudi it is what `make demo` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo.__main__ import demo_with_shipped_table


@pytest.mark.slow
def test_the_shipped_table_stands_in(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It says so, compacts the table that ships with the tests, and finds the rows that Hudi had found."""
    assert demo_with_shipped_table(tmp_path) == 0
    printed = capfd.readouterr().out
    assert "stands in" in printed
    assert "The same rows." in printed
