"""The verbs of archive."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "archive",
        "services.archive_command:archive",
        "/data/orders --dry-run",
        has_exit_code=True,
        panel="Service a table",
    ),
)

ROUND_VIEW = "lakeward.cli.services.archive_command:in_round"
