"""The verbs of indexing."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (
    Verb(
        "index",
        help="Indexes, which know where record keys are: list, build, look up, verify, compare, remove.",
        verbs=(
            Verb("build", "index.build_command:build", "/data/orders --type record", of=("metadata",)),
            Verb("update", "index.build_command:update", "/data/orders --type record", of=("metadata",)),
            Verb("changes", "index.changes_command:changes", "/data/orders"),
            Verb("compare", "index.compare_command:compare", "/data/orders --type simple --type bloom"),
            Verb("inserts", "index.inserts_command:inserts", "/data/orders --into-logs"),
            Verb("list", "index.list_command:list_indexes", "/data/orders"),
            Verb("lookup", "index.lookup_command:lookup", "/data/orders key1 key2"),
            Verb("migrate", "index.migrate_command:migrate", "/data/orders --from simple --to record"),
            Verb("rebuild", "index.rebuild_command:rebuild", "/data/orders --type record", of=("metadata",)),
            Verb("drop", "index.rebuild_command:drop", "/data/orders --type record", of=("metadata",)),
            Verb("strip-tails", "services.strip_tails_command:strip_tails", "/data/orders --dry-run"),
            Verb("tails", "index.tails_command:tails", "/data/orders --auto"),
            Verb("tee", "index.tee_command:tee", "/data/orders --primary simple --shadow bloom"),
            Verb("cut-over", "index.tee_command:cut_over", "/data/orders --after-clean 100"),
            Verb("verify", "index.verify_command:verify", "/data/orders --type record"),
        ),
        panel="Parts of a table, and of Lakeward",
    ),
)
