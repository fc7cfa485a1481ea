"""Whether an index was found to be right, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_share
from lakeward.cli.views.terminal import shown
from lakeward.index.index_type import IndexType
from lakeward.services.indexing.judge.check_result import CheckSize, Drawn, IndexCheck
from lakeward.services.indexing.judge.filter_cache_check import FilterCacheCheck

_NAMED = 20
"""How many faults are named on a terminal; JSON has more."""


def checked_as_json(base_path: str, kind: IndexType, size: CheckSize, found: IndexCheck) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "type": kind.value,
        "ok": not found.wrong,
        "error_rate": size.error_rate,
        "confidence": size.confidence,
        "seed": size.seed,
        "complete": found.is_complete,
        "rows": asdict(found.rows),
        "entries": None if found.entries is None else asdict(found.entries),
        "faults": [
            {
                "kind": fault.kind.value,
                "key": fault.key,
                "partition_path": fault.partition_path,
                "file_id": fault.file_id,
                "said": [{"partition_path": path, "file_id": file_id} for path, file_id in fault.said],
            }
            for fault in found.faults
        ],
        "notes": list(found.notes),
    }


def render_checked(kind: IndexType, found: IndexCheck, console: Console) -> None:
    console.print(_line("rows were looked up in the index", found.rows, found.confidence))
    if found.entries is None:
        console.print("The index has no entries of its own: its answers are read from the files.")
    else:
        console.print(_line("entries were looked for among the rows", found.entries, found.confidence))
    for fault in found.faults[:_NAMED]:
        console.print(Text(shown(f"{fault.key}: {fault.what}.")))
    if len(found.faults) > _NAMED:
        console.print(f"… and {len(found.faults) - _NAMED:,} more, which --json names.")
    for note in found.notes:
        console.print(Text(shown(f"Not checked: {note}")))
    console.print(f"The {kind} index is {'WRONG' if found.wrong else 'right in everything that was checked'}.")


def render_cache_checked(found: FilterCacheCheck, console: Console) -> None:
    console.print(
        f"{found.checked:,} of {found.of:,} entries of the cache of filters were compared with their files, "
        f"{len(found.wrong):,} of them wrong."
    )
    for wrong in found.wrong[:_NAMED]:
        console.print(Text(shown(f"{wrong.path}: {wrong.what}.")))
    for sentence in found.broken:
        console.print(Text(shown(f"Passed over by lookups: {sentence}")))


def _line(what: str, drawn: Drawn, confidence: float) -> str:
    head = f"{drawn.checked:,} of {drawn.of:,} {what}, {drawn.wrong:,} of them wrong"
    if drawn.wrong or drawn.excluded_rate is None:
        return f"{head}."
    if not drawn.excluded_rate:
        return f"{head}: none is."
    return f"{head}: fewer than {format_share(drawn.excluded_rate)} are, with a confidence of {confidence:.4g}."
