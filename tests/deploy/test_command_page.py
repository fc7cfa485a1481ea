"""The reference of the command line is what help prints."""

from __future__ import annotations

from deploy.command_page import PAGE, page, stored
from lakeward.cli.verb_help import STORED


def test_the_page_is_what_help_prints() -> None:
    """Remade by `make command-page`."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_what_is_stored_is_what_verbs_say() -> None:
    """Keeps of cli/verb_help. Remade by `make command-page`."""
    assert STORED.read_text(encoding="utf-8") == stored()
