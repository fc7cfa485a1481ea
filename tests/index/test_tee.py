"""What a table says of the index that its writes go by, and when another one takes its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.commit.index.choices import publish_choice, publish_compared
from lakeward.errors import BrokenFile, Conflict, Refused, Unsupported
from lakeward.index.index_type import IndexType
from lakeward.index.tee import (
    ComparedCommit,
    Tee,
    choice_path,
    compared_path,
    cut_back,
    cut_over,
    next_choice,
    read_tee,
)
from lakeward.storage.local import LocalStorage

STORAGE = LocalStorage()
CLEAN = ComparedCommit("1", "11", keys=3, shadow_wrong=0, primary_wrong=2)
WRONG = replace(CLEAN, shadow_wrong=1)


@pytest.fixture
def base(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def tee(base: str) -> Tee:
    """Begun, and read again."""
    assert read_tee(STORAGE, base) is None
    choice = next_choice(None, primary=IndexType.SIMPLE, shadow=IndexType.RECORD, since="10")
    publish_choice(STORAGE, base, choice)
    held = read_tee(STORAGE, base)
    assert held == Tee(choice)
    return held


def compared(base: str, *commits: ComparedCommit) -> Tee:
    held = read_tee(STORAGE, base)
    assert held is not None and publish_compared(STORAGE, base, held, commits)
    now = read_tee(STORAGE, base)
    assert now is not None
    return now


def test_clean_commits_in_a_row(base: str, tee: Tee) -> None:
    """They are counted over all comparisons up to the newest commit; where the primary was wrong does not matter. What
    is still to be compared begins where the last comparison ended."""
    assert (tee.through, tee.clean) == ("10", 0)
    assert compared(base, CLEAN, WRONG, CLEAN).clean == 1
    now = compared(base, CLEAN, replace(CLEAN, completed="15"))
    assert (now.clean, now.through, len(now.commits), now.runs) == (3, "15", 5, 2)
    assert compared(base, WRONG).clean == 0


def test_the_shadow_takes_the_place(base: str, tee: Tee) -> None:
    """Not before so many commits in a row were clean; back it goes without. What was compared before counts no more.
    Keeps 1 of index/tee."""
    with pytest.raises(Refused, match="2 clean commits were asked for, and 0 in a row"):
        cut_over(tee, after_clean=2)
    with pytest.raises(Refused, match="of 1 it was wrong of 1 loc"):
        cut_over(compared(base, CLEAN, WRONG, CLEAN), after_clean=2)
    with pytest.raises(Refused, match="no way back"):
        cut_back(tee)
    publish_choice(STORAGE, base, cut_over(compared(base, replace(CLEAN, completed="12")), after_clean=2))
    now = read_tee(STORAGE, base)
    assert now is not None
    assert (now.choice.primary, now.choice.shadow) == (IndexType.RECORD, IndexType.SIMPLE)
    assert (now.commits, now.through, now.clean) == ((), "12", 0)
    publish_choice(STORAGE, base, cut_back(now))
    again = read_tee(STORAGE, base)
    assert again is not None and again.choice.primary is IndexType.SIMPLE and not again.choice.is_cut_over
    publish_choice(STORAGE, base, next_choice(again, primary=IndexType.SIMPLE, shadow=None, since=None))
    ended = read_tee(STORAGE, base)
    for of in (cut_back, lambda tee: cut_over(tee, after_clean=1)):
        with pytest.raises(Refused, match="No tee is under way"):
            of(ended)
    names = [path.name for path in (Path(base) / ".hoodie/.lakeward/index/tee").iterdir()]
    assert sorted(names) == [f"choice-{number:020}.json" for number in range(1, 5)]


def test_two_at_once(base: str, tee: Tee) -> None:
    """Keeps 1 and 2 of commit/index/choices: of two that choose at once one does, and choices are never taken back; of
    two that compare the word of one counts; what was compared under a choice that holds no more counts for nothing."""
    choice = next_choice(tee, primary=IndexType.METADATA, shadow=IndexType.RECORD, since=None)
    publish_choice(STORAGE, base, choice)
    with pytest.raises(Conflict, match="meanwhile"):
        publish_choice(STORAGE, base, next_choice(tee, primary=IndexType.SIMPLE, shadow=None, since=None))
    held = read_tee(STORAGE, base)
    assert held == Tee(choice)
    assert publish_compared(STORAGE, base, held, [CLEAN])
    assert not publish_compared(STORAGE, base, held, [WRONG])
    assert publish_compared(STORAGE, base, tee, [CLEAN, CLEAN])
    assert read_tee(STORAGE, base) == Tee(choice, (CLEAN,), 1)
    assert STORAGE.stat(choice_path(base, 1)) is not None


@pytest.mark.parametrize("path", [choice_path, lambda base, number: compared_path(base, number, 1)])
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "commits": [{}]}', b"\xff", b"[" * 99_999]
)
def test_damage_is_refused(base: str, tee: Tee, path: object, content: bytes) -> None:
    """Keeps 2 of index/tee."""
    compared(base, CLEAN)
    broken = Path(path(base, 1))  # type: ignore[operator]
    good = json.loads(broken.read_bytes())
    broken.write_bytes(content)
    with pytest.raises(BrokenFile, match=broken.name):
        read_tee(STORAGE, base)
    broken.write_text(json.dumps(good | {"version": 2}))
    with pytest.raises(Unsupported, match="version 2"):
        read_tee(STORAGE, base)
