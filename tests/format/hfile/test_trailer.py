"""The trailer of an HFile: what it says is compared with what is there."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from tests.format.hfile.hfile_files import Entries, hfile, reader

ENTRIES: Entries = [(f"key-{n:03}".encode(), b"value") for n in range(40)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({7: None}, "no number in field 7"),
        ({7: 39}, "the trailer counts 39 entries, and the data blocks hold 40"),
        ({7: 0}, "the trailer counts 0 entries"),
        ({5: None}, "no number in field 5"),
        ({5: 13}, "more than the 13 entries"),
        ({5: 15}, "entry 14 of the index's 15"),
        ({5: 2**40}, "cannot be read"),
        ({8: None}, "no number in field 8"),
        ({8: 0}, "an index of 0 levels"),
        ({8: 2**62}, "levels"),
        ({2: None}, "no number in field 2"),
        ({2: 0}, "where the block IDXROOT2 belongs"),
        ({2: 2**63}, "lies outside of the HFile"),
        ({2: b"text"}, "no number in field 2"),
        ({6: 1}, "entry 0 of the index's 1"),
    ],
)
def test_a_trailer_that_lies_is_broken(changed: dict[int, Any], why: str):
    """What the trailer says is compared with what is there, so that nothing is left out in silence."""
    with pytest.raises(BrokenFile) as error:
        list(reader(hfile(ENTRIES, changed=changed)).entries())
    assert why.lower() in str(error.value).lower()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"changed": {12: 3}}, "compressed with codec 3"),
        ({"changed": {13: b"key"}}, "encrypted"),
        ({"major": 2}, "HFile of version 2"),
    ],
)
def test_what_hudi_never_writes_is_refused(options: dict[str, Any], why: str):
    """A file that is whole and means something else than we think is refused, not misread."""
    with pytest.raises(Unsupported, match=why):
        reader(hfile(ENTRIES, **options))


def test_an_empty_encryption_key_is_none():
    """Early native writers wrote one."""
    assert list(reader(hfile(ENTRIES, changed={13: b""})).entries()) == ENTRIES
