"""How a text names a record key: by its length, unless an operator asked for keys (`--show-keys`).

A key is often a person's number or address, and errors and log lines go where the table's rows must not: into logs,
webhooks, tickets. So each text that names a key of a table says it through here. What an operator typed, such as the
keys of `index lookup`, and rows that a command prints are not hidden.

Touches: the environment of this process and of those that it starts, while keys are shown.
Keeps:   keys are hidden where nothing says that they may be shown, in tasks elsewhere too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SHOW_KEYS: Final = "LAKEWARD_SHOW_KEYS"
"""Set to 1 in the environment where keys may be shown."""


def named_key(key: str | bytes) -> str:
    """The key with quotes, or its length."""
    return repr(key) if _may_show() else _hidden(key)


def plain_key(key: str) -> str:
    """The key as it is, or its length."""
    return key if _may_show() else _hidden(key)


@contextmanager
def keys_shown() -> Iterator[None]:
    before = os.environ.get(SHOW_KEYS)
    os.environ[SHOW_KEYS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SHOW_KEYS]
        else:
            os.environ[SHOW_KEYS] = before


def _may_show() -> bool:
    return os.environ.get(SHOW_KEYS) == "1"


def _hidden(key: str | bytes) -> str:
    return f"[hidden, {len(key)} long; --show-keys shows it]"
