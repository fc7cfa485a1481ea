"""The reference of the command line is what help prints."""

from __future__ import annotations

from deploy.command_page import PAGE, page


def test_the_page_is_what_help_prints() -> None:
    """Remade by `make command-page`."""
    assert PAGE.read_text(encoding="utf-8") == page()
