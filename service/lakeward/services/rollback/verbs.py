"""The verbs of rollback."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (Verb("rollback", "services.rollback_command:rollback", "/data/orders --dry-run", panel="Service a table"),)

ROUND_VIEW = "lakeward.cli.services.rollback_command:in_round"
