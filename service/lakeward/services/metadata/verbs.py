"""The verbs of metadata."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "metadata",
        help="The table's metadata table: compact it, clean it, remove it or one partition.",
        verbs=(
            Verb("compact", "services.metadata_commands:compact", "/data/orders --writers stopped", has_exit_code=True),
            Verb("clean", "services.metadata_commands:clean", "/data/orders --dry-run", has_exit_code=True),
            Verb("disable", "services.metadata_commands:disable", "/data/orders --dry-run"),
            Verb("drop", "services.metadata_commands:drop", "/data/orders column_stats --dry-run"),
            Verb(
                "rebuild",
                help="It only removes a partition; the next Hudi writer whose options keep it rebuilds it.",
                now="metadata drop TABLE PARTITION",
            ),
            Verb("abort-indexing", "services.metadata_commands:abort_indexing", "/data/orders --dry-run"),
        ),
        panel="Parts of a table, and of Lakeward",
    ),
)

ROUND_VIEW = "lakeward.cli.services.metadata_view:in_round"
