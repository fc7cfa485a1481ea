"""Paths of a table as text: names with / between them, below a base path or a URL.

Touches: nothing.
"""

from __future__ import annotations

import posixpath


def join(folder: str, *names: str) -> str:
    """`folder/name/…`, skipping empty names (the unpartitioned partition path is empty)."""
    return posixpath.join(folder, *(name for name in names if name))


def parent(path: str) -> str:
    return posixpath.dirname(path)
