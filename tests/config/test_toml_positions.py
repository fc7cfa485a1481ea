"""Each key and element is found where it stands, however it is written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.config.toml_positions import Path, Position, find_positions


@pytest.mark.parametrize(
    ("text", "path", "position"),
    [
        ("a = 1", ("a",), (1, 1)),
        ("# head\n\n  a = 1", ("a",), (3, 3)),
        ("[a]\nb = 1\n[c]\nb = 2", ("c", "b"), (4, 1)),
        ("[ a . b ]\nc = 1", ("a", "b", "c"), (2, 1)),
        ("[ a . b ]\nc = 1", ("a", "b"), (1, 7)),
        ("a.b.c = 1", ("a", "b", "c"), (1, 5)),
        ("a . \"b.c\" . 'd' = 1", ("a", "b.c", "d"), (1, 13)),
        ('"a\\"b" = 1', ('a"b',), (1, 1)),
        ('"" = 1', ("",), (1, 1)),
        ("p = { 'x.y' = 1, z.w = 2 }", ("p", "z", "w"), (1, 20)),
        ("p = { q = { r = 1 }, s = 2 }", ("p", "s"), (1, 22)),
        ("a = [1, 'x', [2, 3]]", ("a", 2, 1), (1, 18)),
        ("a = [\n  1, # one ]\n  2,\n]\nb = 1", ("a", 1), (3, 3)),
        ("a = [\n  1, # one ]\n  2,\n]\nb = 1", ("b",), (5, 1)),
        ("a = [{ b = 1 }, { b = 2 }]", ("a", 1, "b"), (1, 19)),
        ("[[t]]\nx = 1\n[[t]]\nx = 2", ("t", 1), (3, 1)),
        ("[[t]]\nx = 1\n[[t]]\nx = 2", ("t", 1, "x"), (4, 1)),
        ("[[t]]\n[t.u]\nx = 1\n[[t]]\n[t.u]\nx = 2", ("t", 1, "u", "x"), (6, 1)),
        ("[[t]]\n[[t.u]]\n[[t.u]]\nx = 1\n[[t]]\n[[t.u]]\nx = 2", ("t", 1, "u", 0, "x"), (7, 1)),
        ('a = """\nb = 1\n[c]\n"""\nb = 2', ("b",), (5, 1)),
        ("a = '''\nb = 1\n'''\nb = 2", ("b",), (4, 1)),
        ('a = """""x"""""\nb = 2', ("b",), (2, 1)),
        ('a = """\\""""\nb = 2', ("b",), (2, 1)),
        ("a = ''''x'''''\nb = 2", ("b",), (2, 1)),
        ('a = ""\nb = 2', ("b",), (2, 1)),
        ("a = '#'\nb = 2", ("b",), (2, 1)),
        ("a = 1979-05-27 07:32:00 # then\nb = 2", ("b",), (2, 1)),
        ("a = 1\r\nb = 2\r\n", ("b",), (2, 1)),
        ("'é' = 1\n'ß'.'ü' = 2", ("ß", "ü"), (2, 5)),
    ],
)
def test_where_a_key_stands(text: str, path: Path, position: tuple[int, int]) -> None:
    """A key is found under its own name, whatever strings, comments and brackets stand before it."""
    tomllib.loads(text)
    assert find_positions(text)[path] == Position(*position)


keys = st.sampled_from(["a", "b-c", "d.e", 'f"g', "h i", "1", "'", "ü", ""])
scalars = st.sampled_from(["1", "1.5", "true", "'x # ]'", '"y\\" }"', '"""z\n[a]\n""" ', "'''\nw'''", "07:32:00"])


def formatted(key: str) -> str:
    if key in ("a", "b-c", "1"):
        return key
    return f"'{key}'" if "'" not in key else '"' + key + '"'


def inline(pairs: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{formatted(key)} = {value}" for key, value in pairs.items()) + " }"


values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[ # ]\n" + ",\n ".join(items) + "]")
        | st.dictionaries(keys, inner, max_size=3).map(inline)
    ),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines: list[str] = [f"{formatted(key)} = {value}" for key, value in draw(st.dictionaries(keys, values)).items()]
    for name in draw(st.lists(st.sampled_from(["t", "u", "t.v", "u.'w x'"]), max_size=5)):
        lines.append(draw(st.sampled_from([f"[{name}]", f"[[{name}]] # [", f"[[ {name} ]]"])))
        lines += [f"{formatted(key)} . x = {value}" for key, value in draw(st.dictionaries(keys, values)).items()]
    return "\n".join(lines)


@given(documents())
def test_the_paths_are_those_of_the_document(text: str) -> None:
    """Nothing is missed, nothing is made up, and where a key is said to stand its name begins."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a table defined twice
    positions = find_positions(text)
    assert positions.keys() == set(paths_in(document))
    lines = text.split("\n")
    for path, position in positions.items():
        if isinstance(key := path[-1], str):
            there = lines[position.line - 1][position.column - 1 :]
            assert there.startswith((formatted(key), key))


def paths_in(value: Any, path: Path = ()) -> list[Path]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [found for key, item in inner for found in [(*path, key), *paths_in(item, (*path, key))]]
