"""What an index says of record keys, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_share
from lakeward.cli.views.tables import Column, NameCell, id_cell, new_table
from lakeward.cli.views.terminal import shown
from lakeward.index.bloom.bloom_index import LookupPlan
from lakeward.index.bloom.key_spans import RULED_OUT_MIN
from lakeward.index.index_type import IndexType
from lakeward.index.location import FILE_ID, INSTANT, PARTITION_PATH, RECORD_KEY

_COLUMNS = {
    "key": Column.ELASTIC,
    "partition": Column.ELASTIC,
    "file group": Column.FIXED,
    "commit": Column.FIXED,
    "found by": Column.FIXED,
}


def looked_up_as_json(base_path: str, asked: IndexType, keys: pa.Array, found: pa.Table) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "type": asked.value,
        "keys": len(keys),
        "locations": [
            {
                "key": row[RECORD_KEY],
                "partition_path": row[PARTITION_PATH],
                "file_id": row[FILE_ID],
                "commit": row[INSTANT],
                "found_by": asked.value,
            }
            for row in _sorted(found)
        ],
        "not_found": not_found(keys, found).to_pylist(),
    }


def render_looked_up(asked: IndexType, keys: pa.Array, found: pa.Table, console: Console) -> None:
    missing = not_found(keys, found)
    if found.num_rows:
        table = new_table(_COLUMNS)
        for row in _sorted(found):
            table.add_row(
                NameCell(row[RECORD_KEY]),
                NameCell(row[PARTITION_PATH]),
                id_cell(row[FILE_ID], console),
                Text(row[INSTANT] or ""),
                Text(asked.value),
            )
        console.print(table)
    for key in missing.to_pylist():
        console.print(Text(shown(f"{key}: not found by the {asked} index.")))
    console.print(f"{len(keys) - len(missing):,} of {len(keys):,} key{'' if len(keys) == 1 else 's'} found.")


def not_found(keys: pa.Array, found: pa.Table) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, found.column(RECORD_KEY).combine_chunks())))


def _sorted(found: pa.Table) -> list[dict[str, Any]]:
    by = [(name, "ascending") for name in (RECORD_KEY, PARTITION_PATH, FILE_ID)]
    rows: list[dict[str, Any]] = found.sort_by(by).to_pylist()
    return rows


def plan_as_json(base_path: str, plan: LookupPlan) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "type": IndexType.BLOOM.value,
        "keys": len(plan.spans.keys),
        "files": len(plan.parts),
        "ranges_known": plan.ranges,
        "separates": plan.spans.separates,
        "files_left": plan.files_left,
        "pairs": plan.pairs,
        "pairs_of": plan.pairs_of,
    }


def render_plan(plan: LookupPlan, console: Console) -> None:
    console.print(f"The ranges of keys of {plan.ranges:,} of {len(plan.parts):,} base files are known unopened.")
    if plan.spans.separates:
        console.print(
            f"They leave {plan.pairs:,} of {plan.pairs_of:,} pairs of a file and a key, in {plan.files_left:,} files, "
            "whose filters are asked."
        )
    else:
        console.print(
            f"They rule out less than {format_share(RULED_OUT_MIN)} of the pairs of a file and a key, so that the "
            "filter of each file is asked for all keys."
        )
