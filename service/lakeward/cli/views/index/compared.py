"""Two indexes side by side, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_size
from lakeward.cli.views.tables import Column, new_table
from lakeward.cli.views.terminal import shown
from lakeward.table.file_system_view import GroupId

if TYPE_CHECKING:
    from lakeward.services.indexing.judge.comparison import Answers, Comparison

_NAMED = 20
"""How many keys with different answers are named on a terminal; JSON has more."""


def compared_as_json(base_path: str, compared: Comparison) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "keys": compared.keys,
        "absent_keys": compared.absent,
        "equal": compared.equal,
        "differing": compared.differing,
        "indexes": [
            asdict(each) | {"hit_rate": each.keys_found / compared.keys if compared.keys else 0.0}
            for each in (compared.first, compared.second)
        ],
        "differences": [
            {"key": each.key, "said": [places(each.first), places(each.second)], "rows": places(each.rows)}
            for each in compared.differences
        ],
        "notes": list(compared.notes),
    }


def render_compared(compared: Comparison, console: Console) -> None:
    both = (compared.first, compared.second)
    table = new_table({"": Column.FIXED, both[0].name: Column.NUMBER, f"{both[1].name} ": Column.NUMBER})
    for label, told in _LINES.items():
        table.add_row(label, *(told(each, compared.keys) for each in both))
    console.print(table)
    for each in compared.differences[:_NAMED]:
        said = f"{both[0].name} says {told_places(each.first)}, {both[1].name} says {told_places(each.second)}"
        truth = f"its row is in {told_places(each.rows)}" if each.rows else "no row of it was found"
        console.print(Text(shown(f"{each.key}: {said}; {truth}.")))
    if compared.differing > _NAMED:
        console.print(f"… and {compared.differing - _NAMED:,} more.")
    for note in compared.notes:
        console.print(Text(shown(f"Not judged: {note}")))
    console.print(
        f"{compared.keys:,} keys, {compared.absent:,} of them of no row: {compared.equal:,} answers are equal, "
        f"{compared.differing:,} differ."
    )


def _rate(each: Answers, keys: int) -> str:
    return f"{each.keys_found / keys:.2%}" if keys else ""


def _per_key(each: Answers, keys: int) -> str:
    return f"{each.seconds / keys * 1e6:,.1f} µs" if keys else ""


def _commit_bytes(each: Answers, keys: int) -> str:
    told = None if each.cost is None else each.cost.commit_bytes
    return "" if told is None else format_size(told)


def _commit_entries(each: Answers, keys: int) -> str:
    told = None if each.cost is None else each.cost.commit_entries
    return "" if told is None else f"{told:,}"


_LINES: Final[dict[str, Callable[[Answers, int], str]]] = {
    "keys found": lambda each, keys: f"{each.keys_found:,}",
    "hit rate": _rate,
    "locations": lambda each, keys: f"{each.locations:,}",
    "false locations": lambda each, keys: f"{each.false_locations:,}",
    "missed rows": lambda each, keys: f"{each.missed:,}",
    "seconds to open": lambda each, keys: f"{each.open_seconds:.3f}",
    "seconds to look up": lambda each, keys: f"{each.seconds:.3f}",
    "time a key": _per_key,
    "files opened": lambda each, keys: f"{each.files_opened:,}",
    "bytes read": lambda each, keys: format_size(each.bytes_read),
    "stored for it alone": lambda each, keys: "" if each.stored_bytes is None else format_size(each.stored_bytes),
    "read to build it": lambda each, keys: "" if each.cost is None else format_size(each.cost.build_bytes),
    "written a commit": _commit_bytes,
    "entries a commit": _commit_entries,
}


def places(groups: Iterable[GroupId]) -> list[dict[str, str]]:
    return [{"partition_path": path, "file_id": file_id} for path, file_id in groups]


def told_places(groups: Iterable[GroupId]) -> str:
    return " and ".join(f"{path or '(no partition)'}, {file_id}" for path, file_id in groups) or "nowhere"
