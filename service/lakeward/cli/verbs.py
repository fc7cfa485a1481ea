"""Every verb of the command line by panels: its name, its place, and an example.

Touches: nothing; the module of a verb is loaded by the frame (`verb_group`) when the verb is called.
Keeps:   each verb is where the list says, and has a first sentence for the lists of help.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated

import typer

from lakeward.cli.verb_group import Verb, new_group

PANELS: Mapping[str, tuple[Verb, ...]] = {
    "Look at a table": (
        Verb("inspect", "inspect_command:inspect", "/data/orders"),
        Verb("plan", "plan_command:plan", "/data/orders --explain"),
        Verb("explain", "explain_command:explain", "/data/orders"),
        Verb("verify", "verify_command:verify", "/data/orders"),
    ),
    "Service a table": (
        Verb("service", "services.service_command:service", "/data/orders --writers stopped", has_exit_code=True),
        Verb("compact", "services.compact_command:compact", "/data/orders --writers stopped", has_exit_code=True),
        Verb("clean", "services.clean_command:clean", "/data/orders --retain 10 --dry-run", has_exit_code=True),
        Verb("archive", "services.archive_command:archive", "/data/orders --dry-run", has_exit_code=True),
        Verb("rollback", "services.rollback_command:rollback", "/data/orders --dry-run"),
        Verb("unschedule", "services.unschedule_command:unschedule", "/data/orders --writers stopped"),
        Verb("restore", "services.restore_command:restore", "/data/orders --to 20260101120000000 --dry-run"),
        Verb("write", "write_command:write", "/data/orders --input rows.parquet --writers stopped"),
    ),
    "The daemon": (
        Verb("run", "daemon.run_command:run", "--config lakeward.toml"),
        Verb("reload", "daemon.reload_command:reload", "--config lakeward.toml"),
        Verb("pause", "daemon.control_commands:pause", "orders --reason maintenance --for 2h"),
        Verb("resume", "daemon.control_commands:resume", "orders"),
        Verb("cancel", "daemon.control_commands:cancel", "orders --reason maintenance"),
        Verb("jobs", "daemon.history_commands:jobs", "orders"),
        Verb("events", "daemon.history_commands:events", "orders --limit 20"),
        Verb(
            "config",
            help="The daemon's configuration: check it, show the effective values.",
            verbs=(
                Verb("check", "daemon.config_commands:check", "lakeward.toml"),
                Verb("show", "daemon.config_commands:show", "lakeward.toml"),
                Verb("schema", "daemon.config_commands:schema"),
            ),
        ),
        Verb(
            "state",
            help="The daemon's store: its schema, and filling it again.",
            verbs=(
                Verb("status", "daemon.state_commands:show_status", "--config lakeward.toml"),
                Verb("migrate", "daemon.state_commands:bring_forward", "--config lakeward.toml"),
                Verb("rebuild", "daemon.state_commands:rebuild", "--config lakeward.toml"),
            ),
        ),
    ),
    "Parts of a table, and of Lakeward": (
        Verb(
            "table",
            help="Tables: create one, change its version or layout.",
            verbs=(
                Verb("create", "table_commands:create", "/data/orders --like rows.parquet --record-key id"),
                Verb("upgrade", "services.change_commands:upgrade", "/data/orders --to 10 --dry-run"),
                Verb("downgrade", "services.change_commands:downgrade", "/data/orders --to 9 --dry-run"),
                Verb("convert", "services.change_commands:convert", "/data/orders --layout lsm_tree --dry-run"),
            ),
        ),
        Verb(
            "metadata",
            help="The table's metadata table: compact it, clean it, remove it or one partition.",
            verbs=(
                Verb(
                    "compact",
                    "services.metadata_commands:compact",
                    "/data/orders --writers stopped",
                    has_exit_code=True,
                ),
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
        ),
        Verb(
            "index",
            help="Indexes, which know where record keys are: list, build, look up, verify, compare, remove.",
            verbs=(
                Verb("build", "index.build_command:build", "/data/orders --type record"),
                Verb("update", "index.build_command:update", "/data/orders --type record"),
                Verb("changes", "index.changes_command:changes", "/data/orders"),
                Verb("compare", "index.compare_command:compare", "/data/orders --type simple --type bloom"),
                Verb("list", "index.list_command:list_indexes", "/data/orders"),
                Verb("lookup", "index.lookup_command:lookup", "/data/orders key1 key2"),
                Verb("migrate", "index.migrate_command:migrate", "/data/orders --from simple --to record"),
                Verb("rebuild", "index.rebuild_command:rebuild", "/data/orders --type record"),
                Verb("drop", "index.rebuild_command:drop", "/data/orders --type record"),
                Verb("tee", "index.tee_command:tee", "/data/orders --primary simple --shadow bloom"),
                Verb("cut-over", "index.tee_command:cut_over", "/data/orders --after-clean 100"),
                Verb("verify", "index.verify_command:verify", "/data/orders --type record"),
            ),
        ),
        Verb(
            "savepoint",
            help="Savepoints, commits that the table can be restored to: create them, list what they keep, delete "
            "them.",
            verbs=(
                Verb("create", "services.savepoint_commands:create", "/data/orders --writers stopped"),
                Verb(
                    "delete", "services.savepoint_commands:delete", "/data/orders 20260101120000000 --writers stopped"
                ),
                Verb("list", "services.savepoint_commands:list_savepoints", "/data/orders"),
            ),
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
        ),
        Verb(
            "orphans",
            help="With --dry-run it lists them, as `orphans list` did; without, it sets them aside.",
            now="quarantine orphans TABLE",
        ),
        Verb("warm", "install_commands:warm"),
        Verb("version", "install_commands:version"),
        Verb(
            "help",
            "help_command:help_on",
            "metadata compact",
            help="Explain a verb; with `options`, the options that many verbs share.",
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
