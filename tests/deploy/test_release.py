"""What `make release` tries is what README shows."""

from __future__ import annotations

import re

from deploy.release import README_COMMANDS
from tests.deploy.tools import PROJECT

NEEDS_A_DAEMON = {"reload", "status"}


def test_each_verb_that_readme_shows_is_tried() -> None:
    """`make release` runs them from the wheel alone; a verb that comes into README comes into the release."""
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    verbs = set(re.findall(r"(?:`|^ *)lakeward ([a-z]+)\b", readme, re.MULTILINE))
    assert {"inspect", "plan", "compact", "read"} <= verbs
    assert verbs - {command[0] for command in README_COMMANDS} == NEEDS_A_DAEMON
