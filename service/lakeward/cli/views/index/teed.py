"""Which indexes a table's writes go by, and what was found of the one on trial, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lakeward.cli.views.index.compared import places, told_places
from lakeward.cli.views.tables import Column, new_table
from lakeward.cli.views.terminal import shown
from lakeward.index.tee import ComparedCommit, Tee
from lakeward.verify.index_comparison import Difference


def teed_as_json(
    base_path: str,
    tee: Tee | None,
    commits: Sequence[ComparedCommit],
    differences: Sequence[Difference],
    left: int,
) -> dict[str, Any]:
    choice = None if tee is None else tee.choice
    return {
        "base_path": base_path,
        "primary": None if choice is None else choice.primary,
        "shadow": None if choice is None else choice.shadow,
        "is_cut_over": choice is not None and choice.is_cut_over,
        "clean_in_a_row": 0 if tee is None else tee.clean,
        "compared_through": None if tee is None else tee.through,
        "commits_compared": 0 if tee is None else len(tee.commits),
        "commits_wrong": 0 if tee is None else sum(not commit.is_clean for commit in tee.commits),
        "commits_left": left,
        "now": [asdict(commit) for commit in commits],
        "differences": [
            {"key": each.key, "said": [places(each.first), places(each.second)], "rows": places(each.rows)}
            for each in differences
        ],
    }


def render_teed(
    tee: Tee | None,
    commits: Sequence[ComparedCommit],
    differences: Sequence[Difference],
    left: int,
    console: Console,
) -> None:
    if tee is None or tee.choice.primary is None:
        console.print("No index is chosen: writes go by what the table shows.")
        return
    choice = tee.choice
    if choice.shadow is None:
        console.print(f"Writes go by the {choice.primary} index. No other one is held against it.")
        return
    console.print(f"Writes go by the {choice.primary} index; the {choice.shadow} index is held against it.")
    if commits:
        table = new_table(
            {
                "commit": Column.FIXED,
                "completed": Column.FIXED,
                "keys": Column.NUMBER,
                "shadow wrong": Column.NUMBER,
                "primary wrong": Column.NUMBER,
            }
        )
        for commit in commits:
            figures = (commit.keys, commit.shadow_wrong, commit.primary_wrong)
            table.add_row(commit.instant, commit.completed, *(f"{figure:,}" for figure in figures))
        console.print(table)
    for each in differences:
        truth = f"its row is in {told_places(each.rows)}" if each.rows else "no row of it was found"
        said = f"{choice.primary} says {told_places(each.first)}, {choice.shadow} says {told_places(each.second)}"
        console.print(Text(shown(f"{each.key}: {said}; {truth}.")))
    wrong = sum(not commit.is_clean for commit in tee.commits)
    console.print(
        f"{len(tee.commits):,} commits compared, of {wrong:,} the shadow was wrong; {tee.clean:,} clean in a row."
        + (f" {left:,} are still to be compared." if left else "")
    )
