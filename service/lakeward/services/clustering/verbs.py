"""The verbs of clustering."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "cluster",
        "services.cluster_command:cluster",
        "/data/orders --dry-run",
        has_exit_code=True,
        panel="Service a table",
        of=("rollback",),
    ),
)

ROUND_VIEW = "lakeward.cli.services.cluster_command:in_round"
