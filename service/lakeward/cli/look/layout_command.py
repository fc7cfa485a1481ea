"""`lakeward layout TABLE`: how well its files separate the values of columns, by their statistics. Reads no row.

Touches: stdout, stderr; the table's metadata, reading only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count, format_share, format_size
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.progress import open_view
from lakeward.cli.result import Result
from lakeward.cli.terminal import Column, NameCell, Rendered, new_table
from lakeward.scan.column_ranges import ColumnRanges, column_ranges, measured_columns
from lakeward.scan.layout_depth import Clustering, ColumnDepth, estimate_clustering, measure_depth
from lakeward.services.clustering.settings import ClusteringSettings

_BAR_CELLS = 40


def layout(
    opened: ZonedTable,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns to look at closely, comma-separated: also how deep file groups lie, and what clustering by "
            "these columns would cost and change. Without it: one line for each column.",
        ),
    ] = None,
) -> Result:
    """Show how well a table's files separate the values of its columns: how many file groups a filter on one value
    reads. Only statistics are read, no rows; depth 1 means that no two file groups of a partition share a value."""
    named = [name.strip() for name in by.split(",") if name.strip()] if by is not None else []
    snapshot = opened.snapshot()
    columns = measured_columns(snapshot, named)
    clock = SystemClock()
    with open_view(Console(stderr=True), clock) as view:
        ranges = column_ranges(
            opened.storage,
            snapshot,
            columns,
            clock=clock,
            done=lambda done, of: view.working(f"{done:,} of {format_count(of, 'footer')} read"),
        )
    depths = {column: measure_depth(found) for column, found in ranges.of_column.items()}
    sizes = [(each.partition_path, each.bytes) for each in ranges.slices]
    target = opened.table.section(ClusteringSettings).target_size
    estimate = estimate_clustering(sizes, len(columns), target) if named and sizes else None
    return Rendered(
        document=_as_json(opened.base_path, ranges, depths, estimate, target),
        render=partial(_render, opened.base_path, ranges, depths, estimate, target),
        is_nothing=not ranges.slices,
    )


def _as_json(
    base_path: str,
    ranges: ColumnRanges,
    depths: Mapping[str, ColumnDepth | None],
    estimate: Clustering | None,
    target_bytes: int,
) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "file_groups": len(ranges.slices),
        "partitions": _partitions(ranges),
        "bytes": sum(each.bytes for each in ranges.slices),
        "statistics": "metadata table" if ranges.is_of_metadata else "footers",
        "log_files_without_statistics": ranges.logs_without,
        "columns": [{"column": column, **_depth_as_json(depth)} for column, depth in depths.items()],
        "clustering": None if estimate is None else {**asdict(estimate), "target_bytes": target_bytes},
    }


def _depth_as_json(depth: ColumnDepth | None) -> dict[str, Any]:
    if depth is None:
        return {"known": 0}
    histogram = [{"depth_max": most, "groups": groups} for most, groups in depth.histogram]
    return {**asdict(depth), "histogram": histogram}


def _partitions(ranges: ColumnRanges) -> int:
    return len({each.partition_path for each in ranges.slices})


def _render(
    base_path: str,
    ranges: ColumnRanges,
    depths: Mapping[str, ColumnDepth | None],
    estimate: Clustering | None,
    target_bytes: int,
    console: Console,
) -> None:
    groups = format_count(len(ranges.slices), "file group")
    size = format_size(sum(each.bytes for each in ranges.slices))
    source = "column_stats of the metadata table" if ranges.is_of_metadata else "the footers of base files"
    console.print(
        f"{base_path}: {groups} of {size} in {format_count(_partitions(ranges), 'partition')}, by {source}.",
        highlight=False,
        markup=False,
    )
    if ranges.logs_without:
        console.print(f"{format_count(ranges.logs_without, 'log')} without statistics are not counted.")
    if not ranges.slices:
        return
    _render_columns(depths, console)
    if estimate is not None:
        for column, depth in depths.items():
            if depth is not None:
                _render_histogram(column, depth, console)
        console.print(_sentence(list(depths), estimate, target_bytes), highlight=False, markup=False)


def _render_columns(depths: Mapping[str, ColumnDepth | None], console: Console) -> None:
    kinds = {"column": Column.ELASTIC, "mean depth": Column.NUMBER, "greatest": Column.NUMBER}
    table = new_table(kinds | {"overlap": Column.NUMBER, "a filter on one value reads, in a partition": Column.FIXED})
    for column, depth in depths.items():
        if depth is None:
            table.add_row(NameCell(column), "", "", "", "no statistics")
            continue
        unknown = f", {depth.groups - depth.known:,} not known" if depth.known < depth.groups else ""
        read = f"{depth.groups_read:,.1f} of {depth.groups_of:,.1f} file groups, {format_share(depth.bytes_share)}"
        figures = (f"{depth.mean_depth:,.1f}", f"{depth.depth_max:,}", f"{depth.mean_overlap:,.1f}")
        table.add_row(NameCell(column), *figures, f"{read} of the bytes{unknown}")
    console.print(table)


def _render_histogram(column: str, depth: ColumnDepth, console: Console) -> None:
    table = new_table({f"depth by {column}": Column.NUMBER, "file groups": Column.NUMBER, "": Column.FIXED})
    fullest = max(groups for _, groups in depth.histogram)
    for most, groups in depth.histogram:
        least = most // 2 + 1
        bar = "█" * -(-groups * _BAR_CELLS // fullest)
        table.add_row(f"{most:,}" if least >= most else f"{least:,} to {most:,}", f"{groups:,}", bar)
    console.print(table)


def _sentence(columns: Sequence[str], estimate: Clustering, target_bytes: int) -> str:
    return (
        f"Clustering by {', '.join(columns)} would rewrite {format_size(estimate.bytes)} in "
        f"{format_count(estimate.groups_before, 'file group')} into about {estimate.groups_after:,} of at most "
        f"{format_size(target_bytes)}. At best a filter on a value of any of these columns would then read "
        f"{estimate.groups_read:,.1f} of {estimate.groups_of:,.1f} file groups of a partition, "
        f"{format_share(estimate.bytes_share)} of the bytes."
    )
