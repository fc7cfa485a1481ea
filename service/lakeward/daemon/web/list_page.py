"""A page of a long list: which part of it is shown, and where that part lies.

Touches: nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    shown: tuple[T, ...]
    first: int
    """Number of the first one shown, from 1; 0 when there is none."""
    matching: int
    """How many there are on all pages."""
    page: int
    pages: int

    @property
    def last(self) -> int:
        return self.first + len(self.shown) - 1 if self.shown else 0


def cut_page(matching: Sequence[T], page: int, size: int) -> tuple[tuple[T, ...], int, int, int, int]:
    """The fields of a `ListPage`; a page beyond the last one is the last one.

    Args:
        page: the one that is asked for.
        size: how many a page has.
    """
    pages = max(1, math.ceil(len(matching) / size))
    page = min(page, pages)
    start = (page - 1) * size
    return tuple(matching[start : start + size]), start + 1 if matching else 0, len(matching), page, pages


def page_number(text: str) -> int:
    """1 for what is no number of a page."""
    return max(1, int(text)) if text.isdecimal() and text.isascii() and 0 < len(text) < 10 else 1
