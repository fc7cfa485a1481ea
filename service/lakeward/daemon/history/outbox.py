"""What waits to be remembered by the store: in order, each until the store has taken it.

    add --> waits --take--> under way --took it--> gone
              ^                 `--the store did not answer: first in line again

One batch is under way at a time, so nothing overtakes anything: a parking never comes after the resume that ended it.
What the store takes twice, because its first answer was lost, changes nothing there.

Touches: nothing itself; `send` calls what it was given, on the store's thread.
Keeps:   1. what was added is taken by the store, replaced by something newer with its key, or dropped as the oldest;
         2. no more than `most` wait, whatever the store does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakeward.base.errors import StoreBroken, StoreUnavailable, StoreVersion

AWAY = (StoreUnavailable, StoreBroken, StoreVersion, OSError)
"""Errors that say nothing about what was to be remembered, so that it is sent again."""


@dataclass(frozen=True, slots=True)
class Letter:
    what: str
    write: Callable[[], object]
    key: str | None = None
    """Letters with one key replace each other: only the newest that waits is worth anything."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What happened to a batch."""

    left: tuple[Letter, ...] = ()
    """Not taken; the first of them met `error`."""
    error: Exception | None = None
    refused: tuple[tuple[Letter, Exception], ...] = ()
    """Never to be taken: a bug in Lakeward."""


def send(letters: Sequence[Letter]) -> Sent:
    """Give them to the store, one after the other, until it does not answer."""
    refused: list[tuple[Letter, Exception]] = []
    for number, letter in enumerate(letters):
        try:
            letter.write()
        except AWAY as error:
            return Sent(tuple(letters[number:]), error, tuple(refused))
        except Exception as error:  # the next one is not to wait behind it for ever; the caller logs it
            refused.append((letter, error))
    return Sent(refused=tuple(refused))


class Outbox:
    """For one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[Letter] = deque()
        self._under_way: tuple[Letter, ...] = ()
        self._is_blocked = False

    def add(self, letter: Letter) -> Letter | None:
        """Returns the letter that there was no room for any more, the oldest."""
        if letter.key is not None:
            self._waiting = deque(each for each in self._waiting if each.key != letter.key)
        self._waiting.append(letter)
        return self._waiting.popleft() if len(self._waiting) > self._most else None

    def take(self) -> tuple[Letter, ...]:
        """The next batch; none while one is under way."""
        if self._under_way:
            return ()
        self._under_way = tuple(self._waiting)
        self._waiting.clear()
        return self._under_way

    def settle(self, sent: Sent) -> None:
        """The batch came back."""
        self._under_way = ()
        self._is_blocked = sent.error is not None
        newer = {letter.key for letter in self._waiting}
        self._waiting.extendleft(
            letter for letter in reversed(sent.left) if letter.key is None or letter.key not in newer
        )
        while len(self._waiting) > self._most:
            self._waiting.popleft()

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._under_way

    @property
    def is_blocked(self) -> bool:
        """The store did not answer when it was asked last."""
        return self._is_blocked
