"""The terminal: names from a table are shown on it, and cannot command it.

A partition may be called anything that is UTF-8, `ESC[2J` or a line break included, and messages carry such names. What
would be a control character, or no character at all, is shown as an escape (`\\x1b`).

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

NO_WIDTH = 1 << 16
"""More than any line of Lakeward has."""


def shown(text: str) -> str:
    """The text with its line breaks, and escapes for what a terminal would not show as itself."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    # Other spaces than the plain one are no control characters; format characters may turn the text around.
    return (
        character
        if character.isspace() and ord(character) > 0x9F and character not in "\u2028\u2029"
        else (character.encode("unicode_escape").decode("ascii"))
    )


class Terminal(Console):
    """A console on which no text is a command; colours are Rich's.

    A pipe or a file has no width: what reads it finds each name whole, and each row of a table on one line.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.is_terminal and "width" not in options:
            self.width = NO_WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(shown(segment.text), segment.style)
