"""The verbs of compaction."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "compact",
        "services.compact_command:compact",
        "/data/orders --writers stopped",
        has_exit_code=True,
        panel="Service a table",
        of=("clean",),
    ),
    Verb(
        "unschedule",
        "services.unschedule_command:unschedule",
        "/data/orders --writers stopped",
        panel="Service a table",
    ),
)

ROUND_VIEW = "lakeward.cli.services.compact_command:in_round"
