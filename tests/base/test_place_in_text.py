"""Keeps of base/place_in_text: carets are below the place."""

import pytest

from lakeward.base.place_in_text import pointed_at


@pytest.mark.parametrize(
    ("text", "start", "end", "shown"),
    [
        ("id ~ 'k'", 3, 4, ["  id ~ 'k'", "     ^"]),
        ("id = x", 5, None, ["  id = x", "       ^"]),
        ("v =", 3, None, ["  v =", "     ^"]),
        ("a = 1\nand b ~~ 2\nor c", 12, 14, ["  and b ~~ 2", "        ^^"]),
        ("利马 ~ 1", 3, 4, ["  利马 ~ 1", "       ^"]),
        ("a\x1b~", 2, 3, ["  a ~", "    ^"]),
        ("", 0, None, ["  ", "  ^"]),
    ],
)
def test_carets_are_below_the_place(text: str, start: int, end: int | None, shown: list[str]) -> None:
    assert pointed_at(text, start, end).splitlines() == shown


def test_a_long_line_is_cut_around_the_place() -> None:
    line, carets = pointed_at("x" * 500 + "~" + "y" * 500, 500).splitlines()
    assert len(line) < 130 and line[carets.index("^")] == "~"
