"""The bucket of a key is the one that Hudi gives it."""

import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeward.base.errors import Unsupported
from lakeward.index.simple_bucket import bucket_numbers, bucket_places


def java_hash(text):
    units = text.encode("utf-16-be")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return found


def values_of(key, fields):
    """Hudi's search, in the plain words of texts. None where it does not end."""
    if "," not in key or ":" not in key:
        return [key]
    values, start = [], 0
    while start < len(key):
        colon = key.find(":", start)
        following = key.find(":", colon + 1)
        comma = key.rfind(",", 0, following) if following >= 0 else -1
        while following >= 0 and comma < colon:
            following = key.find(":", following + 1)
            comma = key.rfind(",", 0, following) if following >= 0 else -1
        is_last = comma < 0
        if key[start:colon] in fields:
            value = key[colon + 1 :] if is_last else key[colon + 1 : comma]
            values.append({"__null__": None, "__empty__": ""}.get(value, value))
        elif is_last and ":" in key[colon + 1 :]:
            return None
        start = len(key) if is_last else comma + 1
    return values or [key]


def bucket_of(key, fields, buckets):
    values = values_of(key, fields)
    if values is None:
        return None
    found = 1
    for value in values:
        found = (31 * found + (0 if value is None else java_hash(value))) % 2**32
    return (found & 0x7FFFFFFF) % buckets


keys = st.lists(st.sampled_from(["a", "b", ":", ",", "__null__", "__empty__", "é", "日", "😀", "\x00"])).map("".join)


@given(keys=st.lists(keys), fields=st.sampled_from([("a",), ("a", "b"), ("é",)]), skipped=st.integers(0, 2))
@example(keys=["b:1,a:x,y:z", "a:1,b:2:3", "x,a:5", "a:b,c"], fields=("a",), skipped=0)
def test_it_agrees_with_the_slow_twin(keys, fields, skipped):
    """Keys of any form, from any place in their buffers, have the bucket that Hudi's search and Java's hash give."""
    keys = keys[:skipped] + [key for key in keys[skipped:] if values_of(key, fields) is not None]

    found = bucket_numbers(pa.array(keys, pa.string())[skipped:], fields, 97)

    assert found.tolist() == [bucket_of(key, fields, 97) for key in keys[skipped:]]


def test_a_key_on_which_hudi_hangs_is_refused():
    """Keeps 2 of index/simple_bucket: a colon in the value of the last field, which is not hashed."""
    with pytest.raises(Unsupported, match="'a:1,b:2:3' has no bucket"):
        bucket_places(pa.array(["a:1,b:2", "a:1,b:2:3"]), ("a",), 4)


def test_places_have_eight_digits():
    assert bucket_places(pa.array(["k1", "k2"]), ("id",), 256).to_pylist() == ["00000069", "00000070"]
    assert bucket_places(pa.array([], pa.string()), ("id",), 4).to_pylist() == []


def test_only_buckets_that_are_met_are_named():
    """With the largest number of buckets that names have room for, a row takes no more than with two."""
    tracemalloc.start()
    (place,) = bucket_places(pa.array(["key"]), ("id",), 99_999_999).to_pylist()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert place == f"{bucket_of('key', ('id',), 99_999_999):08d}" and most < 2**20
