"""What a write did, for people and as JSON.

Touches: stdout.
"""

from __future__ import annotations

from typing import Any

import typer

from lakeward.cli.options.store import print_json
from lakeward.quantities import format_instant, format_size
from lakeward.write.writing import WriteReport


def tell_written(report: WriteReport, *, as_json: bool) -> None:
    if as_json:
        print_json(written_as_json(report))
        return
    done = [
        f"{number} {what}"
        for number, what in (
            (report.inserted, "inserted"),
            (report.updated, "updated"),
            (report.deleted, "deleted"),
        )
        if number
    ]
    groups = sum(len(file_ids) for file_ids in report.replaced.values())
    if groups:
        done.append(f"{groups} file groups replaced")
    typer.echo(
        f"{report.operation} {report.instant} complete at {format_instant(report.completion_time)}: "
        f"{', '.join(done) or 'no rows'}; {report.files} files of {format_size(report.size_bytes)} "
        f"in {len(report.partitions)} partitions."
    )
    if report.tries > 1:
        typer.echo(f"It met other writers and began {report.tries} times.")


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
    }
