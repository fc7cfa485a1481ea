"""The verbs of partition TTL."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "ttl",
        "services.ttl_command:ttl",
        "/data/orders --keep 90d --dry-run",
        has_exit_code=True,
        panel="Service a table",
        of=("rollback",),
    ),
)

ROUND_VIEW = "lakeward.cli.services.ttl_command:in_round"
