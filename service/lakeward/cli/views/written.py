"""What a write did, for people and as JSON.

Touches: stdout.
"""

from __future__ import annotations

from typing import Any

import typer

from lakeward.base.quantities import format_instant, format_size
from lakeward.cli.result import print_json
from lakeward.cli.views.bloom_filters import bounded_filters
from lakeward.write.target import Assignment, HandleKind, rows_of_targets
from lakeward.write.writing import WriteReport


def tell_written(report: WriteReport, *, as_json: bool) -> None:
    if as_json:
        print_json(written_as_json(report))
        return
    done = [
        f"{number:,} {what}"
        for number, what in (
            (report.inserted, "inserted"),
            (report.updated, "updated"),
            (report.deleted, "deleted"),
        )
        if number
    ]
    groups = sum(len(file_ids) for file_ids in report.replaced.values())
    if groups:
        done.append(f"{_count(groups, 'file group')} replaced")
    typer.echo(
        f"{report.operation} {report.instant} complete at {format_instant(report.completion_time)}: "
        f"{', '.join(done) or 'no rows'}; {_count(report.files, 'file')} of {format_size(report.size_bytes)} "
        f"in {_count(len(report.partitions), 'partition')}."
    )
    if report.bloom_error_rates:
        typer.echo(bounded_filters(report.bloom_error_rates))
    if report.tries > 1:
        typer.echo(f"It conflicted with other writers and tried {report.tries} times.")


def written_as_json(report: WriteReport) -> dict[str, Any]:
    return {
        "operation": str(report.operation),
        "instant": report.instant,
        "completion_time": report.completion_time,
        "inserted": report.inserted,
        "updated": report.updated,
        "deleted": report.deleted,
        "files": report.files,
        "bytes": report.size_bytes,
        "partitions": list(report.partitions),
        "replaced": {path: list(file_ids) for path, file_ids in sorted(report.replaced.items())},
        "tries": report.tries,
        "bloom_error_rates": list(report.bloom_error_rates),
    }


def tell_assigned(assignment: Assignment, *, as_json: bool) -> None:
    """What a write would do."""
    if as_json:
        print_json(assigned_as_json(assignment))
        return
    rows = rows_of_targets(assignment.places)
    if not assignment.targets and not assignment.replaced:
        typer.echo("Would write nothing.")
    for target in assignment.targets:
        where = f"partition '{target.partition_path}'" if target.partition_path else "the table"
        typer.echo(f"Would {_DOES[target.kind]} {target.file_id} in {where}: {_count(rows[target.index], 'row')}")
    for path, file_ids in sorted(assignment.replaced.items()):
        typer.echo(f"Would replace {_count(len(file_ids), 'file group')} in partition '{path}'")


_DOES = {HandleKind.CREATE: "begin", HandleKind.MERGE: "write anew", HandleKind.APPEND: "append to"}


def assigned_as_json(assignment: Assignment) -> dict[str, Any]:
    rows = rows_of_targets(assignment.places)
    return {
        "dry_run": True,
        "file_groups": [
            {
                "partition": each.partition_path,
                "file_id": each.file_id,
                "kind": str(each.kind),
                "rows": rows[each.index],
            }
            for each in assignment.targets
        ],
        "replaced": {path: list(file_ids) for path, file_ids in sorted(assignment.replaced.items())},
    }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
