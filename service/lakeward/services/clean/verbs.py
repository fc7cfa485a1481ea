"""The verbs of clean."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "clean",
        "services.clean_command:clean",
        "/data/orders --retain 10 --dry-run",
        has_exit_code=True,
        panel="Service a table",
    ),
    Verb(
        "quarantine",
        help="Files that were set aside: list them, restore them, delete them for good; and orphan files, to set "
        "them aside.",
        verbs=(
            Verb("list", "services.quarantine_commands:list_runs", "/data/orders"),
            Verb("restore", "services.quarantine_commands:restore", "/data/orders 20260101120000000 --dry-run"),
            Verb("purge", "services.quarantine_commands:purge", "/data/orders --older-than 7d --dry-run"),
            Verb("orphans", "services.quarantine_commands:orphans", "/data/orders --dry-run"),
        ),
        panel="Parts of a table, and of Lakeward",
        of=("metadata",),
    ),
    Verb(
        "orphans",
        help="With --dry-run it lists them, as `orphans list` did; without, it sets them aside.",
        now="quarantine orphans TABLE",
        panel="Parts of a table, and of Lakeward",
    ),
)

ROUND_VIEW = "lakeward.cli.services.clean_view:in_round"
