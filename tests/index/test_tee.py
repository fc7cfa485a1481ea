"""What a table says of the index that its writes use, and when another one takes its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, Conflict, Refused, Unsupported
from lakeward.index.index_type import IndexType
from lakeward.index.manifest_form import manifest_path
from lakeward.index.tee import TEE_FORM, ComparedCommit, Tee, cut_back, cut_over, read_tee, tee_folder
from lakeward.protocol.index.choices import publish_choice, publish_compared
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
    nothing = read_tee(STORAGE, base)
    assert nothing == Tee()
    choice = Tee(primary=IndexType.SIMPLE, shadow=IndexType.RECORD, through="10")
    made = publish_choice(STORAGE, base, nothing, choice)
    held = read_tee(STORAGE, base)
    assert held == made == replace(choice, number=1)
    return held


def compared(base: str, *commits: ComparedCommit) -> Tee:
    made = publish_compared(STORAGE, base, read_tee(STORAGE, base), commits)
    now = read_tee(STORAGE, base)
    assert now == made
    return now


def test_clean_commits_in_a_row(base: str, tee: Tee) -> None:
    """They are counted over all comparisons up to the newest commit; where the primary was wrong does not matter. What
    is still to be compared begins where the last comparison ended."""
    assert (tee.through, tee.clean) == ("10", 0)
    assert compared(base, CLEAN, WRONG, CLEAN).clean == 1
    now = compared(base, CLEAN, replace(CLEAN, completed="15"))
    assert (now.clean, now.through, now.compared, now.wrong, now.last_wrong) == (3, "15", 5, 1, WRONG)
    assert (now.keys, now.keys_wrong) == (15, 1)
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
    before = compared(base, replace(CLEAN, completed="12"))
    publish_choice(STORAGE, base, before, cut_over(before, after_clean=2))
    now = read_tee(STORAGE, base)
    assert (now.primary, now.shadow) == (IndexType.RECORD, IndexType.SIMPLE)
    assert (now.compared, now.wrong, now.last_wrong, now.through, now.clean) == (0, 0, None, "12", 0)
    publish_choice(STORAGE, base, now, cut_back(now))
    again = read_tee(STORAGE, base)
    assert again.primary is IndexType.SIMPLE and not again.is_cut_over
    publish_choice(STORAGE, base, again, Tee(primary=IndexType.SIMPLE))
    ended = read_tee(STORAGE, base)
    for of in (cut_back, lambda tee: cut_over(tee, after_clean=1)):
        with pytest.raises(Refused, match="No tee is under way"):
            of(ended)
        with pytest.raises(Refused, match="No tee was begun"):
            of(Tee())
    names = [path.name for path in Path(tee_folder(base)).iterdir()]
    assert sorted(names) == [f"manifest-{number:020}.json" for number in range(7)]


def test_two_at_once(base: str, tee: Tee) -> None:
    """Keeps 1, 2 and 3 of protocol/index/choices: of two that choose at once one does, and choices are never taken
    back; of two that compare, one counts; what was compared of a choice that holds no more counts for
    nothing."""
    choice = Tee(primary=IndexType.METADATA, shadow=IndexType.RECORD)
    held = publish_choice(STORAGE, base, tee, choice)
    with pytest.raises(Conflict, match="meanwhile"):
        publish_choice(STORAGE, base, tee, Tee(primary=IndexType.SIMPLE))
    assert read_tee(STORAGE, base) == held == replace(choice, number=2)
    made = publish_compared(STORAGE, base, held, [CLEAN])
    for stale, commits in ((held, [WRONG]), (tee, [CLEAN, CLEAN])):
        with pytest.raises(Conflict, match="meanwhile"):
            publish_compared(STORAGE, base, stale, commits)
    assert read_tee(STORAGE, base) == made == replace(choice, number=3, through="11", compared=1, clean=1, keys=3)
    assert STORAGE.stat(manifest_path(tee_folder(base), tee.number)) is not None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "commits": [{}]}', b"\xff", b"[" * 99_999]
)
def test_damage_is_refused(base: str, tee: Tee, content: bytes) -> None:
    """Keeps 2 of index/tee."""
    made = compared(base, CLEAN)
    broken = Path(manifest_path(tee_folder(base), made.number))
    whole = broken.read_bytes()
    for damaged in (content, whole.replace(b'"11"', b'"12"'), whole[:-3]):
        broken.write_bytes(damaged)
        with pytest.raises(BrokenFile, match=broken.name) as raised:
            read_tee(STORAGE, base)
        assert "lakeward index tee" in raised.value.remedy
    for wrong in (replace(made, primary="btree"), replace(made, last_wrong={"instant": "1"})):  # type: ignore[arg-type]
        broken.write_bytes(TEE_FORM.encode(wrong))
        with pytest.raises(BrokenFile, match=broken.name):
            read_tee(STORAGE, base)
    broken.write_bytes(replace(TEE_FORM, version=2).encode(made))
    with pytest.raises(Unsupported, match="version 2"):
        read_tee(STORAGE, base)
