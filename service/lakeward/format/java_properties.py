r"""Java's `Properties` text, as in `hoodie.properties` and partition metadata: bytes in, a dict out, and back.

One `key=value` a line, in ISO-8859-1 with `\uXXXX` for other UTF-16 units. A line that ends with an odd number of
backslashes goes on with the next; `=`, `:` or blanks end a key; `#` or `!` opens a comment line.

Touches: nothing.
Keeps:   1. parse_properties(dump_properties(values)) == values, for any text;
         2. what java.util.Properties reads out of a file, this reads too; a later key replaces an earlier one. The one
            exception is the empty key that Java sees in a lone backslash at the very end of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lakeward.base.errors import BrokenFile

_BLANKS = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {character: f"\\{letter}" for letter, character in _ESCAPED.items()} | {c: f"\\{c}" for c in "\\=:#!"}
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u(?P<unit>[0-9A-Fa-f]{4})|(?P<broken>u)|(?P<character>.))", re.DOTALL)


def parse_properties(data: bytes) -> dict[str, str]:
    """All keys and values. Raises `BrokenFile` for an escape that is none, where Java fails too."""
    values: dict[str, str] = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key = _KEY.match(line)
        assert key is not None, "the pattern matches an empty key"
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None, "the pattern matches no separator"
        values[_unescape(key[0])] = _unescape(line[separator.end() :])
    return values


def dump_properties(values: Mapping[str, str]) -> bytes:
    """The lines in the order of `values`, as Java formats them, without a comment."""
    lines = [f"{_escape(key, every_blank=True)}={_escape(value, every_blank=False)}\n" for key, value in values.items()]
    return "".join(lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, each joined with those that it goes on in."""
    line = ""
    for part in _LINE_END.split(text):
        part = part.lstrip(_BLANKS)
        if not line and (not part or part[0] in "#!"):
            continue
        line += part
        if (len(part) - len(part.rstrip("\\"))) % 2 == 1:
            line = line[:-1]
        else:
            yield line
            line = ""
    if line:
        yield line


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_unescape_one, text)
    # Java escapes a character beyond the 16-bit ones as two units.
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape_one(match: re.Match[str]) -> str:
    if match["unit"] is not None:
        return chr(int(match["unit"], 16))
    if match["broken"] is not None:
        raise BrokenFile(r"The properties hold a \u that four hexadecimal digits do not follow.")
    return _ESCAPED.get(match["character"], match["character"])


def _escape(text: str, *, every_blank: bool) -> str:
    escaped: list[str] = []
    for index, character in enumerate(text):
        if character == " ":
            escaped.append("\\ " if every_blank or index == 0 else " ")
        elif character in _ESCAPES:
            escaped.append(_ESCAPES[character])
        elif " " < character < "\x7f":
            escaped.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            escaped.extend(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
    return "".join(escaped)
