"""`lakeward inspect TABLE`: what a table is, and why Lakeward would not service it. Reads only.

Touches: stdout; the table, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count, format_instant, format_size
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.result import Result
from lakeward.cli.terminal import WIDE_CELLS, Column, NameCell, Rendered, id_cell, new_table
from lakeward.services.together.inspection import inspect_table, is_change_log


def inspect(
    opened: ZonedTable,
) -> Result:
    """Show version, layout, timeline, file groups, pending work, and what would be refused. Reads only."""
    zone = opened.table.timezone
    report = inspect_table(opened.storage, opened.base_path, timezone=zone, clock=SystemClock())
    return Rendered(document=report, render=partial(render, report))


_INSTANTS_MAX = 12
_GROUPS_MAX = 40


def render(report: dict[str, Any], console: Console) -> None:
    """Print what `verify.inspection.report` made."""
    _head(report, console)
    _timeline(report, console)
    _groups(report, console)
    _notes(report, console)
    _refusals(report, console)


def _head(report: dict[str, Any], console: Console) -> None:
    table, zone, totals, backlog = report["table"], report["timezone"], report["totals"], report["backlog"]
    console.print(Text(table["name"] or table["base_path"], style="bold"), Text(table["base_path"], style="dim"))
    ordering = f" by {', '.join(table['ordering_fields'])}" if table["ordering_fields"] else ""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    rows = {
        "table": f"{table['type']}, version {table['version']}, timeline layout {table['timeline_layout']}",
        "merge": f"{table['merge_mode']}{ordering}",
        "record key": ", ".join(table["record_key_fields"]) or "none",
        "partitioned by": ", ".join(table["partition_fields"]) or "nothing",
        "instant times": f"{zone['zone'] or 'unknown zone'} ({zone['why']})",
        "holds": f"{format_count(totals['partitions'], 'partition')}, "
        f"{format_count(totals['file_groups'], 'file group')}: "
        f"{format_count(totals['base_files'], 'base file')} of {format_size(totals['base_bytes'])}, "
        f"{format_count(totals['log_files'], 'log')} of {format_size(totals['log_bytes'])}",
    }
    if totals["change_logs"]:
        rows["holds"] += f", {totals['change_logs']} of changes of {format_size(totals['change_log_bytes'])}"
    states = [f"{format_size(of['bytes'])} {state}" for state, of in report["storage"].items() if of["files"]]
    if len(states) > 1:
        rows["storage"] = ", ".join(states)
    if backlog["log_files"]:
        rows["to merge"] = (
            f"{format_count(backlog['log_files'], 'log')} of {format_size(backlog['log_bytes'])}, "
            f"at most {backlog['most_log_files']:,} in a file group"
        )
        if backlog["superseded_log_files"]:
            rows["to merge"] += (
                f", beside {format_count(backlog['superseded_log_files'], 'superseded log')} of "
                f"{format_size(backlog['superseded_log_bytes'])}"
            )
    if zone["evidence"]:
        parts = (
            f"{each['kind'].replace('-', ' ')} {each['offset'] or 'reveal no time zone'}" for each in zone["evidence"]
        )
        rows["offset by"] = ", ".join(parts)
    if table["index_type"]:
        buckets = f", {format_count(table['buckets'], 'bucket')} a partition" if table["buckets"] else ""
        rows["index"] = f"{table['index_type']}{buckets}, asked of all writers"
    if table["metadata_partitions"]:
        rows["metadata table"] = ", ".join(table["metadata_partitions"])
    for name, value in rows.items():
        grid.add_row(name, Text(value))
    console.print(grid)


def _timeline(report: dict[str, Any], console: Console) -> None:
    instants = report["timeline"]["instants"]
    if not instants:
        console.print("\nThe timeline is empty.")
        return
    planned = {(pending["time"], pending["action"]): pending["file_groups"] for pending in report["pending"]}
    # Pending instants are what a reader looks for; they stay, however old they are.
    shown = [i for n, i in enumerate(instants) if n >= len(instants) - _INSTANTS_MAX or i["state"] != "completed"]
    columns = ("instant", "action", "state", "completed at")
    title = _title("Timeline", shown=len(shown), total=len(instants))
    view = new_table(dict.fromkeys(columns, Column.FIXED), title=title)
    for instant in shown:
        groups = planned.get((instant["time"], instant["action"]))
        state = instant["state"] if groups is None else f"{instant['state']}, {format_count(groups, 'file group')}"
        style = "" if instant["state"] == "completed" else "yellow"
        view.add_row(
            instant["time"], instant["action"], state, format_instant(instant["completion_time"] or ""), style=style
        )
    console.print()
    console.print(view)


def _groups(report: dict[str, Any], console: Console) -> None:
    groups = report["file_groups"]
    if not groups:
        return
    # Those with most to merge come first.
    ranked = sorted(groups, key=lambda group: _log_bytes(group), reverse=True)[:_GROUPS_MAX]
    has_pending = any(group["pending"] for group in ranked)
    columns = {"partition": Column.ELASTIC, "file group": Column.FIXED, "slice": Column.FIXED}
    columns |= dict.fromkeys(("base", "logs", "log bytes"), Column.NUMBER)
    has_changes = report["totals"]["change_logs"] > 0
    columns |= {"changes": Column.NUMBER} if has_changes else {}
    columns |= {"pending": Column.FIXED} if has_pending else {}
    view = new_table(columns, title=_title("File groups", shown=len(ranked), total=len(groups)))
    for group in ranked:
        pending = _pending(group["pending"], console)
        for number, slice_ in enumerate(group["slices"]):
            base = slice_["base_file"]
            of_rows = [log["size"] for log in slice_["log_files"] if not is_change_log(log["name"])]
            of_changes = sum(log["size"] for log in slice_["log_files"]) - sum(of_rows)
            view.add_row(
                NameCell(group["partition_path"] or "-") if number == 0 else "",
                id_cell(group["file_id"], console) if number == 0 else "",
                slice_["base_instant"],
                format_size(base["size"]) if base else "-",
                str(len(of_rows)),
                format_size(sum(of_rows)),
                *((format_size(of_changes) if of_changes else "-",) if has_changes else ()),
                *((pending if number == 0 else "",) if has_pending else ()),
                style="" if number == 0 else "dim",
            )
    console.print()
    console.print(view)
    console.print()


def _pending(services: dict[str, str], console: Console) -> str:
    """Pending instants stand with their services where there is room; the timeline above has these too."""
    with_instants = console.width >= WIDE_CELLS
    return ", ".join(
        f"{name.replace('_', ' ')} {instant}" if with_instants else name.replace("_", " ")
        for name, instant in services.items()
    )


def _notes(report: dict[str, Any], console: Console) -> None:
    """What is out of the ordinary, one line each."""
    for group in report["frozen_groups"]:
        where = "/".join(part for part in (group["partition_path"], group["file_id"]) if part)
        console.print(f"[yellow]frozen[/]    {escape(where)} at {group['instant']}: {escape(group['why'])}")
    for name in report["timeline"]["in_future"]:
        console.print(
            f"[yellow]future[/]    {escape(name)} lies in the future of this machine's clock; until it has passed "
            "nothing can be published. Set the clock that made it right; --timezone must name the writers' zone."
        )
    for broken in report["timeline"]["broken"]:
        console.print(f"[yellow]broken[/]    {escape(broken['file'])}: {escape(broken['why'])}")
    for link in report["links"]:
        same = f", the same folder as {escape(link['same_as'])}" if link["same_as"] is not None else ""
        console.print(
            f"[yellow]link[/]      {escape(link['path'])}{same}, stands for {link['stands_for']}; not followed"
        )
    for folder in report["unlisted_folders"]:
        console.print(
            f"[yellow]unlisted[/]  {escape(folder['path'])} lies in partition '{escape(folder['partition_path'])}', is "
            f"none itself and holds {folder['holds']}; writes to that partition are refused until it is moved out"
        )
    for problem in report["archive_problems"]:
        console.print(f"[yellow]archive[/]   {escape(problem)}")
    counts = (
        ("replaced", len(report["replaced_groups"]), "file group", "hidden since a replacecommit"),
        ("hidden", len(report["uncommitted_files"]), "file", "of instants that are not completed"),
        ("unknown", len(report["unrecognised_files"]), "file", "whose names fit no grammar"),
    )
    for label, count, noun, what in counts:
        if count:
            console.print(f"[dim]{label:<9}[/] {format_count(count, noun)} {what}")


def _refusals(report: dict[str, Any], console: Console) -> None:
    refusals = report["refusals"]
    if not refusals and report["frozen_groups"]:
        _left_out(console, frozen=len(report["frozen_groups"]), others=len(report["file_groups"]))
        return
    if not refusals:
        console.print("\n[green]Nothing prevents servicing this table.[/]")
        return
    console.print(f"\n[red]{format_count(len(refusals), 'reason')} why this table is not serviced:[/]")
    for refusal in refusals:
        console.print(f"  [bold]{refusal['id']}[/]  {escape(refusal['subject'])}")
        console.print(Text(f"    {refusal['why']} {refusal['remedy']}"))
    _services(report["services"], console)


def _services(services: dict[str, dict[str, list[str]]], console: Console) -> None:
    grid = Table.grid(padding=(0, 2))
    for name, service in services.items():
        stopped = service["refused_by"]
        grid.add_row(f"  {name}", f"[red]refused[/]: {', '.join(stopped)}" if stopped else "[green]may run[/]")
    console.print()
    console.print(grid)


def _left_out(console: Console, *, frozen: int, others: int) -> None:
    are = "is" if frozen == 1 else "are"
    console.print(
        f"\n[yellow]{format_count(frozen, 'file group')} {are} left out of compactions: frozen, as said above.[/]"
    )
    if others:
        console.print(f"[green]Nothing prevents compacting the {format_count(others, 'other file group')}.[/]")
    else:
        console.print("The table has no others.")


def _log_bytes(group: dict[str, Any]) -> int:
    return sum(log["size"] for slice_ in group["slices"][:1] for log in slice_["log_files"])


def _title(name: str, *, shown: int, total: int) -> str:
    return name if shown == total else f"{name} ({shown} of {total})"
