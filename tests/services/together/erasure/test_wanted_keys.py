"""Keys are found in columns and in text, against a search that is slow and obvious."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pyarrow as pa
import pytest

from lakeward.services.together.erasure.wanted_keys import ErasureKeys


def test_keys_in_a_column() -> None:
    """Keys that are in it are found, and no others; of slices, of binary, with nulls. Keeps 1 of
    services/together/erasure/wanted_keys."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    pool = [f"{chance.choice('aä😀')}{number}" for number in range(400)] + [""]
    wanted = chance.sample(pool, 150)
    keys = ErasureKeys(wanted)
    for kind in (pa.string(), pa.binary(), pa.large_string()):
        there = [chance.choice([*pool, None]) for _ in range(300)]
        column = pa.array(there, pa.string()).cast(kind).slice(chance.randrange(20))
        expected = {number for number, key in enumerate(wanted) if key in set(column.cast(pa.string()).to_pylist())}
        assert set(keys.in_column(column).tolist()) == expected, kind


def test_keys_of_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared by all of their bytes. Keeps 1 of services/together/erasure/wanted_keys."""
    monkeypatch.setattr(
        "lakeward.services.together.erasure.wanted_keys.key_hashes", lambda keys: np.zeros(len(keys), np.uint64)
    )
    keys = ErasureKeys(["a", "b", "c"])

    assert keys.in_column(pa.array(["b", "d"])).tolist() == [1]
    assert ErasureKeys(["a"]).in_column(pa.array(["b"])).tolist() == []


FOUND = {
    b"order-100": "alone",
    b'{"key":"order-100"}': "in JSON",
    b"x\x12order-100x": "in Avro, behind its length",
    b"x\x09order-100x": "in Thrift",
    b"x\x00\x00\x00\x09order-100x": "in Java",
    b"p=order-100/file": "in a path",
}
NOT_FOUND = {
    b"order-1000": "longer",
    b"border-100": "longer in front",
    b"order-100-b": "a longer word",
    b"order-10": "",
}


@pytest.mark.parametrize("text", FOUND)
def test_keys_in_text(text: bytes) -> None:
    """Keeps 2 of services/together/erasure/wanted_keys."""
    assert ErasureKeys(["order-200", "order-100"]).in_text(text).tolist() == [1]


@pytest.mark.parametrize("text", NOT_FOUND)
def test_parts_of_longer_words(text: bytes) -> None:
    """Keeps 2 of services/together/erasure/wanted_keys."""
    assert ErasureKeys(["order-200", "order-100"]).in_text(text).tolist() == []


def test_keys_as_they_are_written() -> None:
    """In JSON with escapes, and in the path of a partition. Keeps 2 of services/together/erasure/wanted_keys."""
    keys = ErasureKeys(['say "hi" to ü', "a/b=c d-99"])

    assert keys.in_text(json.dumps({"k": 'say "hi" to ü'}).encode()).tolist() == [0]
    assert keys.in_text(b"part=a%2Fb%3Dc%20d-99/x").tolist() == [1]


def test_short_keys_are_not_looked_for_in_text() -> None:
    """They occur by chance, and are counted."""
    keys = ErasureKeys(["1234567", "12345678"])

    assert keys.in_text(b" 1234567 12345678 ").tolist() == [1]
    assert keys.too_short_for_text == 1


def test_text_as_a_slow_search_finds_it() -> None:
    """Random words in random places, each at every offset of eight bytes."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(300):
        wanted = list({"".join(chance.choices("ab", k=chance.randint(8, 12))) for _ in range(chance.randint(1, 20))})
        text = " ".join("".join(chance.choices("ab", k=chance.randint(7, 13))) for _ in range(60))
        text = " " * chance.randrange(9) + text
        words = set(re.findall(r"\w+", text))
        assert {wanted[at] for at in ErasureKeys(wanted).in_text(text.encode()).tolist()} == words & set(wanted)
