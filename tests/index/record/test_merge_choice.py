"""What is merged of a file group of the index, and why: cases as text."""

from __future__ import annotations

import pytest

from lakeward.index.record.merge_choice import MERGE_OPTIONS, MergeOptions, choose_merge
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile

KINDS = {"b": FileKind.BASE, "m": FileKind.MERGED, "d": FileKind.DELTA}
EIGHT = " ".join(["d1"] * 8)


def files_of(text: str) -> list[RecordFile]:
    """Kind and entries of each file, newest first."""
    found = []
    for number, word in enumerate(reversed(text.split())):
        kind, entries = KINDS[word[0]], int(word[1:])
        found.append(RecordFile(IndexGroup(0, 0, 0), kind, f"{number}", 1, entries, 0, f"{number}", f"{number}"))
    return found[::-1]


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ("", "None no-logs 0"),
        ("b100", "None no-logs 0"),
        ("d1 b100", "None few-logs 0"),
        ("d100 b100", "None few-logs 0"),
        ("d7 d6 d6 d6 b100", "FULL log-ratio 5"),
        ("d1 d1 d1 d1 b100", "None few-logs 0"),
        (f"{EIGHT} b1000", "LOG many-small-logs 8"),
        (f"{EIGHT}", "FULL no-base 8"),
        ("d1 d1 d1 d1 d1 d1 d1 m8 b1000", "LOG many-small-logs 8"),
        ("d1 d1 d1 d1 d1 d1 d1 m100 b1000", "LOG many-small-logs 7"),
        ("m10 m30 m100 m300 m900 m2700 m8100 m24300 b1000000", "None few-logs 0"),
    ],
)
def test_choices(files: str, shown: str):
    """Each case is shown with its type, its reason and how many files are merged: the newest ones, and for FULL all.
    Keeps 1 and 2 of index/record/merge_choice."""
    decision = choose_merge(files_of(files), MERGE_OPTIONS)

    assert f"{decision.type} {decision.reason} {len(decision.files)}" == shown
    assert list(decision.files) == files_of(files)[: len(decision.files)]


def test_options():
    """Both limits are the operator's."""
    assert choose_merge(files_of("d1 d1 b1000"), MergeOptions(2, 0.5)).reason == "many-small-logs"
    assert choose_merge(files_of("d1 b2"), MergeOptions(2, 0.5)).reason == "log-ratio"
