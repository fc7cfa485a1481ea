"""`lakeward state`: the store's schema, and filling the store again.

Touches: stdout; the store; with rebuild the tables, reading only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfigOption, resolve_table
from lakeward.cli.options.store import UrlOption, read_settings, store_url
from lakeward.cli.result import PARTIAL_EXIT, DryRunOption, Result
from lakeward.daemon.history.rebuild import RebuildReport, rebuild_store
from lakeward.state.migration import SchemaStatus, migrate, schema_status
from lakeward.storage.storage_of_url import open_storage

if TYPE_CHECKING:
    from lakeward.config.settings import Settings


_SAID = {
    "empty": "The store is empty; `lakeward state migrate`, or the daemon as it starts, gives it its schema.",
    "behind": "The store is of an earlier release; `lakeward state migrate`, or the daemon as it starts, "
    "brings it forward.",
    "current": "The store has the schema of this release.",
    "newer": "The store is of a later release, which lets this one run.",
    "refused": "The store is of a later release, and this one may not use it.",
}


def show_status(config: ConfigOption = None, url: UrlOption = None) -> Result:
    """Show which schema the store has and whether this release may use it. Changes nothing."""
    status = schema_status(store_url(url, read_settings(config)))
    return Result(
        document=_status_as_json(status),
        lines=[
            status.store,
            f"revision {status.revision or 'none'}, this release has {status.head}",
            _SAID[status.state],
        ],
    )


def bring_forward(config: ConfigOption = None, url: UrlOption = None) -> Result:
    """Bring the store to this release's schema. Only ever forward; the previous release runs on it too."""
    migrated = migrate(store_url(url, read_settings(config)))
    before = migrated.before
    did = f"applied {', '.join(migrated.applied)}." if migrated.applied else f"nothing to do. {_SAID[before.state]}"
    return Result(
        document={"applied": list(migrated.applied), "before": _status_as_json(before)},
        lines=[f"{before.store}: {did}"],
    )


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
    dry_run: DryRunOption = False,
) -> Result:
    """Fill the store again from the timelines: after it was lost or damaged, or when an old backup came back.

    Controls and parked groups stay if they can be read. A damaged file is renamed, never deleted; stop the daemons
    that use it first. Exit 4 when a table could not be read.
    """
    settings = read_settings(config)
    report = rebuild_store(
        store_url(url, settings),
        _named(tables or [], settings),
        open_storage=open_storage,
        clock=SystemClock(),
        dry_run=dry_run,
    )
    return Result(
        document=_report_as_json(report),
        lines=list(_report_lines(report)),
        notes=[f"{table.name}: not readable. {table.problem}" for table in report.tables if table.problem is not None],
        exit_code=PARTIAL_EXIT if report.problems else 0,
    )


def _named(tables: list[str], settings: Settings) -> Mapping[str, str]:
    named = dict(settings.named_tables)
    for text in tables:
        _, base_path = open_storage(resolve_table(text, settings))
        named.setdefault(settings.name_of(base_path), base_path)
    return named


def _report_lines(report: RebuildReport) -> Iterator[str]:
    if report.damage is not None:
        yield (report.damage)
    if report.salvaged is not None:
        kept = report.salvaged
        yield (
            f"It is kept as {kept.kept_as}. Taken from it: controls {len(kept.controls)}, parked {len(kept.parked)}, "
            f"tables {len(kept.tables)}."
        )
        if kept.unreadable:
            yield (f"Not readable there: {', '.join(kept.unreadable)}.")
    found = "would find" if report.dry_run else "found"
    for table in report.tables:
        if table.problem is None:
            yield (f"{table.name}: {found} pending plans {table.plans}, finished jobs {table.jobs}.")
    if not report.tables:
        yield ("No table is known: name some, or give a configuration.")
    done = "Nothing was changed." if report.dry_run else f"{report.store} is rebuilt."
    yield (f"{done} Decisions come with the next planning.")


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
