"""The two orders of keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.hfile.reader import KeyOrder, depends_on_order

text = st.text(
    alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("a\ud7ff\ue000！￿😀𐀀\U0010ffff")), max_size=5
)


def in_java(one: str, other: str) -> bool:
    return one.encode("utf-16-be") < other.encode("utf-16-be")


@given(one=text, other=text)
def test_ranks_compare_as_java_compares_strings(one: str, other: str):
    """In the UTF-16 order ranks compare as the strings do in Java, in the other as their bytes do."""
    ranks = [KeyOrder.UTF_16.rank(key.encode()) for key in (one, other)]

    assert (ranks[0] < ranks[1]) == in_java(one, other)
    assert KeyOrder.BYTES.rank(one.encode()) == one.encode()


@given(one=text, other=text)
def test_a_key_that_does_not_depend_on_the_order_compares_alike_in_both(one: str, other: str):
    """Whatever it is compared with; so one search finds its place in files of either order."""
    if not depends_on_order(one.encode()):
        assert (one.encode() < other.encode()) == in_java(one, other)
