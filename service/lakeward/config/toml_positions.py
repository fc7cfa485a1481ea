"""Positions of each key and each element of an array in a TOML text, so that an error can name its line.

`tomllib` says what a text means and not where; tomlkit keeps no positions, and what adds them to it is no library
that we would rest on: so this walks over a text that `tomllib` has already accepted and notes where things begin.
Because the text is known to be right, it looks only for where keys, strings and brackets begin and end.

Touches: nothing.
Keeps:   the paths are those of `tomllib.loads`: of each table, key and element, once, at its first mention.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

Path = tuple[str | int, ...]
"""Keys and indices from the top of the document: `("tables", 2, "interval")`."""

_BLANK = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[^\s.=\]\"']+")
_BARE_VALUE = re.compile(r"[^,\]}#\r\n]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3}(?!")'  # of more quotes than three, the last three close
    r"|'''.*?'{3}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Counted from 1; a column is a character."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


def find_positions(text: str) -> Mapping[Path, Position]:
    """The position of each thing in `text`, which `tomllib` must have accepted: keys by their name, elements by
    index."""
    walk = _Walk(text)
    walk.document()
    return walk.positions


class _Walk:
    """One pass over the text."""

    def __init__(self, text: str) -> None:
        # As tomllib does: a line ends in one character.
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._lines = [0, *(match.end() for match in re.finditer("\n", self._text))]
        self._elements: dict[Path, int] = {}
        """Number of elements so far of each array of tables."""
        self.positions: dict[Path, Position] = {}

    def document(self) -> None:
        table: Path = ()
        while self._skip(_BETWEEN) < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._key_and_value(table)

    def _header(self) -> Path:
        """`[a.b]` or `[[a.b]]`."""
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        begin = self._at
        self._at += brackets
        keys = self._keys()
        path: Path = ()
        for key, at in keys[:-1]:
            path = self._newest((*path, key), at)
        key, at = keys[-1]
        if brackets == 1:
            path = self._newest((*path, key), at)
        else:
            self._note((*path, key), at)
            index = self._elements.get((*path, key), 0)
            self._elements[*path, key] = index + 1
            path = (*path, key, index)
            self._note(path, begin)
        self._at += brackets
        return path

    def _newest(self, path: Path, at: int) -> Path:
        """A header names an array of tables to speak of its last element."""
        self._note(path, at)
        count = self._elements.get(path)
        return path if count is None else (*path, count - 1)

    def _key_and_value(self, table: Path) -> None:
        path = table
        for key, at in self._keys():
            path = (*path, key)
            self._note(path, at)
        self._at += len("=")
        self._value(path)

    def _keys(self) -> list[tuple[str, int]]:
        """A dotted key as its parts, each with where it stands; ends after the blanks that follow."""
        keys: list[tuple[str, int]] = []
        while True:
            begin = self._skip(_BLANK)
            if self._text[begin] in "\"'":
                quoted = self._take(_STRING)
                keys.append((next(iter(tomllib.loads(f"{quoted} = 0"))), begin))
            else:
                keys.append((self._take(_BARE_KEY), begin))
            if self._text[self._skip(_BLANK)] != ".":
                return keys
            self._at += len(".")

    def _value(self, path: Path) -> None:
        match self._text[self._skip(_BETWEEN)]:
            case '"' | "'":
                self._take(_STRING)
            case "[":
                self._at += len("[")
                index = 0
                while self._text[self._skip(_BETWEEN)] != "]":
                    self._note((*path, index), self._at)
                    self._value((*path, index))
                    self._separator()
                    index += 1
                self._at += len("]")
            case "{":
                self._at += len("{")
                while self._text[self._skip(_BETWEEN)] != "}":
                    self._key_and_value(path)
                    self._separator()
                self._at += len("}")
            case _:
                self._take(_BARE_VALUE)

    def _separator(self) -> None:
        if self._text[self._skip(_BETWEEN)] == ",":
            self._at += len(",")

    def _note(self, path: Path, at: int) -> None:
        line = bisect.bisect_right(self._lines, at)
        self.positions.setdefault(path, Position(line, at - self._lines[line - 1] + 1))

    def _skip(self, what: re.Pattern[str]) -> int:
        match = what.match(self._text, self._at)
        assert match is not None, "a pattern that may be empty matches everywhere"
        self._at = match.end()
        return self._at

    def _take(self, what: re.Pattern[str]) -> str:
        match = what.match(self._text, self._at)
        if match is None:
            self._lost()
        self._at = match.end()
        return match[0]

    def _lost(self) -> NoReturn:
        raise AssertionError(f"no TOML at character {self._at}, though tomllib accepted the text")
