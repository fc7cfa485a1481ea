"""`lakeward read TABLE --diff OTHER`: what two tables, or two moments of one, do not have in common.

Touches: stdout and stderr; both tables, reading only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_count
from lakeward.cli.read.row_output import plain
from lakeward.cli.result import PROBLEMS_EXIT, Result
from lakeward.cli.terminal import Rendered
from lakeward.scan.table_diff import DifferingRow, TableDiff

_PARTITIONS_SHOWN = 10


def diff_result(before: str, after: str, diff: TableDiff) -> Result:
    """The report; exit 6 where there is a difference."""
    return Rendered(
        document={"before": before, "after": after, **diff_as_json(diff)},
        render=partial(_render, diff),
        exit_code=PROBLEMS_EXIT if diff.differs else 0,
    )


def diff_as_json(diff: TableDiff) -> dict[str, Any]:
    return {
        "differs": diff.differs,
        "key": list(diff.key),
        "columns": list(diff.columns),
        "rows_before": diff.rows_before,
        "rows_after": diff.rows_after,
        "slices_shared": diff.slices_shared,
        "same": diff.same,
        "changed": diff.changed,
        "added": diff.added,
        "gone": diff.gone,
        "repeated_before": diff.repeated_before,
        "repeated_after": diff.repeated_after,
        "columns_gone": list(diff.columns_gone),
        "columns_added": list(diff.columns_added),
        "types_changed": _types(diff.types_changed),
        "not_compared": _types(diff.not_compared),
        "changed_columns": dict(diff.changed_columns),
        "partitions": {
            path: {"added": each.added, "gone": each.gone, "changed": each.changed}
            for path, each in diff.partitions.items()
        },
        "changed_rows": [
            {
                **_row(each),
                "changes": {
                    name: {"before": plain(before), "after": plain(after)}
                    for name, (before, after) in each.changes.items()
                },
            }
            for each in diff.changed_rows
        ],
        "added_rows": [_row(each) for each in diff.added_rows],
        "gone_rows": [_row(each) for each in diff.gone_rows],
    }


def _types(found: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    return {name: {"before": before, "after": after} for name, (before, after) in found.items()}


def _row(sample: DifferingRow) -> dict[str, Any]:
    return {"key": plain(dict(sample.key)), "partition": sample.partition}


def _render(diff: TableDiff, console: Console) -> None:
    for line in _lines(diff):
        console.print(Text(line))


def _lines(diff: TableDiff) -> list[str]:
    lines = [
        f"rows read: {diff.rows_before:,} before, {diff.rows_after:,} after",
        f"same: {diff.same:,}   changed: {diff.changed:,}   added: {diff.added:,}   gone: {diff.gone:,}",
    ]
    if diff.slices_shared:
        lines.append(f"not read: {format_count(diff.slices_shared, 'file slice')} that both moments have")
    for when, rows in (("before", diff.repeated_before), ("after", diff.repeated_after)):
        if rows:
            lines.append(f"{format_count(rows, 'row')} {when} with a key that another row of the partition has, too")
    if diff.columns_gone:
        lines.append(f"columns gone: {', '.join(diff.columns_gone)}")
    if diff.columns_added:
        lines.append(f"columns added: {', '.join(diff.columns_added)}")
    lines += [f"type of {name}: {before} -> {after}" for name, (before, after) in diff.types_changed.items()]
    lines += [
        f"not compared: {name} is of type {before} before and {after} after"
        for name, (before, after) in diff.not_compared.items()
    ]
    if diff.changed_columns:
        counts = sorted(diff.changed_columns.items(), key=lambda each: (-each[1], each[0]))
        lines.append(f"changed columns: {', '.join(f'{name} ({count:,})' for name, count in counts)}")
    partitions = sorted(
        diff.partitions.items(), key=lambda each: (-(each[1].added + each[1].gone + each[1].changed), each[0])
    )
    for path, each in partitions[:_PARTITIONS_SHOWN]:
        if path:
            lines.append(f"partition {path}: {each.changed:,} changed, {each.added:,} added, {each.gone:,} gone")
    if len(partitions) > _PARTITIONS_SHOWN:
        more = format_count(len(partitions) - _PARTITIONS_SHOWN, "more partition")
        lines.append(f"{more} with differences; --json names all")
    for sample in diff.changed_rows:
        lines.append(f"~ {_named(sample)}")
        lines += [f"    {name}: {_cell(before)} -> {_cell(after)}" for name, (before, after) in sample.changes.items()]
    lines += [f"+ {_named(sample)}" for sample in diff.added_rows]
    lines += [f"- {_named(sample)}" for sample in diff.gone_rows]
    if not diff.differs:
        lines.append("No difference.")
    return lines


def _named(sample: DifferingRow) -> str:
    key = ", ".join(f"{name}={_cell(value)}" for name, value in sample.key.items())
    return f"{key} in {sample.partition}" if sample.partition else key


def _cell(value: Any) -> str:
    return orjson.dumps(plain(value), default=plain).decode()
