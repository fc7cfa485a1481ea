"""The verbs of savepoint."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "savepoint",
        help="Savepoints, commits that the table can be restored to: create them, list what they keep, delete them.",
        verbs=(
            Verb("create", "services.savepoint_commands:create", "/data/orders --writers stopped"),
            Verb("delete", "services.savepoint_commands:delete", "/data/orders 20260101120000000 --writers stopped"),
            Verb("list", "services.savepoint_commands:list_savepoints", "/data/orders"),
        ),
        panel="Parts of a table, and of Lakeward",
    ),
)
