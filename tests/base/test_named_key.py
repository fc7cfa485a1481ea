"""Record keys are hidden in texts, unless a command was asked to show them."""

from __future__ import annotations

import pytest

from lakeward.base.named_key import SHOW_KEYS, keys_shown, named_key, plain_key


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHOW_KEYS, raising=False)


def test_keys_are_hidden() -> None:
    """No text has them where nothing says that it may; then they are as they are. Keeps of base/named_key."""
    assert "4711" not in named_key("person-4711") + plain_key("person-4711") + named_key(b"person-4711")
    with keys_shown():
        assert (named_key("a'b"), plain_key("a"), named_key(b"a")) == ('"a\'b"', "a", "b'a'")
    assert "4711" not in plain_key("person-4711")
