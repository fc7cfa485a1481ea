"""What waits for the store, while the store answers, does not, and answers again."""

from __future__ import annotations

from collections.abc import Callable

from lakeward.base.errors import StoreUnavailable
from lakeward.daemon.history.outbox import Letter, Outbox, send


class Post:
    """A store that takes letters, or does not."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.error: Exception | None = None

    def letter(self, what: str, key: str | None = None) -> Letter:
        return Letter(what, self._write(what), key)

    def _write(self, what: str) -> Callable[[], None]:
        def write() -> None:
            if self.error is not None:
                raise self.error
            self.taken.append(what)

        return write


def test_letters_arrive_in_order_over_an_outage() -> None:
    """What was under way when the store went away comes first when it is back; nothing overtakes it."""
    post, outbox = Post(), Outbox(10)
    outbox.add(post.letter("a"))
    outbox.add(post.letter("b"))
    post.error = StoreUnavailable("away")
    batch = outbox.take()
    outbox.add(post.letter("c"))
    assert outbox.take() == (), "one batch at a time"
    outbox.settle(send(batch))
    assert outbox.is_blocked and not outbox.is_empty

    post.error = None
    outbox.settle(send(outbox.take()))

    assert post.taken == ["a", "b", "c"]
    assert outbox.is_empty and not outbox.is_blocked


def test_only_the_newest_of_a_key_waits() -> None:
    """This is so when an older one comes back untaken, too."""
    post, outbox = Post(), Outbox(10)
    outbox.add(post.letter("old", "plan t"))
    post.error = StoreUnavailable("away")
    batch = outbox.take()
    outbox.add(post.letter("newer", "plan t"))
    outbox.add(post.letter("newest", "plan t"))
    outbox.settle(send(batch))
    post.error = None

    outbox.settle(send(outbox.take()))

    assert post.taken == ["newest"]


def test_a_letter_that_can_never_be_taken_holds_up_no_other() -> None:
    """A fault of Lakeward is named; those behind it arrive."""
    post, outbox = Post(), Outbox(10)

    def broken() -> None:
        raise TypeError("no such column")

    outbox.add(Letter("broken", broken))
    outbox.add(post.letter("b"))

    sent = send(outbox.take())
    outbox.settle(sent)

    assert post.taken == ["b"] and outbox.is_empty
    assert [letter.what for letter, _ in sent.refused] == ["broken"]


def test_there_is_an_end_to_what_waits() -> None:
    """The oldest entry goes, and is handed back so that the caller says so."""
    post, outbox = Post(), Outbox(2)
    assert outbox.add(post.letter("a")) is None
    outbox.add(post.letter("b"))

    dropped = outbox.add(post.letter("c"))

    assert dropped is not None and dropped.what == "a"
    assert [letter.what for letter in outbox.take()] == ["b", "c"]
