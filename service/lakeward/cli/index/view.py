"""Which indexes a table's writes use, what was found of the one on trial, and places of keys: for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from lakeward.base.named_key import plain_key
from lakeward.cli.result import shown
from lakeward.cli.terminal import Column, new_table
from lakeward.index.tee import Tee
from lakeward.table.file_system_view import GroupId

if TYPE_CHECKING:
    from lakeward.services.indexing.judge.tee_check import TeeCheck


def tee_as_json(tee: Tee, left: int) -> dict[str, Any]:
    """
    Args:
        left: commits that are still to be compared.
    """
    return {
        "primary": tee.primary,
        "shadow": tee.shadow,
        "is_cut_over": tee.is_cut_over,
        "clean_in_a_row": tee.clean,
        "compared_through": tee.through,
        "commits_compared": tee.compared,
        "commits_wrong": tee.wrong,
        "keys_compared": tee.keys,
        "keys_wrong": tee.keys_wrong,
        "commits_left": left,
    }


def teed_as_json(base_path: str, tee: Tee, found: TeeCheck) -> dict[str, Any]:
    return {
        "base_path": base_path,
        **tee_as_json(tee, found.left),
        "now": [asdict(commit) for commit in found.commits],
        "differences": [
            {"key": each.key, "said": [places(each.first), places(each.second)], "rows": places(each.rows)}
            for each in found.differences
        ],
    }


def render_teed(tee: Tee, found: TeeCheck, console: Console) -> None:
    if tee.primary is None:
        console.print("No index is chosen: writes choose it from the table.")
        return
    if tee.shadow is None:
        console.print(f"Writes use the {tee.primary} index. No other index is on trial.")
        return
    if found.commits:
        table = new_table(
            {
                "commit": Column.FIXED,
                "completed": Column.FIXED,
                "keys": Column.NUMBER,
                "shadow wrong": Column.NUMBER,
                "primary wrong": Column.NUMBER,
            }
        )
        for commit in found.commits:
            figures = (commit.keys, commit.shadow_wrong, commit.primary_wrong)
            table.add_row(commit.instant, commit.completed, *(f"{figure:,}" for figure in figures))
        console.print(table)
    for each in found.differences:
        truth = f"its row is in {describe_places(each.rows)}" if each.rows else "no row of it was found"
        said = f"{tee.primary} says {describe_places(each.first)}, {tee.shadow} says {describe_places(each.second)}"
        console.print(Text(shown(f"{plain_key(each.key)}: {said}; {truth}.")))
    render_tee(tee, found.left, console)


def render_tee(tee: Tee, left: int, console: Console) -> None:
    """What holds while one is on trial."""
    console.print(f"Writes use the {tee.primary} index; the {tee.shadow} index is on trial.")
    console.print(tee.summary + (f" {left:,} are still to be compared." if left else ""))


def places(groups: Iterable[GroupId]) -> list[dict[str, str]]:
    return [{"partition_path": path, "file_id": file_id} for path, file_id in groups]


def describe_places(groups: Iterable[GroupId]) -> str:
    return " and ".join(f"{path or '(no partition)'}, {file_id}" for path, file_id in groups) or "nowhere"
