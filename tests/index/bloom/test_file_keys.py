"""What is said of a base file rules no key out that it has."""

import base64
from random import Random

import pyarrow as pa
import pytest

from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE
from lakeward.format.parquet.key_summary import BLOOM_KEY, MAX_KEY, MIN_KEY, KeySummary
from lakeward.index.bloom.file_keys import FileKeys
from tests.runs import runs


def entries_of(keys, bloom_type=TYPE_CODE):
    summary = KeySummary(keys_expected=None, bloom_type=bloom_type)
    if keys:
        summary.add(pa.array(keys))
    return {name.encode(): value.encode() for name, value in summary.entries().items()}


@pytest.mark.parametrize("seed", range(runs(20)))
def test_keys_of_the_file_are_possible(seed):
    """Keeps 1 of index/bloom/file_keys: whatever of range and filter there is, and whatever the type of the filter.
    Of other keys the filter leaves none here, and the range alone those that lie within it as Java has them."""
    chance = Random(seed)
    letters = "ab\uffff\U00010000"
    keys = sorted({"".join(chance.choices(letters, k=chance.randrange(1, 5))) for _ in range(60)})
    of_file, others = keys[::2], keys[1::2]
    entries = entries_of(of_file, chance.choice([TYPE_CODE, SIMPLE_TYPE_CODE]))
    for missing in ((), (BLOOM_KEY,), (MIN_KEY,), (MAX_KEY, BLOOM_KEY)):
        left = {name: value for name, value in entries.items() if name.decode() not in missing}
        assert FileKeys.of_footer(left).possible(pa.array(of_file)).to_pylist() == of_file

    in_java = sorted(of_file, key=lambda key: key.encode("utf-16-be"))
    low, high = (key.encode("utf-16-be") for key in (in_java[0], in_java[-1]))
    by_range = {name: value for name, value in entries.items() if name != BLOOM_KEY.encode()}
    assert FileKeys.of_footer(entries).possible(pa.array(others)).to_pylist() == []
    assert FileKeys.of_footer(by_range).possible(pa.array(others)).to_pylist() == [
        key for key in others if low <= key.encode("utf-16-be") <= high
    ]


@pytest.mark.parametrize(
    "entries",
    [
        {BLOOM_KEY: b"no base64!"},
        {BLOOM_KEY: base64.b64encode(b"no filter")},
        {BLOOM_KEY: b""},
        {MIN_KEY: b"z", MAX_KEY: b"a"},
        {MIN_KEY: b"\xff", MAX_KEY: b"z"},
    ],
)
def test_what_is_broken_rules_nothing_out(entries):
    """A filter that is none, a range that ends before it begins, or one that is no text."""
    footer = {name.encode(): value for name, value in entries.items()}

    assert FileKeys.of_footer(footer).possible(pa.array(["a", "m"])).to_pylist() == ["a", "m"]
