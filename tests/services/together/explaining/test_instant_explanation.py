"""What an instant holds back: the oldest pending one cleans and archiver, a savepoint its files."""

from __future__ import annotations

import pytest

from lakeward.services.together.explaining.instant_explanation import InstantExplanation, instant_in_sentences
from tests.services.clean.plan.clean_cases import read_table
from tests.synthetic_table import minute

TABLE = """done commit 10 20 50
group a 10 20 50
pending deltacommit 30
pending deltacommit 40
savepoint 10 a@10"""


@pytest.mark.parametrize(
    ("time", "says", "keeps_silent_of"),
    [
        (10, "A savepoint pins 1 files as of it, and holds the archiver.", "oldest pending"),
        (20, "commit 20260101002000000: requested", "savepoint"),
        (
            30,
            "It is the oldest pending instant: by commits no clean goes beyond it, and no archiver does.",
            "savepoint",
        ),
        (40, "deltacommit 20260101004000000: inflight", "oldest pending"),
    ],
)
def test_what_an_instant_holds_back(time: int, says: str, keeps_silent_of: str) -> None:
    """Only the oldest of what is pending is said to hold them, and only the instant of a savepoint."""
    snapshot = read_table(TABLE).snapshot()
    text = " ".join(instant_in_sentences(InstantExplanation(minute(time), snapshot), now=0.0))
    assert says in text and keeps_silent_of not in text
