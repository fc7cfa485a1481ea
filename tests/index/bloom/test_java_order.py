"""Keys in the order of Java's strings."""

from random import Random

import pyarrow as pa
import pytest

from lakeward.index.bloom.java_order import java_order
from tests.runs import runs

LETTERS = ("aZ\x00", "é߿", "ࠀ퟿", "\ue000\uffff", "\U00010000\U0010ffff")


@pytest.mark.parametrize("seed", range(runs(30)))
def test_order_is_that_of_utf_16_units(seed):
    """Beside each other stand characters of all lengths in UTF-8, on both sides of the surrogates; also in a slice."""
    chance = Random(seed)
    letters = "".join(LETTERS[: chance.randint(1, len(LETTERS))])
    keys = ["".join(chance.choices(letters, k=chance.randrange(4))) for _ in range(40)]

    in_order = sorted(zip(java_order(pa.array(["", *keys]).slice(1)).to_pylist(), keys, strict=True))

    assert [key for _, key in in_order] == sorted(keys, key=lambda key: key.encode("utf-16-be"))


def test_no_keys():
    """None are in any order."""
    assert java_order(pa.array([], pa.string())).to_pylist() == []
