"""Every verb of the command line by panels: its name, the first sentence of its help, its place, and an example.

Touches: nothing; the module of a verb is loaded by the frame (`verb_group`) when the verb is called.
Keeps:   what is said of a verb here is what the verb says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated

import typer

from lakeward.cli.verb_group import Verb, new_group

PANELS: Mapping[str, tuple[Verb, ...]] = {
    "Look at a table": (
        Verb(
            "inspect",
            "Show version, layout, timeline, file groups, pending work, and what would be refused.",
            "lakeward.cli.inspect_command:inspect",
            example="/data/orders",
        ),
        Verb(
            "plan",
            "Say what compact would do now, with --config what the daemon would: the operations, what they "
            "would cost, and why not the others.",
            "lakeward.cli.plan_command:plan",
            example="/data/orders --explain",
        ),
        Verb(
            "explain",
            "Explain for each file group in one sentence what would happen to it, why, and when that would "
            "change; and what holds the table's storage and its timeline.",
            "lakeward.cli.explain_command:explain",
            example="/data/orders",
        ),
        Verb(
            "verify",
            "Check a table and its metadata table against its files.",
            "lakeward.cli.verify_command:verify",
            example="/data/orders",
        ),
    ),
    "Service a table": (
        Verb(
            "service",
            "Recover a table, roll failed writes back, compact it, clean and archive it: all there is to "
            "do, in this order.",
            "lakeward.cli.services.service_command:service",
            example="/data/orders --writers stopped",
            has_exit_code=True,
        ),
        Verb(
            "compact",
            "Finish pending compactions, then plan and carry out a new one.",
            "lakeward.cli.services.compact_command:compact",
            example="/data/orders --writers stopped",
            has_exit_code=True,
        ),
        Verb(
            "clean",
            "Delete old file slices that no query, plan or savepoint needs any more, by Hudi's rules.",
            "lakeward.cli.services.clean_command:clean",
            example="/data/orders --retain 10 --dry-run",
            has_exit_code=True,
        ),
        Verb(
            "archive",
            "Move the oldest commits, cleans and rollbacks from the active timeline into the archive, as "
            "Hudi's writers do.",
            "lakeward.cli.services.archive_command:archive",
            example="/data/orders --dry-run",
            has_exit_code=True,
        ),
        Verb(
            "rollback",
            "Roll back writes whose writer died: delete their files, their part of the metadata table, and "
            "their instants.",
            "lakeward.cli.services.rollback_command:rollback",
            example="/data/orders --dry-run",
        ),
        Verb(
            "unschedule",
            "Remove a pending compaction that Lakeward planned.",
            "lakeward.cli.services.unschedule_command:unschedule",
            example="/data/orders --writers stopped",
        ),
        Verb(
            "restore",
            "Take the table back to a commit.",
            "lakeward.cli.services.restore_command:restore",
            example="/data/orders --to 20260101120000000 --dry-run",
        ),
        Verb(
            "write",
            "Write rows into a table, as one commit that Hudi's readers and writers can continue from.",
            "lakeward.cli.write_command:write",
            example="/data/orders --input rows.parquet --writers stopped",
        ),
    ),
    "The daemon": (
        Verb(
            "run",
            "Watch all configured tables, decide per file group, compact, and show it, until stopped.",
            "lakeward.cli.daemon.run_command:run",
            example="--config lakeward.toml",
        ),
        Verb(
            "reload",
            "Let the daemon on this machine reload its configuration.",
            "lakeward.cli.daemon.reload_command:reload",
            example="--config lakeward.toml",
        ),
        Verb(
            "pause",
            "Start nothing new for a table, a group of tables or one file group.",
            "lakeward.cli.daemon.control_commands:pause",
            example="orders --reason maintenance --for 2h",
        ),
        Verb(
            "resume",
            "End a pause, release what is parked, and let a table in shadow be serviced again.",
            "lakeward.cli.daemon.control_commands:resume",
            example="orders",
        ),
        Verb(
            "cancel",
            "Stop what runs; nothing half-done stays visible.",
            "lakeward.cli.daemon.control_commands:cancel",
            example="orders --reason maintenance",
        ),
        Verb(
            "jobs",
            "Show what the daemons run and ran.",
            "lakeward.cli.daemon.history_commands:jobs",
            example="orders",
        ),
        Verb(
            "events",
            "Show what happened, the newest first.",
            "lakeward.cli.daemon.history_commands:events",
            example="orders --limit 20",
        ),
        Verb(
            "config",
            "The daemon's configuration: check it, show the effective values.",
            verbs=(
                Verb(
                    "check",
                    "Say everything that is wrong with a configuration, each with its line.",
                    "lakeward.cli.daemon.config_commands:check",
                    example="lakeward.toml",
                ),
                Verb(
                    "show",
                    "Print the effective configuration: defaults, file, environment and flags.",
                    "lakeward.cli.daemon.config_commands:show",
                    example="lakeward.toml",
                ),
                Verb(
                    "schema",
                    "Print the JSON schema of the configuration file, for editors.",
                    "lakeward.cli.daemon.config_commands:schema",
                    example="",
                ),
            ),
        ),
        Verb(
            "state",
            "The daemon's store: its schema, and filling it again.",
            verbs=(
                Verb(
                    "status",
                    "Show which schema the store has and whether this release may use it.",
                    "lakeward.cli.daemon.state_commands:show_status",
                    example="--config lakeward.toml",
                ),
                Verb(
                    "migrate",
                    "Bring the store to this release's schema.",
                    "lakeward.cli.daemon.state_commands:bring_forward",
                    example="--config lakeward.toml",
                ),
                Verb(
                    "rebuild",
                    "Fill the store again from the timelines: after it was lost or damaged, or when an old backup "
                    "came back.",
                    "lakeward.cli.daemon.state_commands:rebuild",
                    example="--config lakeward.toml",
                ),
            ),
        ),
    ),
    "Parts of a table, and of Lakeward": (
        Verb(
            "table",
            "Tables: create one, change its version or layout.",
            verbs=(
                Verb(
                    "create",
                    "Make a new table, without rows.",
                    "lakeward.cli.table_commands:create",
                    example="/data/orders --like rows.parquet --record-key id",
                ),
                Verb(
                    "upgrade",
                    "Give a table of version 9 the version 10, in which new logs are files of the base files' format.",
                    "lakeward.cli.services.change_commands:upgrade",
                    example="/data/orders --to 10 --dry-run",
                ),
                Verb(
                    "downgrade",
                    "Give a table of version 10 the version 9, so that released Hudi reads it and writes on.",
                    "lakeward.cli.services.change_commands:downgrade",
                    example="/data/orders --to 9 --dry-run",
                ),
                Verb(
                    "convert",
                    "Give a table of version 10 another layout.",
                    "lakeward.cli.services.change_commands:convert",
                    example="/data/orders --layout lsm_tree --dry-run",
                ),
            ),
        ),
        Verb(
            "metadata",
            "The table's metadata table: compact it, clean it, remove it or one partition.",
            verbs=(
                Verb(
                    "compact",
                    "Merge the logs of the metadata table into new base files, all of its partitions together.",
                    "lakeward.cli.services.metadata_commands:compact",
                    example="/data/orders --writers stopped",
                    has_exit_code=True,
                ),
                Verb(
                    "clean",
                    "Delete the files of the metadata table that its compactions replaced and no reader can need "
                    "any more.",
                    "lakeward.cli.services.metadata_commands:clean",
                    example="/data/orders --dry-run",
                    has_exit_code=True,
                ),
                Verb(
                    "disable",
                    "Remove the whole metadata table: readers list the storage.",
                    "lakeward.cli.services.metadata_commands:disable",
                    example="/data/orders --dry-run",
                ),
                Verb(
                    "drop",
                    "Remove one partition of the metadata table, for example because it is wrong.",
                    "lakeward.cli.services.metadata_commands:drop",
                    example="/data/orders column_stats --dry-run",
                ),
                Verb(
                    "rebuild",
                    "It only removes a partition; the next Hudi writer whose options keep it rebuilds it.",
                    now="metadata drop TABLE PARTITION",
                ),
                Verb(
                    "abort-indexing",
                    "End an indexing that was begun and whose process is gone: delete what it was building, and its "
                    "plan.",
                    "lakeward.cli.services.metadata_commands:abort_indexing",
                    example="/data/orders --dry-run",
                ),
            ),
        ),
        Verb(
            "index",
            "Indexes, which know where record keys are: list, build, look up, verify, compare, remove.",
            verbs=(
                Verb(
                    "build",
                    "Build an index of a table from its rows.",
                    "lakeward.cli.index.build_command:build",
                    example="/data/orders --type record",
                ),
                Verb(
                    "update",
                    "Take in what was committed since, in the order in which it completed.",
                    "lakeward.cli.index.build_command:update",
                    example="/data/orders --type record",
                ),
                Verb(
                    "changes",
                    "List which record keys each commit added to which file group, and which it removed.",
                    "lakeward.cli.index.changes_command:changes",
                    example="/data/orders",
                ),
                Verb(
                    "compare",
                    "Ask two indexes for the same keys: which answers differ, which of them are right, and what "
                    "each takes.",
                    "lakeward.cli.index.compare_command:compare",
                    example="/data/orders --type simple --type bloom",
                ),
                Verb(
                    "list",
                    "List the indexes of a table: coverage, commits behind, size.",
                    "lakeward.cli.index.list_command:list_indexes",
                    example="/data/orders",
                ),
                Verb(
                    "lookup",
                    "Show in which partition and file group each record key is, and which commit put it there.",
                    "lakeward.cli.index.lookup_command:lookup",
                    example="/data/orders key1 key2",
                ),
                Verb(
                    "migrate",
                    "Copy an existing index into a Lakeward index, once; the existing one stays.",
                    "lakeward.cli.index.migrate_command:migrate",
                    example="/data/orders --from simple --to record",
                ),
                Verb(
                    "rebuild",
                    "Rebuild an index of Lakeward's own, because it is wrong or damaged.",
                    "lakeward.cli.index.rebuild_command:rebuild",
                    example="/data/orders --type record",
                ),
                Verb(
                    "drop",
                    "Remove an index.",
                    "lakeward.cli.index.rebuild_command:drop",
                    example="/data/orders --type record",
                ),
                Verb(
                    "tee",
                    "Try a second index (the shadow) beside the one that writes use (the primary): each write "
                    "updates both, and their answers are compared.",
                    "lakeward.cli.index.tee_command:tee",
                    example="/data/orders --primary simple --shadow bloom",
                ),
                Verb(
                    "cut-over",
                    "Make the shadow index the primary, and the primary the shadow; or back, in one step.",
                    "lakeward.cli.index.tee_command:cut_over",
                    example="/data/orders --after-clean 100",
                ),
                Verb(
                    "verify",
                    "Look rows up in an index, and its entries up among the rows; exit 6, and out of use, if the "
                    "index is wrong.",
                    "lakeward.cli.index.verify_command:verify",
                    example="/data/orders --type record",
                ),
            ),
        ),
        Verb(
            "savepoint",
            "Savepoints, commits that the table can be restored to: create them, list what they keep, delete them.",
            verbs=(
                Verb(
                    "create",
                    "Keep all files as of a commit, until the savepoint is deleted.",
                    "lakeward.cli.services.savepoint_commands:create",
                    example="/data/orders --writers stopped",
                ),
                Verb(
                    "delete",
                    "Delete a savepoint.",
                    "lakeward.cli.services.savepoint_commands:delete",
                    example="/data/orders 20260101120000000 --writers stopped",
                ),
                Verb(
                    "list",
                    "Show the savepoints, Hudi's too, with the bytes that only each keeps: no reader of the newest "
                    "rows reads them.",
                    "lakeward.cli.services.savepoint_commands:list_savepoints",
                    example="/data/orders",
                ),
            ),
        ),
        Verb(
            "quarantine",
            "Files that were set aside: list them, restore them, delete them for good; and orphan files, to set them "
            "aside.",
            verbs=(
                Verb(
                    "list",
                    "List what was set aside, by each clean and each search for orphan files, and until when it stays.",
                    "lakeward.cli.services.quarantine_commands:list_runs",
                    example="/data/orders",
                ),
                Verb(
                    "restore",
                    "Put everything back that one clean or one search for orphan files set aside.",
                    "lakeward.cli.services.quarantine_commands:restore",
                    example="/data/orders 20260101120000000 --dry-run",
                ),
                Verb(
                    "purge",
                    "Delete for good the files of the quarantine that are due.",
                    "lakeward.cli.services.quarantine_commands:purge",
                    example="/data/orders --older-than 7d --dry-run",
                ),
                Verb(
                    "orphans",
                    "Find orphan files, data files of failed attempts that no instant owns; set them aside once two "
                    "searches agree.",
                    "lakeward.cli.services.quarantine_commands:orphans",
                    example="/data/orders --dry-run",
                ),
            ),
        ),
        Verb(
            "orphans",
            "With --dry-run it lists them, as `orphans list` did; without, it sets them aside.",
            now="quarantine orphans TABLE",
        ),
        Verb(
            "warm",
            "Compile Lakeward's kernels, once on a machine, so that no command has to.",
            "lakeward.cli.install_commands:warm",
            example="",
        ),
        Verb(
            "version",
            "Print the versions of Lakeward and of what must agree on every machine.",
            "lakeward.cli.install_commands:version",
            example="",
        ),
        Verb(
            "help",
            "Explain a verb; with `options`, the options that many verbs share.",
            "lakeward.cli.help_command:help_on",
            example="metadata compact",
        ),
    ),
}

app = new_group(
    "Table services for Apache Hudi tables: inspect a table, compact, clean and archive it, go back, and know why.",
    PANELS,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"lakeward {version('lakeward')}")
        raise typer.Exit


@app.callback()
def begin(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print Lakeward's version and exit."),
    ] = False,
) -> None:
    """Nothing is done before a verb is."""
