"""Processes of Lakeward do without pandas, also where it is installed.

PyArrow imports it, if it can, with the first array that it makes: a quarter of a second of CPU and 30 MB for each
process. Here only Spark Connect needs it, and it takes this back.

Touches: what this process can import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _WithoutPandas:
    """A finder of modules: an entry of None in `sys.modules` would do, but compiled modules take that for pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out of this process (lakeward.base.without_pandas)", name=name)
        return None


_FINDER = _WithoutPandas()


def leave_pandas_out() -> None:
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def allow_pandas() -> None:
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
