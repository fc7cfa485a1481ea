"""`lakeward state`: the store's schema, and filling the store again.

Touches: stdout; the store; with rebuild the tables, reading only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfigOption, resolve_table
from lakeward.cli.options.store import UrlOption, read_settings, store_url
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.storage.opening import open_storage

if TYPE_CHECKING:
    from lakeward.config.settings import Settings
    from lakeward.daemon.rebuild import RebuildReport
    from lakeward.state.migration import SchemaStatus


_PARTIAL = 4

_SAID = {
    "empty": "The store is empty; `lakeward state migrate`, or the daemon as it starts, gives it its schema.",
    "behind": "The store is of an earlier release; `lakeward state migrate`, or the daemon as it starts, "
    "brings it forward.",
    "current": "The store has the schema of this release.",
    "newer": "The store is of a later release, which lets this one run.",
    "refused": "The store is of a later release, and this one may not use it.",
}


def show_status(
    config: ConfigOption = None, url: UrlOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Show which schema the store has and whether this release may use it. Changes nothing."""
    from lakeward.state.migration import schema_status

    status = schema_status(store_url(url, read_settings(config)))
    if as_json:
        print_json(_status_as_json(status))
        return
    typer.echo(status.store)
    typer.echo(f"revision {status.revision or 'none'}, this release has {status.head}")
    typer.echo(_SAID[status.state])


def bring_forward(
    config: ConfigOption = None, url: UrlOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Bring the store to this release's schema. Only ever forward; the previous release runs on it too."""
    from lakeward.state.migration import migrate

    migrated = migrate(store_url(url, read_settings(config)))
    if as_json:
        print_json({"applied": list(migrated.applied), "before": _status_as_json(migrated.before)})
    elif migrated.applied:
        typer.echo(f"{migrated.before.store}: applied {', '.join(migrated.applied)}.")
    else:
        typer.echo(f"{migrated.before.store}: nothing to do. {_SAID[migrated.before.state]}")


def rebuild(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="Base paths or configured names, beside the tables that the store and the configuration name.",
        ),
    ] = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: report what would be found, change nothing.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Fill the store again from the timelines: after it was lost or damaged, or when an old backup came back.

    Controls and parked groups stay if they can be read. A damaged file is renamed, never deleted; stop the daemons
    that use it first. Exit 4 when a table could not be read.
    """
    from lakeward.daemon.rebuild import rebuild_store

    settings = read_settings(config)
    report = rebuild_store(
        store_url(url, settings),
        _named(tables or [], settings),
        open_storage=open_storage,
        clock=SystemClock(),
        dry_run=dry_run,
    )
    print_json(_report_as_json(report)) if as_json else _render(report)
    if report.problems:
        raise typer.Exit(_PARTIAL)


def _named(tables: list[str], settings: Settings) -> Mapping[str, str]:
    named = dict(settings.named_tables)
    for text in tables:
        _, base_path = open_storage(resolve_table(text, settings))
        named.setdefault(settings.name_of(base_path), base_path)
    return named


def _render(report: RebuildReport) -> None:
    if report.damage is not None:
        typer.echo(report.damage)
    if report.salvaged is not None:
        kept = report.salvaged
        typer.echo(
            f"It is kept as {kept.kept_as}. Taken from it: controls {len(kept.controls)}, parked {len(kept.parked)}, "
            f"tables {len(kept.tables)}."
        )
        if kept.unreadable:
            typer.echo(f"Not readable there: {', '.join(kept.unreadable)}.")
    found = "would find" if report.dry_run else "found"
    for table in report.tables:
        if table.problem is None:
            typer.echo(f"{table.name}: {found} pending plans {table.plans}, finished jobs {table.jobs}.")
        else:
            typer.echo(f"{table.name}: not readable. {table.problem}", err=True)
    if not report.tables:
        typer.echo("No table is known: name some, or give a configuration.")
    done = "Nothing was changed." if report.dry_run else f"{report.store} is rebuilt."
    typer.echo(f"{done} Decisions come with the next planning.")


def _status_as_json(status: SchemaStatus) -> dict[str, Any]:
    return {**asdict(status), "state": status.state.value}


def _report_as_json(report: RebuildReport) -> dict[str, Any]:
    salvaged = report.salvaged
    return {
        "store": report.store,
        "dry_run": report.dry_run,
        "damage": report.damage,
        "put_aside": None if salvaged is None else _text(salvaged.kept_as),
        "kept": None if salvaged is None else {"controls": len(salvaged.controls), "parked": len(salvaged.parked)},
        "unreadable": [] if salvaged is None else list(salvaged.unreadable),
        "tables": [asdict(table) for table in report.tables],
    }


def _text(path: Path) -> str:
    return str(path)
