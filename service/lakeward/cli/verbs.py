"""Every verb of the command line by panels: its name, its place, and an example. Those of one service its folder
declares; here are the others.

Touches: nothing; the module of a verb is loaded by the frame (`verb_group`) when the verb is called.
Keeps:   1. each verb is where the list says, and has a first sentence for the lists of help;
         2. a verb goes with each service that it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated

import typer

from lakeward.cli.verb_group import new_group
from lakeward.services.services import SERVICES, load_verbs
from lakeward.services.verb import Verb, there

_OWN: Mapping[str, tuple[Verb, ...]] = {
    "Look at a table": (
        Verb("inspect", "look.inspect_command:inspect", "/data/orders", of=("clean",)),
        Verb(
            "doctor",
            "look.doctor_command:doctor",
            "/data/orders",
            of=("archive", "clean", "clustering", "rollback", "verification"),
        ),
        Verb("plan", "look.plan_command:plan", "/data/orders --explain"),
        Verb("explain", "look.explain_command:explain", "/data/orders", of=("archive", "clean", "savepoint")),
        Verb(
            "erase-status",
            "look.erase_command:erase_status",
            "/data/orders --keys deleted.txt",
            of=("archive", "clean", "indexing", "savepoint"),
        ),
        Verb(
            "erase-verify",
            "look.erase_command:erase_verify",
            "gone.json --sign-with receipts.key",
            of=("archive", "clean", "indexing", "savepoint"),
        ),
        Verb("layout", "look.layout_command:layout", "/data/orders --by city,day", of=("clustering",)),
        Verb("simulate", "look.simulate_command:simulate", "/data/orders --last 14d --reads 200/day"),
        Verb("record", "look.simulate_command:record", "/data/orders --to orders.trace"),
        Verb("read", "read.read_command:read", "/data/orders --where \"city = 'lima' and fare > 10\""),
    ),
    "Service a table": (
        Verb(
            "erase-expedite",
            "services.expedite_command:erase_expedite",
            "/data/orders --keys deleted.txt --dry-run",
            of=("archive", "clean", "compaction", "indexing", "metadata", "rollback", "savepoint"),
        ),
        Verb("service", "services.service_command:service", "/data/orders --writers stopped", has_exit_code=True),
        Verb(
            "restore",
            "services.restore_command:restore",
            "/data/orders --to 20260101120000000 --dry-run",
            of=("clean", "metadata", "rollback", "savepoint"),
        ),
        Verb(
            "write",
            "write_command:write",
            "/data/orders --input rows.parquet --writers stopped",
            of=("indexing", "rollback"),
        ),
    ),
    "The daemon": (
        Verb("init", "daemon.init_command:init", "--tables /data/lake"),
        Verb("run", "daemon.run_command:run", "--config lakeward.toml"),
        Verb("status", "daemon.fleet_commands:status", "--server http://lakeward:8490"),
        Verb("top", "daemon.fleet_commands:top", "--server http://lakeward:8490"),
        Verb("reload", "daemon.reload_command:reload", "--config lakeward.toml"),
        Verb("pause", "daemon.control_commands:pause", "orders --reason maintenance --for 2h"),
        Verb("resume", "daemon.control_commands:resume", "orders"),
        Verb("cancel", "daemon.control_commands:cancel", "orders --reason maintenance"),
        Verb("jobs", "daemon.history_commands:jobs", "orders"),
        Verb("job", "daemon.history_commands:job", "4f2c-17"),
        Verb("costs", "daemon.history_commands:costs", "orders"),
        Verb("events", "daemon.history_commands:events", "orders --limit 20"),
        Verb("learn-reads", "daemon.learn_reads_command:learn_reads", "/var/spark/events"),
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
                Verb(
                    "upgrade",
                    "services.change_commands:upgrade",
                    "/data/orders --to 10 --dry-run",
                    of=("clean", "metadata", "rollback"),
                ),
                Verb(
                    "downgrade",
                    "services.change_commands:downgrade",
                    "/data/orders --to 9 --dry-run",
                    of=("clean", "metadata", "rollback"),
                ),
                Verb(
                    "convert",
                    "services.change_commands:convert",
                    "/data/orders --layout lsm_tree --dry-run",
                    of=("clean", "metadata", "rollback"),
                ),
            ),
        ),
        Verb("warm", "install_commands:warm"),
        Verb("calibrate", "calibrate_command:calibrate", of=("compaction", "rollback")),
        Verb("version", "install_commands:version"),
        Verb(
            "help",
            "help_command:help_on",
            "metadata compact",
            help="Explain a verb; with `options`, the options that many verbs share.",
        ),
    ),
}


def _panels() -> Mapping[str, tuple[Verb, ...]]:
    """Verbs of services follow the first of the others."""
    folders = frozenset(line.folder for line in SERVICES)
    declared, panels = tuple(there(load_verbs(), folders)), {}
    for panel, verbs in _OWN.items():
        own = tuple(there(verbs, folders))
        panels[panel] = (*own[:1], *(verb for verb in declared if verb.panel == panel), *own[1:])
    return panels


PANELS = _panels()

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
