"""Whether an index is brought up to date: a case a line."""

from __future__ import annotations

import re

import pytest

from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.update_choice import BYTES_MAX, UpdateDecision, UpdateReason, choose_update

NOW = 1000.0
CASES = """
behind by            files  reason       due at
-                        0  current      -
-                        7  current      -
-                        8  files        -
1 of 10 since 5          0  young        1055
1 of 10 since 59         7  young        1001
1 of 10 since 59         8  files        -
1 of 10 since 60         0  age          -
1 of 10 since 0          0  age          -
7 of 10 since 5          0  young        1055
8 of 10 since 5          0  commits      -
1 of 67108863 since 5    0  young        1055
1 of 67108864 since 5    0  bytes        -
9 of 67108864 since 99   9  bytes        -
"""


def behind(text: str) -> Staleness:
    if text == "-":
        return Staleness()
    commits, _, size, _, seconds = text.split()
    return Staleness(int(commits), int(size), float(seconds))


@pytest.mark.parametrize("case", CASES.strip().splitlines()[1:])
def test_the_choice(case: str) -> None:
    """Keeps 1 and 2 of index/update_choice: what lacks anything is due, or says when."""
    what, files, reason, due_at = re.split(r"\s{2,}", case)
    chosen = choose_update(behind(what), int(files), now=NOW)

    assert chosen == UpdateDecision(UpdateReason(reason), None if due_at == "-" else float(due_at))
    assert chosen.reason.is_due or chosen.due_at is not None or behind(what) == Staleness()


@pytest.mark.parametrize("against", [UpdateReason.UNREADABLE, UpdateReason.OUT_OF_USE, UpdateReason.UNWRITTEN])
def test_what_prevents_it(against: UpdateReason) -> None:
    """However far the index is behind; and where it is off, that is the reason."""
    far = Staleness(100, BYTES_MAX, 1e6)
    assert choose_update(far, 20, now=NOW, against=against) == UpdateDecision(against)
    assert choose_update(far, 20, is_on=False, now=NOW, against=against) == UpdateDecision(UpdateReason.OFF)
    assert not against.is_due
