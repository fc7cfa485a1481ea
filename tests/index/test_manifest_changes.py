"""What changed between two manifests, put upon the first, gives the second; a number says which one is followed."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pytest

from lakeward.index import manifest_form
from lakeward.index.manifest_changes import ManifestRows
from lakeward.index.manifest_form import ManifestForm, followed_by, manifest_path
from tests.faults import FaultyStorage
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


@dataclass(frozen=True)
class Names:
    number: int
    paths: Sequence[str]

    def numbered(self, number: int, *, by: str) -> Self:
        return replace(self, number=number)


def _document(names: Names) -> Mapping[str, Any]:
    return {"files": tuple((path, 0) for path in names.paths), "of": (len(names.paths),)}


FORM = ManifestForm(
    "an index",
    "",
    1,
    _document,
    lambda number, document: Names(number, [path for path, _ in document["files"]]),
    lambda name: None,
    rows=ROWS,
)


@pytest.mark.parametrize("seed", range(runs(4)))
def test_what_is_read_and_written_stays_small(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever changes, each manifest is what was published, and few are read for it; what an hour keeps is named, and
    what that is read by is known. Keeps 3 of index/manifest_form."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    for name, value in (("CHANGES_FROM", 2), ("BASE", 2), ("DIGITS", 4), ("READ_MAX", 5)):
        monkeypatch.setattr(manifest_form, name, value)
    storage, folder = FaultyStorage(), str(tmp_path)
    newest = Names(0, [f"f{number}" for number in range(chance.choice([0, 20, 200]))])
    storage.create(manifest_path(folder, 0), FORM.encode(newest))
    published = [newest]
    for number in range(1, 70):
        gone = chance.choice([0, 1, 1, 2, 30 if seed % 2 else 0])
        kept = [
            path for path in newest.paths if path not in chance.sample([*newest.paths], min(gone, len(newest.paths)))
        ]
        after, newest = newest, Names(number, [*kept, *(f"f{number}-{each}" for each in range(chance.randrange(3)))])
        storage.create(manifest_path(folder, number), FORM.encode_next(storage, folder, newest, after=after))
        published.append(newest)
        before = len(storage.calls)
        assert FORM.read(storage, folder, number) == newest
        assert len(storage.calls) - before <= manifest_form.READ_MAX
    first = chance.randrange(60)
    files, read = FORM.named(storage, folder, range(first, 70))
    assert files == {path for names in published[first:] for path in names.paths}
    for number in set(range(70)) - read:
        Path(manifest_path(folder, number)).unlink()
    assert [FORM.read(storage, folder, names.number) for names in published[first:]] == published[first:]


def test_which_one_is_followed() -> None:
    """The one whose last digit that is no zero is a unit less, by fours."""
    assert [followed_by(number) for number in (1, 4, 38, 32, 16, 0, 4**6, 4**6 + 1)] == [
        0,
        0,
        37,
        16,
        0,
        None,
        None,
        4**6,
    ]
