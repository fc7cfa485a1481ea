"""Record keys as a caller names them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import UsageError
from lakeward.scan.record_keys import key_texts, split_keys


@pytest.mark.parametrize(
    ("given", "fields", "texts"),
    [
        ("k1", ("id",), ("k1",)),
        (17, ("id",), ("17",)),
        (["b", "a", "b", 3], ("id",), ("b", "a", "3")),
        ([], ("id",), ()),
        ({"id": "x"}, ("id",), ("x",)),
        ("a:1,b:2", ("a", "b"), ("a:1,b:2",)),
        ([{"b": None, "a": 1}, {"a": "", "b": "x"}], ("a", "b"), ("a:1,b:__null__", "a:__empty__,b:x")),
        (pa.array(["k1", "k2"]), ("id",), ("k1", "k2")),
        (pa.chunked_array([[1], [2]]), ("id",), ("1", "2")),
        ((key for key in ("k1", "k2")), (), ("k1", "k2")),
    ],
)
def test_keys_are_written_as_hudi_writes_them(given: Any, fields: tuple[str, ...], texts: tuple[str, ...]) -> None:
    assert key_texts(given, fields) == texts


@pytest.mark.parametrize(
    ("given", "fields", "said"),
    [
        (1.5, ("id",), "1.5 is not a record key"),
        (None, ("id",), "None is not a record key"),
        ([None], ("id",), "None is not a record key"),
        (True, ("id",), "True is not a record key"),
        (7, ("a", "b"), "The key 7 is one value, and the table's keys have the fields a, b. Write it as a:…,b:…."),
        ({"a": 1}, ("a", "b"), "does not have the fields of the table's keys: a, b"),
        ({"a": 1.5, "b": 1}, ("a", "b"), "The value 1.5 of a key field is neither text nor a whole number"),
    ],
)
def test_what_is_no_key_is_an_error(given: Any, fields: tuple[str, ...], said: str) -> None:
    """Keeps scan/record_keys."""
    with pytest.raises(UsageError) as caught:
        key_texts(given, fields)
    assert said in str(caught.value)


def test_keys_of_an_option() -> None:
    """Keys have commas between them; of several fields each begins with the first."""
    assert split_keys("k1, k2,,k3", ("id",)) == ("k1", "k2", "k3")
    assert split_keys("a:1,b:2, a:3,b:x,y", ("a", "b")) == ("a:1,b:2", "a:3,b:x,y")
    assert split_keys("", ("a", "b")) == ()
