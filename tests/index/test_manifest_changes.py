"""What changed between two manifests, put upon the first, gives the second."""

from __future__ import annotations

import json
import random

import pytest

from lakeward.index.manifest_changes import ManifestRows
from tests.runs import runs

ROWS = ManifestRows("files", lambda row: (row[0], row[1]))


def document(chance: random.Random, rows: list[list[object]]) -> dict[str, object]:
    return {"version": 1, "by": chance.choice("ab"), "commits": {chance.choice("xy"): None}, "files": rows}


def drawn(chance: random.Random) -> tuple[dict[str, object], dict[str, object]]:
    old = [[f"f{number // 2}", number % 2, chance.choice("st")] for number in range(chance.randrange(12))]
    kept = [[*row[:2], chance.choice("st")] for row in old if chance.random() < 0.7]
    came = [[f"new{number}", 0, "s"] for number in range(chance.randrange(4))]
    return document(chance, old), document(chance, [*kept, *came])


@pytest.mark.parametrize("seed", range(runs(50)))
def test_a_change_gives_what_it_was_made_for(seed: int) -> None:
    """Rows that go, that are otherwise in their place, and that come; the rest as it was. By another number, or upon
    other rows, it is refused. Keeps of index/manifest_changes: 1 and 2."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    before, after = drawn(chance)
    change = ROWS.change(before, after, number=4)
    assert change is not None
    change = json.loads(json.dumps(change))
    assert ROWS.changed(before, change, number=4) == after
    with pytest.raises(ValueError, match="follows the manifest 4"):
        ROWS.changed(before, change, number=5)
    with pytest.raises(ValueError, match="named other files"):
        ROWS.changed({**before, "files": [*before["files"], ["other", 0, "s"]]}, change, number=4)


def test_rows_in_another_order_are_said_whole() -> None:
    """Rows that changed places, or stand twice, are no change that can be said."""
    one, other = ["a", 0], ["b", 0]
    for rows in ([other, one], [["c", 0], one, other], [one, one]):
        assert ROWS.change({"files": [one, other]}, {"files": rows}, number=1) is None
